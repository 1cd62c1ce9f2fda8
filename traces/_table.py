"""The job table: its columns, units and rules, and the one error that a trace file can give."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_cluster_gym.traces._column_type import LIMITS, Column
from gpu_cluster_gym.traces._columns import COLUMNS, GPUS

if TYPE_CHECKING:
    import pandas as pd


class TraceError(ValueError):
    """A trace that cannot be read: where, what was found there, and what was expected."""

    def __init__(
        self, file: str | PathLike[str], line: int | None, column: str | None, found: str, expected: str
    ) -> None:
        super().__init__(file, line, column, found, expected)  # all five: such an error can be pickled
        self.file, self.line, self.column = file, line, column
        self.found, self.expected = found, expected

    def __str__(self) -> str:
        where = str(self.file)
        where += f", line {self.line}" if self.line is not None else ""
        where += f", column {self.column}" if self.column is not None else ""
        return f"{where}: found {self.found}, expected {self.expected}"


class Origins(dict[str, str]):
    """Where each column is from. It never changes, so tables share it that pandas makes of one another."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Origins:
        """Return itself: pandas copies deeply what is told of a table, with every column that is read."""
        return self


def check(
    table: pd.DataFrame, *, file: str | PathLike[str] = "job table", line: Sequence[int] | None = None
) -> pd.DataFrame:
    """Return the job table: known columns in their dtypes, sorted stably by submission, rows numbered.

    `line` is the line of `file` that each row came from (default: 2, 3, ...). `attrs["origin"]` says where a
    column is from, `attrs["notes"]` what was changed. A TraceError names the first cell that breaks a rule.
    """
    import pandas as pd

    lines = np.arange(2, len(table) + 2) if line is None else np.asarray(line)
    names = [str(name) for name in table.columns]
    ignored = check_header(names, file)
    if table.empty:
        raise TraceError(file, None, None, "no jobs", "at least one row below the header")
    columns = {
        column.name: values(column, table[column.name].to_numpy(), lines, file)
        for column in COLUMNS
        if column.name in names
    }
    _check_gpus(columns, lines, file)
    _check_unique(columns["job_id"], lines, file)
    order = np.argsort(columns["submit_s"], kind="stable")
    checked = pd.DataFrame({name: cells[order] for name, cells in columns.items()})
    origin = table.attrs.get("origin", {})
    checked.attrs["origin"] = Origins({name: origin.get(name, "measured") for name in checked.columns})
    checked.attrs["notes"] = list(table.attrs.get("notes", []))
    if ignored:
        checked.attrs["notes"].append(f"columns ignored, unknown to the job table: {', '.join(ignored)}")
    if not np.array_equal(order, np.arange(len(order))):
        early = int(np.sum(np.diff(columns["submit_s"]) < 0))
        checked.attrs["notes"].append(f"sorted by submit_s: {early} times a job stood behind a later one")
    return checked


def check_header(names: Sequence[str], file: str | PathLike[str]) -> list[str]:
    """Return the unknown names; a name that comes twice, or a required one missing, is a TraceError."""
    for name in names:
        if names.count(name) > 1:
            raise TraceError(file, 1, name, f"{names.count(name)} columns of this name", "each column once")
    for column in COLUMNS:
        if column.required and column.name not in names:
            found = f"only {quote(', '.join(names))}"
            raise TraceError(file, 1, column.name, found, f"a column named {column.name}")
    known = {column.name for column in COLUMNS}
    return [name for name in names if name not in known]


def values(
    column: Column,
    cells: Sequence[Any] | npt.NDArray[Any],
    line: Sequence[int] | npt.NDArray[Any],
    file: str | PathLike[str],
) -> npt.NDArray[Any]:
    """Return cells, text or numbers, in the column's dtype; the first to break its rule is a TraceError."""
    if column.dtype is str:
        numbers, bad = _text(column, cells)
    else:
        numbers = np.asarray(cells, float) if _is_numeric(cells) else _parse(cells)
        bad = ~(numbers >= column.least) | ~(numbers <= LIMITS[column.unit])  # NaN fails both
        bad |= (
            (numbers == column.least)
            if column.above
            else (column.dtype is int) & (np.floor(numbers) != numbers)
        )
    if bad.any():
        row = int(np.argmax(bad))
        number = 0.0 if column.dtype is str else numbers[row]
        raise TraceError(file, int(line[row]), column.name, quote(cells[row]), column.expected(number))
    return numbers if column.dtype is str else (numbers + 0.0).astype(column.dtype)  # + 0.0: no minus zero


def first(table: pd.DataFrame, jobs: int | None) -> pd.DataFrame:
    """Return the first `jobs` rows (None: all) with a note of how many were left out."""
    if jobs is None or jobs >= len(table):
        return table
    if jobs < 1:
        raise ValueError(f"{jobs} jobs were asked for; at least 1 is needed")
    table.attrs["notes"].append(f"the first {jobs:,} of {len(table):,} jobs are used")
    return table.iloc[:jobs].copy()


def quote(cell: object) -> str:
    """Return a cell as an error shows it: in quotes, printable, and not longer than a line."""
    text = f"{cell:.15g}" if isinstance(cell, float) else str(cell)
    return repr(text if len(text) <= 60 else text[:57] + "...")


_NOT_IN_A_NUMBER = re.compile(r"[^0-9eE+.\-\s]")


def _is_numeric(cells: Sequence[Any] | npt.NDArray[Any]) -> bool:
    return isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf"


def _parse(cells: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return cells as floats, NaN where a cell is no plain decimal number."""
    try:
        if not _NOT_IN_A_NUMBER.search("\n".join(cells)):  # float() alone would take '1_000' and 'inf'
            return np.fromiter(map(float, cells), float, len(cells))
    except (TypeError, ValueError):
        pass  # some cell is not a number: find out which
    return np.array([_number(str(cell)) for cell in cells], float)


def _number(text: str) -> float:
    try:
        return np.nan if _NOT_IN_A_NUMBER.search(text) else float(text)
    except ValueError:
        return np.nan


def _text(
    column: Column, cells: Sequence[Any] | npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iu" and column.name == "job_id":
        return cells, np.zeros(len(cells), bool)
    text = np.empty(len(cells), object)
    text[:] = [cell if isinstance(cell, str) else "" for cell in cells]
    good = (cell.isprintable() and not cell.isspace() and cell != "" for cell in text)
    bad = ~np.fromiter(good, bool, len(text))
    if column.choices:
        bad |= ~np.isin(text.astype(str), column.choices)
    return text, bad


def _check_gpus(
    columns: dict[str, npt.NDArray[Any]], line: npt.NDArray[Any], file: str | PathLike[str]
) -> None:
    gpus = columns["num_gpus"]
    on_cpu = columns["kind"] == "cpu" if "kind" in columns else np.zeros(len(gpus), bool)
    wrong = (gpus == 0) != on_cpu
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TraceError(
            file, int(line[row]), "num_gpus", quote(gpus[row]), "0, since kind is cpu" if gpus[row] else GPUS
        )


def _check_unique(ids: npt.NDArray[Any], line: npt.NDArray[Any], file: str | PathLike[str]) -> None:
    if len(set(ids)) == len(ids):
        return
    seen: dict[object, int] = {}
    for cell, at in zip(ids, line, strict=True):
        if cell in seen:
            raise TraceError(
                file, int(at), "job_id", quote(cell), f"an id of its own (line {seen[cell]} has this one)"
            )
        seen[cell] = int(at)
