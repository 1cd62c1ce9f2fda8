"""Measure speed: each figure with its target, and its ratio to a yardstick measured in the same run.

    python -m benchmarks.speed [--rows NAME,...] [--all] [--quick] [--json FILE] [--compare OLD.json] [--list]

--rows takes prefixes of row names, such as `srtf` or `step_`. Our work and the yardstick alternate; after a first run,
which compiles, the minimum CPU time of several repetitions counts. --all includes full traces and a million jobs.
--quick measures small cases, which have no targets. --compare prints ratios to an older file, scaled by a loop of plain
Python and NumPy that is measured in both. The exit code is 1 if a figure misses its target.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.timing import ROWS, Measured, Row, measure
from benchmarks.yardsticks import loop_s

LIBRARIES = ("numba", "numpy", "gymnasium")
WIDTH = 150


def machine() -> dict[str, Any]:
    """Return a description of the machine and the library versions."""
    return {
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{library: version(library) for library in LIBRARIES},
        "loop_s": loop_s(),
    }


def cpu() -> str:
    """Return the model name of the CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def select_rows(names: str | None, *, large: bool) -> list[Row]:
    """Return the rows with these comma-separated prefixes, by default all but large ones.

    ValueError if no row has a prefix.
    """
    import_module("benchmarks.speed_rows")  # registers the rows
    if names is None:
        return [row for row in ROWS.values() if large or not row.large]
    prefixes = tuple(names.split(","))
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in ROWS):
            raise ValueError(f"--rows: no row starts with {prefix!r}; rows: {', '.join(ROWS)}")
    return [row for name, row in ROWS.items() if name.startswith(prefixes)]


def format_table(found: Sequence[Measured], ratios: dict[str, float]) -> Table:
    """Return the table, with a column of ratios to an older file if there are any."""
    table = Table(box=box.HORIZONTALS, show_edge=False)
    for heading in ("row", "figure", "target", "met", "times faster", "than", "repetitions"):
        table.add_column(heading, justify="left" if heading in ("row", "than") else "right")
    if ratios:
        table.add_column("new / old", justify="right")
    for row in found:
        table.add_row(
            *cells(row), *([f"{ratios[row.name]:.2f}" if row.name in ratios else ""] if ratios else [])
        )
    return table


def cells(row: Measured) -> Iterator[str]:
    """Yield the cells of a row."""
    yield row.name
    if row.figure is None:
        yield from ("not measured", "", "", "", row.skipped, "")
        return
    unit = row.unit if row.unit == "/s" else f" {row.unit}"
    yield f"{row.figure:,.3g}{unit}" if row.figure < 1000 else f"{row.figure:,.0f}{unit}"
    yield "" if row.bar is None else f"{'>=' if row.unit == '/s' else '<='} {row.bar:,g}"
    yield "" if row.met is None else "yes" if row.met else "NO"
    yield "" if row.faster is None else f"{row.faster:,.3g}"
    yield row.against
    yield str(row.repetitions)


def compared(found: Sequence[Measured], loop_s: float, old: dict[str, Any]) -> dict[str, float]:
    """Return the ratio of each figure to that of an older file, scaled to the older file's machine.

    loop_s: current seconds of the loop.
    """
    slower = loop_s / old["machine"]["loop_s"]
    power = {"/s": 1.0, "x": 0.0}  # times are divided by `slower`, rates multiplied, ratios of times left
    before = {row["name"]: row for row in old["rows"] if row["figure"] is not None}
    return {
        row.name: row.figure / before[row.name]["figure"] * slower ** power.get(row.unit, -1.0)
        for row in found
        if row.figure is not None and row.name in before and before[row.name]["unit"] == row.unit
    }


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", help="comma-separated prefixes of row names")
    parser.add_argument("--all", action="store_true", help="also measure full traces and a million jobs")
    parser.add_argument("--quick", action="store_true", help="measure small cases, without targets")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--compare", type=Path, help="older file to compare the figures with")
    parser.add_argument("--list", action="store_true", help="list the rows without measuring them")
    return parser


def main(args: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a figure misses its target."""
    parser = argument_parser()
    choices = parser.parse_args(args)
    out = Console(width=WIDTH)
    try:
        rows = select_rows(choices.rows, large=choices.all)
        old = json.loads(choices.compare.read_text()) if choices.compare else None
    except (ValueError, OSError) as error:
        parser.error(str(error))
    if choices.list:
        for row in rows:
            out.print(f"{row.name:28} {row.about}")
        return 0
    here = machine()
    out.print(", ".join(f"{name} {value}" for name, value in here.items()))
    found: list[Measured] = []
    for row in rows:
        out.print(f"{row.name}: compiling, then measuring", style="dim")
        found.append(measure(row, quick=choices.quick))
    here["load_average_after"] = round(os.getloadavg()[0], 2)
    out.print(format_table(found, compared(found, here["loop_s"], old) if old else {}))
    if choices.json:
        written = {"machine": here, "quick": choices.quick, "rows": [row._asdict() for row in found]}
        choices.json.write_text(json.dumps(written, indent=1) + "\n")
    return 1 if any(row.met is False for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
