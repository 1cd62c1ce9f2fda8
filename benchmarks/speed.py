"""How fast everything is: each figure with its bar, and where there is a yardstick the ratio to it within one run.

    python -m benchmarks.speed [--rows NAME,...] [--all] [--quick] [--json FILE] [--compare OLD.json] [--list]

Rows may be named by their beginnings, as `srtf` or `step_`. A figure is the least of several turns that our work and
the yardstick's take one after the other, in seconds of the processor, after one that compiles. --all takes rows of
whole traces and of a million jobs too. --quick measures small cases, which have no bars. --compare prints ratios to an
older file, scaled by a loop of plain Python and numpy that is measured in both. The exit code is 1 where a bar is not
met.
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

from benchmarks.timing import ROWS, Measured, Row, Setting, measure
from benchmarks.yardsticks import loop_s

LIBRARIES = ("numba", "numpy", "gymnasium")
WIDTH = 150


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    return {
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{library: version(library) for library in LIBRARIES},
        "loop_s": loop_s(),
    }


def cpu() -> str:
    """Return the name of the processor's model."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def chosen(names: str | None, *, large: bool) -> list[Row]:
    """Return the rows whose names begin so, or all but large ones; ValueError where a beginning names none."""
    import_module("benchmarks.speed_rows")  # registers the rows
    if names is None:
        return [row for row in ROWS.values() if large or not row.large]
    beginnings = tuple(names.split(","))
    for beginning in beginnings:
        if not any(name.startswith(beginning) for name in ROWS):
            raise ValueError(f"there is no row {beginning!r}: {', '.join(ROWS)}")
    return [row for name, row in ROWS.items() if name.startswith(beginnings)]


def shown(found: Sequence[Measured], ratios: dict[str, float]) -> Table:
    """Return the table; `ratios` to an older file are a column of their own if there are any."""
    table = Table(box=box.HORIZONTALS, show_edge=False)
    for heading in ("row", "figure", "bar", "met", "times faster", "than", "turns"):
        table.add_column(heading, justify="left" if heading in ("row", "than") else "right")
    if ratios:
        table.add_column("new / old", justify="right")
    for row in found:
        table.add_row(
            *cells(row), *([f"{ratios[row.name]:.2f}" if row.name in ratios else ""] if ratios else [])
        )
    return table


def cells(row: Measured) -> Iterator[str]:
    """Write out a row."""
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


def compared(found: Sequence[Measured], speed: float, old: dict[str, Any]) -> dict[str, float]:
    """Return the ratio of each figure to that of an older file, had both been measured at the older file's speed.

    speed: seconds of the loop now. A ratio of two times needs no scaling; a rate is scaled the other way.
    """
    slower = speed / old["machine"]["loop_s"]
    power = {"/s": 1.0, "x": 0.0}
    before = {row["name"]: row for row in old["rows"] if row["figure"] is not None}
    return {
        row.name: row.figure / before[row.name]["figure"] * slower ** power.get(row.unit, -1.0)
        for row in found
        if row.figure is not None and row.name in before and before[row.name]["unit"] == row.unit
    }


def flags() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", help="beginnings of the names of rows, joined by commas")
    parser.add_argument("--all", action="store_true", help="rows of whole traces and of a million jobs too")
    parser.add_argument("--quick", action="store_true", help="small cases, without bars")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--compare", type=Path, help="older file of figures")
    parser.add_argument("--list", action="store_true", help="list the rows and measure nothing")
    return parser


def main(args: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 where a bar is not met."""
    parser = flags()
    choices = parser.parse_args(args)
    out = Console(width=WIDTH)
    try:
        rows = chosen(choices.rows, large=choices.all)
        old = json.loads(choices.compare.read_text()) if choices.compare else None
    except (ValueError, OSError) as wrong:
        parser.error(str(wrong))
    if choices.list:
        for row in rows:
            out.print(f"{row.name:28} {row.about}")
        return 0
    here = machine()
    out.print(", ".join(f"{name} {value}" for name, value in here.items()))
    found: list[Measured] = []
    for row in rows:
        out.print(f"{row.name}: compiling, then measuring", style="dim")
        found.append(measure(row, Setting(choices.quick)))
    here["load_average_after"] = round(os.getloadavg()[0], 2)
    out.print(shown(found, compared(found, here["loop_s"], old) if old else {}))
    if choices.json:
        written = {"machine": here, "quick": choices.quick, "rows": [row._asdict() for row in found]}
        choices.json.write_text(json.dumps(written, indent=1) + "\n")
    return 1 if any(row.met is False for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
