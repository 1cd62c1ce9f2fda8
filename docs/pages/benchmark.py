"""The table of docs/benchmark.md: `python -m docs.pages.benchmark` writes which windows a row is scored on."""

from pathlib import Path

from benchmarks.table import OTHERWISE, WINDOWS
from docs.pages.fill import filled
from docs.pages.markdown import table
from gpu_cluster_gym.evaluation.record import format_intervals
from gpu_cluster_gym.workloads import named, names, windows

PAGE = Path(__file__).parent.parent / "benchmark.md"


def fixed() -> str:
    """Return the table of the workloads with the windows of their test parts that count."""
    headings = ("workload", "cluster", "jobs a window", "windows", "their numbers in `test`", "physics")
    return table(headings, map(row, names()))


def row(name: str) -> tuple[str, ...]:
    """Return the row of a workload."""
    scenario, count = named(name), WINDOWS.get(name, OTHERWISE)
    numbers = format_intervals(load.window.number for load in windows(scenario, "test", count))
    machines = f"`{scenario.cluster_name}`"
    return (
        f"`{name}`",
        machines,
        f"{scenario.jobs:,}",
        str(count),
        numbers,
        scenario.physics.replace(",", ", "),
    )


TABLES = {"windows": fixed}

if __name__ == "__main__":
    PAGE.write_text(filled(PAGE, TABLES), encoding="utf-8")
