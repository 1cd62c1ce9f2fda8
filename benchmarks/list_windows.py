"""List the accepted windows of the generator, by simulation: `python -m benchmarks.list_windows`.

This writes the lists in workloads/accepted; a test simulates some of their windows.
"""

import argparse
from dataclasses import replace

from gpu_cluster_gym.workloads import Scenario, Split, named
from gpu_cluster_gym.workloads import names as workload_names
from gpu_cluster_gym.workloads._windows import in_range, listed_ratios, write_list

COUNTS: dict[Split, int] = {"train": 600, "validation": 100, "test": 300}
WORKLOADS: list[Scenario] = [named(name) for name in workload_names()]


def main() -> None:
    """Write the list of each workload that filters windows, and print the numbers of accepted windows."""
    argparse.ArgumentParser(description=__doc__).parse_args()  # only --help
    for scenario in (each for each in WORKLOADS if not each.all_windows):
        file = write_list(replace(scenario, trace="philly"), COUNTS)
        for split in COUNTS:
            known = listed_ratios(scenario, split)
            kept = sum(in_range(value) for value in known.values())
            print(f"{file.name}  {split:10s}  {kept} of {len(known)} accepted")


if __name__ == "__main__":
    main()
