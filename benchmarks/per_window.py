"""Compare the simulator's results with those of an earlier commit, to the last digit.

`python -m benchmarks.per_window [--policy NAME ...] [--workload NAME ...] [--processes P]` simulates the first four
test windows of every workload under every policy but `lookahead` and compares each mean JCT, and a digest of all finish
times, with `per_window.csv`; the exit code is 1 if one differs. `--write` updates that file, or only the rows of these
policies and workloads. A commit that changes simulation results updates the file and says so; a refactoring must leave
it unchanged.
"""

import argparse
import csv
import hashlib
import itertools
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation.each import each, in_order
from gpu_cluster_gym.evaluation.runner import is_oracle
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Workload, named, windows
from gpu_cluster_gym.workloads import names as workload_names

FILE = Path(__file__).with_suffix(".csv")
POLICIES = tuple(baselines.quick_names())
WINDOWS = 4


class Cell(NamedTuple):
    """Result of a policy on a window; floats as written by `repr`, with all their digits."""

    workload: str
    window: str
    policy: str
    mean_jct_s: str
    digest: str


def cell(workload: str, number: int, load: Workload, policy: str) -> Cell:
    """Simulate a policy on a window; where it cannot run, the kind of error replaces the mean JCT."""
    try:
        episode = run(baselines.make(baselines.load(policy)), load.episode(), oracle=is_oracle(policy))
        table = load.results(episode)
    except (ValueError, RuntimeError) as error:
        return Cell(workload, str(number), policy, type(error).__name__, "")
    finish = table["finish_s"].to_numpy(float)
    digest = hashlib.sha256(finish.tobytes()).hexdigest()[:16]
    return Cell(workload, str(number), policy, repr(float(table["jct_s"].mean())), digest)


def measured(workloads: Sequence[str], policies: Sequence[str], processes: int) -> list[Cell]:
    """Return every cell, in the order of the file."""
    loads = {name: windows(named(name), "test", WINDOWS) for name in workloads}
    tasks = [
        partial(cell, name, number, load, policy)
        for name in workloads
        for number, load in enumerate(loads[name])
        for policy in policies
    ]
    return [*in_order(each(tasks, processes))]


def kept() -> dict[tuple[str, ...], Cell]:
    """Return the cells of the file by workload, window and policy."""
    with FILE.open(newline="") as lines:
        return {cell[:3]: cell for cell in (Cell(**row) for row in csv.DictReader(lines))}


def with_others(cells: Sequence[Cell]) -> list[Cell]:
    """Return these cells, and the file's cells that were not simulated, in the order of the file."""
    known = kept() if FILE.is_file() else {}
    merged = known | {cell[:3]: cell for cell in cells}
    keys = itertools.product(workload_names(), map(str, range(WINDOWS)), POLICIES)
    return [merged[key] for key in keys if key in merged]


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
    parser.add_argument("--policy", nargs="+", choices=POLICIES, help="default: all except lookahead")
    parser.add_argument("--workload", nargs="+", choices=known, default=known, help="default: all")
    parser.add_argument("--processes", type=int, default=1, help="number of processes")
    parser.add_argument("--write", action="store_true", help="update the file")
    chosen = parser.parse_args(args)
    if not (chosen.write or FILE.is_file()):
        parser.error(f"{FILE.name} does not exist: write it with --write")
    policies = chosen.policy or POLICIES
    if chosen.write:
        write(with_others(measured(chosen.workload, policies, chosen.processes)))
        return 0
    before = kept()
    wanted = itertools.product(chosen.workload, map(str, range(WINDOWS)), policies)
    if missing := sorted({f"{cell[2]} on {cell[0]}" for cell in wanted if cell not in before}):
        print(f"{FILE.name} lacks {', '.join(missing)}: add them with --write --policy NAME")
        return 1
    cells = measured(chosen.workload, policies, chosen.processes)
    changed = [cell for cell in cells if before[cell[:3]] != cell]
    for new in changed:
        old = before[new[:3]]
        print(f"{' '.join(new[:3])}: {old.mean_jct_s} {old.digest} -> {new.mean_jct_s} {new.digest}")
    print(f"{len(cells) - len(changed)} of {len(cells)} cells are equal to the digit")
    return 1 if changed or not cells else 0


if __name__ == "__main__":
    sys.exit(main())
