"""Score all policies on the real Philly log.

`python -m benchmarks.table_of_log LOG [--windows N] [--processes P] [--policy NAME ...]`

LOG is Microsoft's job log, or a table of its jobs. It has arrivals, GPUs and run times; the other columns are drawn as
for the generator. A column of the table in docs/results.md has the log's busy test windows, which are filtered like the
generator's, and the text between the marks describes them. docs/results_of_log.csv has the numbers of the generator's
windows (from docs/results.csv) and of consecutive windows of the log without a filter, too.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from benchmarks import table
from benchmarks.table import DEFAULT_WINDOWS, LOG, OF_LOG, REFERENCE, ROOT, TABLE, Cell
from docs.pages.fill import filled
from gpu_cluster_gym.evaluation import table_notes
from gpu_cluster_gym.workloads import named, windows

MARK = "the real log"
WORKLOAD = "philly_backlog"
ALL = f"{LOG}, all windows"


def main(args: Sequence[str] | None = None) -> None:
    """Simulate, print the progress, and write the column."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path, help="job log of Philly")
    parser.add_argument("--windows", type=int, default=DEFAULT_WINDOWS, help="maximum number of windows")
    parser.add_argument("--processes", type=int, default=1, help="number of processes")
    policy_help = "simulate only these; other rows are kept from docs/results_of_log.csv"
    parser.add_argument("--policy", nargs="+", default=(), help=policy_help)
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with docs/")
    chosen = parser.parse_args(args)
    results = chosen.root / "docs" / "results.md"
    filled(results, {MARK: str, TABLE: str})  # fails early if the marks are missing
    cells = [cell for cell in table.kept_cells(chosen.root) if cell.workload == WORKLOAD]
    kept = table.kept_cells(chosen.root, OF_LOG) if chosen.policy else []
    described: list[str] = []
    for label, all_windows in ((LOG, False), (ALL, True)):
        usual = replace(named(WORKLOAD), physics=named(WORKLOAD).physics_name, seed=0)
        scenario = replace(usual, trace_file=str(chosen.log), all_windows=all_windows)
        workloads = windows(scenario, "test", chosen.windows)
        heading = (each.replace(str(chosen.log), chosen.log.name) for each in table_notes.heading(workloads))
        lines = [f"- *{label}*: {line}" for line in list(heading)[:3]]
        described += [] if all_windows else lines
        print(*lines, sep="\n", flush=True)
        before = [cell for cell in kept if cell.workload == label]
        found = table.scored(WORKLOAD, workloads, chosen.processes, chosen.policy, before)
        cells += [cell._replace(workload=label) for cell in found]
    pd.DataFrame(cells, columns=Cell._fields).to_csv(results.with_name(f"{OF_LOG}.csv"), index=False)
    kept = table.kept_cells(chosen.root)
    table.write(chosen.root, kept, table.COMMAND)
    shown = table.shown_cells(chosen.root, kept)
    count = {cell.workload: cell.windows for cell in shown if cell.policy == REFERENCE}
    note = f"Made by `python -m benchmarks.table_of_log LOG`. Test windows (seed 0): {LOG} {count[LOG]}."
    table.fill(results, MARK, [note, "", *described])


if __name__ == "__main__":
    main()
