"""Compare the results of every policy on every workload with frozen ones, window by window, to the last digit.

`python -m benchmarks.per_window [--policy NAME ...] [--workload NAME ...] [--processes P]` simulates the first four
test windows of every workload under every policy but `lookahead`, and compares mean JCTs and a digest of all finish
times with `per_window.csv`; the exit code is 1 where one differs. `--write` replaces the file, or only the rows of the
policies and workloads named. A change that moves or renames code must leave the file as it is. A change to what is
simulated writes it in the same commit and says so.
"""

import argparse
import csv
import hashlib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from joblib import Parallel, delayed

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Workload, named, windows
from gpu_cluster_gym.workloads import names as workload_names

FILE = Path(__file__).with_suffix(".csv")
POLICIES = tuple(baselines.quick_names())
WINDOWS = 4


class Cell(NamedTuple):
    """What became of a window under a policy; floats as `repr` writes them, so that all their digits stand."""

    workload: str
    window: str
    policy: str
    mean_jct_s: str
    digest: str


def cell(workload: str, number: int, load: Workload, policy: str) -> Cell:
    """Simulate a policy on a window; where it cannot run, the kind of error stands for the mean JCT."""
    chosen = baselines.load(policy)
    try:
        episode = run(baselines.make(chosen), load.episode())
        table = load.results(episode)
    except (ValueError, RuntimeError) as error:
        return Cell(workload, str(number), policy, type(error).__name__, "")
    finish = table["finish_s"].to_numpy(float)
    digest = hashlib.sha256(finish.tobytes()).hexdigest()[:16]
    return Cell(workload, str(number), policy, repr(float(table["jct_s"].mean())), digest)


def measured(workloads: Sequence[str], policies: Sequence[str], processes: int) -> list[Cell]:
    """Return every cell, in the order of the file."""
    scenarios = {name: named(name) for name in workloads}
    loads = {name: windows(scenario, "test", WINDOWS) for name, scenario in scenarios.items()}
    tasks = [
        delayed(cell)(name, number, load, policy)
        for name in workloads
        for number, load in enumerate(loads[name])
        for policy in policies
    ]
    found: list[Cell] = Parallel(processes, batch_size=1)(tasks)
    return found


def kept(file: Path) -> dict[tuple[str, ...], Cell]:
    """Return the cells of a file by workload, window and policy."""
    with file.open(newline="") as lines:
        return {cell[:3]: cell for cell in (Cell(**row) for row in csv.DictReader(lines))}


def with_others(cells: Sequence[Cell]) -> list[Cell]:
    """Return these cells and those of the file that were not simulated, in the order of the file."""
    known = kept(FILE) if FILE.is_file() else {}
    whole = known | {cell[:3]: cell for cell in cells}
    keys = itertools.product(workload_names(), map(str, range(WINDOWS)), POLICIES)
    return [whole[key] for key in keys if key in whole]


def write(cells: Sequence[Cell]) -> None:
    """Write the file."""
    with FILE.open("w", newline="") as lines:
        out = csv.writer(lines, lineterminator="\n")
        out.writerow(Cell._fields)
        out.writerows(cells)


def main(args: Sequence[str] | None = None) -> int:
    """Simulate, and write the file or compare with it; return the exit code."""
    known = workload_names()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", nargs="+", choices=POLICIES, help="those of the file, if not given")
    parser.add_argument("--workload", nargs="+", choices=known, default=known)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="replace the file")
    chosen = parser.parse_args(args)
    if not (chosen.write or FILE.is_file()):
        parser.error(f"{FILE.name} does not exist: --write makes it")
    before = {} if chosen.write else kept(FILE)
    policies = chosen.policy or [
        name for name in POLICIES if chosen.write or name in {key[2] for key in before}
    ]
    cells = measured(chosen.workload, policies, chosen.processes)
    if chosen.write:
        write(with_others(cells))
        return 0
    if missing := sorted(set(POLICIES) - {key[2] for key in before}):
        print(f"{FILE.name} lacks {', '.join(missing)}: --write --policy NAME adds them")
        return 1
    changed = [cell for cell in cells if before[cell[:3]] != cell]
    for now in changed:
        was = before[now[:3]]
        print(f"{' '.join(now[:3])}: {was.mean_jct_s} {was.digest} -> {now.mean_jct_s} {now.digest}")
    print(f"{len(cells) - len(changed)} of {len(cells)} cells are equal to the digit")
    return 1 if changed or not cells else 0


if __name__ == "__main__":
    sys.exit(main())
