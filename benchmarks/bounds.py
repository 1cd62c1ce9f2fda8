"""How far the lower bound lies below what policies reach: `python benchmarks/bounds.py [--workload NAME ...]`.

For the first four test windows of every workload: the mean of the bounds, of the least times (each job with its best
shape and type of GPU, alone), and of the best policy in each window of those in `per_window.csv`; and the mean ratio of
bound and best. It simulates nothing.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_cluster_gym.evaluation.lower_bound import lower_bound
from gpu_cluster_gym.workloads import named, names, windows

REACHED = Path(__file__).with_name("per_window.csv")
WINDOWS = 4


def best_in(workload: str, window: int) -> tuple[float, str]:
    """Return the least mean JCT of a window in the file, s, and whose it is."""
    with REACHED.open(newline="") as lines:
        return min(
            (float(cell["mean_jct_s"]), cell["policy"])
            for cell in csv.DictReader(lines)
            if (cell["workload"], cell["window"]) == (workload, str(window)) and cell["digest"]
        )


def row(workload: str) -> str:
    """Return a line about a workload."""
    best = [best_in(workload, number) for number in range(WINDOWS)]
    episodes = [load.episode() for load in windows(named(workload), "test", WINDOWS)]
    least = [float(episode.fastest_s.mean()) for episode in episodes]
    bounds = [lower_bound(episode) for episode in episodes]
    if any(bound > jct_s for bound, (jct_s, _) in zip(bounds, best, strict=True)):
        raise RuntimeError(f"{workload}: the file has a mean JCT below the bound: is it of these windows?")
    ratio = sum(bound / jct_s for bound, (jct_s, _) in zip(bounds, best, strict=True)) / WINDOWS
    means = (sum(values) / WINDOWS for values in (bounds, least, [jct_s for jct_s, _ in best]))
    numbers = "  ".join(f"{mean:10,.0f}" for mean in means)
    return f"{workload:14}{numbers}  {ratio:12.3f}  {', '.join(sorted({policy for _, policy in best}))}"


def main(args: Sequence[str] | None = None) -> int:
    """Print a line a workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", nargs="+", choices=names(), default=names())
    print(
        f"{'workload':14}{'bound':>10}  {'least time':>10}  {'best':>10}  {'bound / best':>12}  best policies"
    )
    for workload in parser.parse_args(args).workload:
        print(row(workload), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
