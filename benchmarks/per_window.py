"""Hold the simulator's results against those of an earlier commit, window by window, to the last digit.

`python benchmarks/per_window.py [--policy NAME ...] [--workload NAME ...] [--processes P]` simulates the first four
test windows of every workload under every policy but `lookahead` and compares each mean JCT, and a digest of all finish
times, with `per_window.csv`, exit code 1 where one differs; `--write` makes that file anew, or only the rows of these
policies and workloads. A change of what is simulated makes it anew in the same commit and says so; whatever only moves
or renames things must find it unchanged. `--parts-off` takes off what physics has gained since version 1 (see
`parts_off.py`) and compares with `per_window_v1.csv`; `--old-streams` draws as version 0 did besides (see
`old_streams.py`) and compares with `per_window_v0.csv`. Both run `union` with the weights of then, and leave out what
it has gained since, servers and types of GPU; where a policy reads monitors, whose errors have been drawn otherwise
since; and the workloads `xonar_mix` and `xonar_memory`, whose jobs have.
"""

import argparse
import csv
import hashlib
import itertools
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from joblib import Parallel, delayed

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Workload, named, windows
from gpu_cluster_gym.workloads import names as workload_names

FILE = Path(__file__).with_suffix(".csv")
FILE_V0, FILE_V1 = FILE.with_name("per_window_v0.csv"), FILE.with_name("per_window_v1.csv")
POLICIES = tuple(baselines.quick_names())
WINDOWS = 4
SINCE_V1 = {
    "coda": ("mixed", "coda_mix"),  # where it reads monitors
    "union": ("mixed", "coda_mix", "aiturbo_ps", "two_types"),  # and where jobs have servers, or GPUs types
}
HERE = "" if __name__ == "__main__" else "benchmarks."  # beside a script, no package is
OLD_STREAMS, PARTS_OFF = f"{HERE}old_streams", f"{HERE}parts_off"


class Cell(NamedTuple):
    """What became of a window under a policy; floats as `repr` writes them, so that all their digits stand."""

    workload: str
    window: str
    policy: str
    mean_jct_s: str
    digest: str


def cell(workload: str, number: int, load: Workload, policy: str, old: bool, off: bool) -> Cell:
    """Simulate a policy on a window; where it cannot run, the kind of error stands for the mean JCT."""
    if old:  # in this process, which may be a new one
        import_module(OLD_STREAMS).install()
    chosen = import_module(PARTS_OFF).UNION if off and policy == "union" else baselines.load(policy)
    try:
        episode = run(baselines.make(chosen), load.episode())
        table = load.results(episode)
    except (ValueError, RuntimeError) as error:
        return Cell(workload, str(number), policy, type(error).__name__, "")
    finish = table["finish_s"].to_numpy(float)
    digest = hashlib.sha256(finish.tobytes()).hexdigest()[:16]
    return Cell(workload, str(number), policy, repr(float(table["jct_s"].mean())), digest)


def measured(
    workloads: Sequence[str], policies: Sequence[str], processes: int, *, old: bool, off: bool
) -> list[Cell]:
    """Return every cell, in the order of the file, with old streams or today's, and all physics or the first."""
    if old:
        import_module(OLD_STREAMS).install()
    scenarios = {name: named(name) for name in workloads}
    if off:
        before = import_module(PARTS_OFF)
        before.install()
        scenarios = {name: before.as_before(scenario) for name, scenario in scenarios.items()}
    loads = {name: windows(scenario, "test", WINDOWS) for name, scenario in scenarios.items()}
    tasks = [
        delayed(cell)(name, number, load, policy, old, off)
        for name in workloads
        for number, load in enumerate(loads[name])
        for policy in policies
        if not (off and name in SINCE_V1.get(policy, ()))
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
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--write", action="store_true")
    either.add_argument("--parts-off", action="store_true")
    either.add_argument("--old-streams", action="store_true")
    chosen = parser.parse_args(args)
    old, off = chosen.old_streams, chosen.old_streams or chosen.parts_off
    file = FILE_V0 if old else FILE_V1 if off else FILE
    if not (chosen.write or file.is_file()):
        parser.error(f"there is no {file.name} to compare with: --write makes it")
    before = {} if chosen.write else kept(file)
    policies = chosen.policy or [
        name for name in POLICIES if chosen.write or name in {key[2] for key in before}
    ]
    cells = measured(chosen.workload, policies, chosen.processes, old=old, off=off)
    if chosen.write:
        write(with_others(cells))
        return 0
    if later := sorted({f"{cell.policy} on {cell.workload}" for cell in cells if cell[:3] not in before}):
        print(f"left out, since {file.name} has them not, or with other jobs: {', '.join(later)}")
    cells = [cell for cell in cells if cell[:3] in before]
    if not off and (unheld := sorted(set(POLICIES) - {key[2] for key in before})):
        print(f"{file.name} lacks {', '.join(unheld)}: --write --policy NAME adds them")
        return 1
    changed = [cell for cell in cells if before[cell[:3]] != cell]
    for now in changed:
        was = before[now[:3]]
        print(f"{' '.join(now[:3])}: {was.mean_jct_s} {was.digest} -> {now.mean_jct_s} {now.digest}")
    print(f"{len(cells) - len(changed)} of {len(cells)} cells are equal to the digit")
    return 1 if changed or not cells else 0


if __name__ == "__main__":
    sys.exit(main())
