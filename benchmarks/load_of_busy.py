"""Print what share of its time a job waits under `union` on training windows of `busy`, load by load.

`python benchmarks/load_of_busy.py [--windows N] [LOAD ...]` offers the jobs of each window at each load. By it the load
of the workload was set: the one at which waiting is a third of mean JCT.
"""

import argparse
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import busy, windows

LOADS = (1.0, 1.2, 1.4, 1.5, 1.6, 1.7, 1.8, 2.0)
WINDOWS = 32


def measured(load: float, count: int) -> tuple[float, float, float, float]:
    """Return, over training windows at a load, means: waiting / JCT, JCT s, span h, and the share of overhead."""
    with patch.object(busy, "LOAD", load):
        found = windows(busy.scenario, "train", count)
    tables = [each.results(run(baselines.load("union"), each.episode())) for each in found]
    jct_s = np.mean([table["jct_s"].mean() for table in tables])
    waits, overheads = (
        np.mean([table[name].mean() for table in tables]) for name in ("wait_s", "overhead_s")
    )
    span_h = np.mean([each.table["submit_s"].max() for each in found]) / 3600
    return float(waits / jct_s), float(jct_s), float(span_h), float(overheads / jct_s)


def main(args: Sequence[str] | None = None) -> None:
    """Print a row for each load."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("load", nargs="*", type=float, default=LOADS)
    parser.add_argument("--windows", type=int, default=WINDOWS, help="of the training part")
    chosen = parser.parse_args(args)
    print("| load | waiting / JCT | mean JCT, s | arrivals span, h | overhead / JCT |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for load in chosen.load:
        share, jct_s, span_h, overhead = measured(load, chosen.windows)
        print(f"| {load:g} | {share:.3f} | {jct_s:,.0f} | {span_h:.1f} | {overhead:.3f} |", flush=True)


if __name__ == "__main__":
    main()
