"""List the accepted windows of the generator, by simulation: `python -m benchmarks.list_windows`.

This writes the lists in workloads/accepted; a test simulates some of their windows.
"""

import argparse

from gpu_cluster_gym.workloads import Scenario, Split
from gpu_cluster_gym.workloads._windows import in_range, listed_ratios, write_list

COUNTS: dict[Split, int] = {"train": 600, "validation": 100, "test": 300}
SCENARIOS = (
    Scenario(trace="philly"),
    Scenario(trace="philly", cluster="4x8", jobs=256, drop_too_large=True),
    Scenario(trace="philly", cluster="12x8", jobs=1024),
)
"""The backlogs of docs/workloads.md whose windows are filtered: acceptance depends on jobs and machines alone."""


def main() -> None:
    """Write the list of each backlog, and print the numbers of accepted windows."""
    argparse.ArgumentParser(description=__doc__).parse_args()  # only --help
    for scenario in SCENARIOS:
        file = write_list(scenario, COUNTS)
        for split in COUNTS:
            known = listed_ratios(scenario, split)
            kept = sum(in_range(value) for value in known.values())
            print(f"{file.name}  {split:10s}  {kept} of {len(known)} accepted")


if __name__ == "__main__":
    main()
