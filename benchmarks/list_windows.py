"""List the accepted windows of the generator, by simulation: `python -m benchmarks.list_windows`.

This writes the lists in workloads/accepted; a test simulates some of their windows.
"""

import argparse
import csv
import os
from dataclasses import replace
from pathlib import Path

from gpu_cluster_gym.workloads import ACCEPTANCE, Scenario, Split
from gpu_cluster_gym.workloads._windows import (
    in_range,
    jct_over_run_time,
    list_file,
    listed_ratios,
    table_maker,
)

COUNTS: dict[Split, int] = {"train": 600, "validation": 100, "test": 300}
SCENARIOS = (
    Scenario(trace="philly"),
    Scenario(trace="philly", cluster="4x8", jobs=256, drop_too_large=True),
    Scenario(trace="philly", cluster="12x8", jobs=1024),
)
"""The backlogs of docs/workloads.md whose windows are filtered: acceptance depends on jobs and machines alone."""


def write(scenario: Scenario, counts: dict[Split, int]) -> Path:
    """Simulate the first windows of each split and list their mean JCT / mean run time, and mean run time."""
    file = list_file(scenario)
    file.parent.mkdir(exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    with partial.open("w", newline="") as lines:
        out = csv.writer(lines)
        out.writerow(("split", "number", "jct_over_run_time", "mean_duration_s"))
        for split, count in counts.items():
            make = table_maker(replace(scenario, **ACCEPTANCE, trace_file=None), split)
            for number in range(count):
                table = make(number)
                assert table is not None, "a generator has no last window"
                value, duration_s = jct_over_run_time(table, scenario), table["duration_s"].mean()
                out.writerow((split, number, f"{value:.4f}", f"{duration_s:.3f}"))
    partial.replace(file)
    return file


def main() -> None:
    """Write the list of each backlog, and print the numbers of accepted windows."""
    argparse.ArgumentParser(description=__doc__).parse_args()  # only --help
    for scenario in SCENARIOS:
        file = write(scenario, COUNTS)
        for split in COUNTS:
            known = listed_ratios(scenario, split)
            kept = sum(in_range(value) for value in known.values())
            print(f"{file.name}  {split:10s}  {kept} of {len(known)} accepted")


if __name__ == "__main__":
    main()
