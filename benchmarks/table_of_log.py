"""Score all policies on the real Philly log.

`python -m benchmarks.table_of_log LOG [--windows N] [--processes P] [--policy NAME ...]`

LOG is Microsoft's job log, or a table of its jobs (`docs/how_to.md`). Columns are the generator's windows, as
docs/results.csv has them, the log's busy test windows, which are chosen as the generator's are, and all of its windows
one after another. The log says when jobs came, with how many GPUs and for how long; all else is drawn, as for the
generator. The table is written into docs/results.md, between its marks, and every number into docs/results_of_log.csv.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from benchmarks import table
from benchmarks.table import OTHERWISE, REFERENCE, ROOT, Cell
from docs.pages.fill import filled
from gpu_cluster_gym.evaluation import table_notes
from gpu_cluster_gym.workloads import named, windows

MARK = "the real log"
WORKLOAD = "philly"
OWN = "results_of_log"
BUSY, ALL = "the log", "the log, all windows"


def main(args: Sequence[str] | None = None) -> None:
    """Simulate, print how it goes, and write the table where it belongs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path)
    parser.add_argument("--windows", type=int, default=OTHERWISE, help="fewer where the log has no more")
    parser.add_argument("--processes", type=int, default=1, help="to share the work")
    what = "only their rows; others stay as docs/results_of_log.csv has them"
    parser.add_argument("--policy", nargs="+", default=(), help=what)
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with docs/")
    chosen = parser.parse_args(args)
    results = chosen.root / "docs" / "results.md"
    filled(results, {MARK: str})  # refused before anything is simulated
    cells = [cell for cell in table.kept_cells(chosen.root) if cell.workload == WORKLOAD]
    kept = table.kept_cells(chosen.root, OWN) if chosen.policy else []
    said: list[str] = []
    for label, all_windows in ((BUSY, False), (ALL, True)):
        scenario = replace(named(WORKLOAD), seed=0, trace_file=str(chosen.log), all_windows=all_windows)
        workloads = windows(scenario, "test", chosen.windows)
        told = (line.replace(str(chosen.log), chosen.log.name) for line in table_notes.heading(workloads)[:2])
        said += [f"- *{label}*: {line}" for line in told]
        print(*said[-2:], sep="\n", flush=True)
        before = [cell for cell in kept if cell.workload == label]
        found = table.scored(WORKLOAD, workloads, chosen.processes, chosen.policy, before)
        cells += [cell._replace(workload=label) for cell in found]
    count = {cell.workload: cell.windows for cell in cells if cell.policy == REFERENCE}
    sizes = ", ".join(f"{name} {number}" for name, number in count.items())
    note = f"Made by `python -m benchmarks.table_of_log LOG`, read as the table above. Test windows (seed 0): {sizes}."
    table.fill(results, MARK, [*table.table(cells), "", note, "", *said])
    pd.DataFrame(cells, columns=Cell._fields).to_csv(results.with_name(f"{OWN}.csv"), index=False)


if __name__ == "__main__":
    main()
