"""The job table: its checks, the text files it is read from, and the one error that a trace file can give."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_cluster_gym.traces._asking import refuse_while_asking
from gpu_cluster_gym.traces._columns import COLUMNS, LIMITS, NOTHING, Column

if TYPE_CHECKING:
    import pandas as pd


_LONG_S = 7 * 86_400.0
"""Median run time from which times are probably not in seconds."""
_OVER, _SHARE_OVER = 2.0, 0.1
"""Run time / time limit of more than this share of the jobs, from which limits are probably not in seconds."""
OVER_LIMIT = f"jobs that ran more than {_OVER:g} times as long as their time limit"
"""Beginning of the note on them."""


class TraceError(ValueError):
    """An unreadable trace: file, line and column, what was found there and what was expected."""

    def __init__(
        self, file: str | PathLike[str], line: int | None, column: str | None, found: str, expected: str
    ) -> None:
        super().__init__(file, line, column, found, expected)  # all five, so that the error can be pickled
        self.file, self.line, self.column = file, line, column
        self.found, self.expected = found, expected

    def __str__(self) -> str:
        where = str(self.file)
        where += f", line {self.line}" if self.line is not None else ""
        where += f", column {self.column}" if self.column is not None else ""
        return f"{where}: found {self.found}, expected {self.expected}"


class Origins(dict[str, str]):
    """Origin of each column by name. It never changes, so derived tables share it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Origins:
        """Return itself: pandas deep-copies a table's attributes each time a column is read."""
        return self


def check(
    table: pd.DataFrame, *, file: str | PathLike[str] = "job table", line: Sequence[int] | None = None
) -> pd.DataFrame:
    """Return the job table: known columns in their dtypes, sorted stably by submission, rows numbered.

    `line` is the line of `file` that each row came from (default: 2, 3, ...). `attrs["origin"]` holds the origin of
    each column, `attrs["notes"]` the changes that were made. A TraceError names the first cell that breaks a rule.
    All generators and readers of jobs end here: RuntimeError while a policy decides.
    """
    refuse_while_asking("a job table")
    import pandas as pd

    lines = np.arange(2, len(table) + 2) if line is None else np.asarray(line)
    names = [str(name) for name in table.columns]
    ignored = check_header(names, file)
    if table.empty:
        raise TraceError(file, None, None, "no jobs", "at least one")
    columns = {
        column.name: values(column, table[column.name].to_numpy(), lines, file)
        for column in COLUMNS
        if column.name in names
    }
    if "kind" not in columns and (columns["num_gpus"] == 0).any():
        kind = np.where(columns["num_gpus"] > 0, "gpu", "cpu").astype(object)
        columns = {
            each.name: columns.get(each.name, kind) for each in COLUMNS if each.name in {*columns, "kind"}
        }
    _check_gpus(columns, lines, file)
    _check_unique(columns["job_id"], lines, file)
    _check_pairs(columns, lines, file)
    order = np.argsort(columns["submit_s"], kind="stable")
    checked = pd.DataFrame({name: cells[order] for name, cells in columns.items()})
    origin = table.attrs.get("origin", {})
    checked.attrs["origin"] = Origins({name: origin.get(name, "measured") for name in checked.columns})
    checked.attrs["notes"] = list(table.attrs.get("notes", []))
    if ignored:
        checked.attrs["notes"].append(f"columns ignored, unknown to the job table: {', '.join(ignored)}")
    if formulas := sum(_formulas(cells) for cells in columns.values()):
        checked.attrs["notes"].append(
            "cells that begin like a formula of a spreadsheet (= + - @), written to jobs.csv unchanged: "
            f"{formulas:,}; import that file as text"
        )
    if not np.array_equal(order, np.arange(len(order))):
        early = int(np.sum(np.diff(columns["submit_s"]) < 0))
        checked.attrs["notes"].append(f"sorted by submit_s: jobs out of order at {early:,} places")
    if (median_s := float(np.median(columns["duration_s"]))) > _LONG_S:
        days = f"half of the jobs run for {median_s / 86_400:,.0f} days or more"
        checked.attrs["notes"].append(f"{days}: if duration_s is in milliseconds, divide it by 1,000")
    if "time_limit_s" in columns:
        limit_s = np.where(columns["time_limit_s"] > 0, columns["time_limit_s"], np.inf)
        over = columns["duration_s"] > _OVER * limit_s
        if over.mean() > _SHARE_OVER:
            remedy = (
                "time_limit_s is in seconds (if the log has minutes, multiply them by 60; 12:00 is 12 minutes, "
                "and 12:00:00 is 12 hours)"
            )
            checked.attrs["notes"].append(f"{OVER_LIMIT}: {over.sum():,} of {len(over):,}; {remedy}")
    return checked


def check_header(names: Sequence[str], file: str | PathLike[str]) -> list[str]:
    """Return the unknown names; a name that comes twice, or a required one missing, is a TraceError."""
    for name, count in Counter(names).items():
        if count > 1:
            raise TraceError(file, 1, name, f"{count} columns of this name", "each column once")
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
    """Return cells, text or numbers, in the column's dtype; TraceError for the first that breaks its rule."""
    if column.dtype is str:
        numbers, bad = _text(column, cells)
    else:
        is_numeric = isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf"
        numbers = np.asarray(cells, float) if is_numeric else parse_numbers(cells)
        bad = ~(numbers >= column.minimum) | ~(numbers <= LIMITS[column.unit])  # NaN fails both
        bad |= (column.dtype is int) & (np.floor(numbers) != numbers)
    if bad.any():
        row = int(np.argmax(bad))
        number = 0.0 if column.dtype is str else numbers[row]
        raise TraceError(file, int(line[row]), column.name, quote(cells[row]), column.expected(number))
    return numbers if column.dtype is str else (numbers + 0.0).astype(column.dtype)  # + 0.0: no minus zero


def first(table: pd.DataFrame, jobs: int | None) -> pd.DataFrame:
    """Return the first `jobs` rows (None: all), with a note on the rows left out."""
    if jobs is None or jobs >= len(table):
        return table
    if jobs < 1:
        raise ValueError(f"jobs {jobs}: expected at least 1")
    table.attrs["notes"].append(f"the first {jobs:,} of {len(table):,} jobs are used")
    return table.iloc[:jobs].copy()


def quote(cell: object) -> str:
    """Return a cell for an error message: quoted, printable, at most a line long."""
    text = f"{cell:.15g}" if isinstance(cell, float) else str(cell)
    return repr(text if len(text) <= 60 else text[:57] + "...")


_NOT_IN_A_NUMBER = re.compile(r"[^0-9eE+.\-\s]")


def parse_numbers(cells: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return cells as floats, NaN where a cell is no plain decimal number."""
    try:
        if not _NOT_IN_A_NUMBER.search("\n".join(cells)):  # float() alone would accept '1_000' and 'inf'
            return np.fromiter(map(float, cells), float, len(cells))
    except (TypeError, ValueError):
        pass  # some cell is not a number: find it below
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
    if column.may_be_blank:
        text[:] = [cell if cell.strip() else NOTHING for cell in text]
    strange = {cell for cell in set(text) if not cell.isprintable() or cell.isspace() or cell == ""}
    bad = np.zeros(len(text), bool)
    if strange:
        bad = np.fromiter((cell in strange for cell in text), bool, len(text))
    if column.choices:
        wrong = set(text) - set(column.choices)
        bad |= np.fromiter((cell in wrong for cell in text), bool, len(text)) if wrong else False
    return text, bad


def _formulas(cells: npt.NDArray[Any]) -> int:
    """Return the number of cells of text that a spreadsheet would take for a formula."""
    if cells.dtype != object:
        return 0
    begin = [cell for cell in cells if cell[0] in "=+-@"]
    return sum(bool(np.isnan(_number(cell))) for cell in begin)


def _check_gpus(
    columns: dict[str, npt.NDArray[Any]], line: npt.NDArray[Any], file: str | PathLike[str]
) -> None:
    gpus = columns["num_gpus"]
    on_cpu = columns["kind"] == "cpu" if "kind" in columns else np.zeros(len(gpus), bool)
    wrong = (gpus == 0) != on_cpu
    if wrong.any():
        row = int(np.argmax(wrong))
        expected = "0, since kind is cpu" if gpus[row] else "at least 1, since kind is gpu"
        raise TraceError(file, int(line[row]), "num_gpus", quote(gpus[row]), expected)


def _check_pairs(
    columns: dict[str, npt.NDArray[Any]], line: npt.NDArray[Any], file: str | PathLike[str]
) -> None:
    """Raise a TraceError for the first row whose cells contradict each other, where the file has both columns."""
    on_gpus = columns["num_gpus"] > 0
    if {"min_workers", "max_workers"} <= columns.keys():
        least, most = columns["min_workers"], columns["max_workers"]
        _refuse(on_gpus & (least > most), "max_workers", most, "at least min_workers", line, file)
    if {"active_ms", "idle_ms"} <= columns.keys():
        active, idle = columns["active_ms"], columns["idle_ms"]
        _refuse(
            on_gpus & (active + idle == 0), "active_ms", active, "more than 0 where idle_ms is 0", line, file
        )
    if "deadline_s" in columns:
        due, submit = columns["deadline_s"], columns["submit_s"]  # 0: no deadline
        _refuse((due > 0) & (due < submit), "deadline_s", due, "at least submit_s", line, file)


def _refuse(
    wrong: npt.NDArray[np.bool_],
    column: str,
    cells: npt.NDArray[Any],
    expected: str,
    line: npt.NDArray[Any],
    file: str | PathLike[str],
) -> None:
    """Raise a TraceError for the first wrong cell, if there is one."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TraceError(file, int(line[row]), column, quote(cells[row]), expected)


def _check_unique(ids: npt.NDArray[Any], line: npt.NDArray[Any], file: str | PathLike[str]) -> None:
    if len(set(ids)) == len(ids):
        return
    seen: dict[object, int] = {}
    for cell, at in zip(ids, line, strict=True):
        if cell in seen:
            raise TraceError(
                file, int(at), "job_id", quote(cell), f"a unique id (line {seen[cell]} has this one)"
            )
        seen[cell] = int(at)


# Deflate packs at most 1,032 to 1 and job logs about 10 to 1. A file beyond this limit is taken for a zip bomb.
_FREE_BYTES = 16 * 2**20
_BYTES_PER_PACKED_BYTE = 50
_PACKED = {
    b"PK\x03\x04": "zip",
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
}
"""Beginnings of packed files that are not read."""


def open_text(file: str | PathLike[str]) -> io.TextIOWrapper:
    """Return a file's text as a stream, checked to be UTF-8; `.gz` is unpacked in memory."""
    data = read_bytes(file)
    refuse_no_text(data, file)
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")


def refuse_no_text(data: bytes, file: str | PathLike[str]) -> None:
    """Raise TraceError for the first byte that is not part of text in UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceError(file, line, None, f"the byte 0x{data[error.start]:02x}", "text in UTF-8") from None


def read_bytes(file: str | PathLike[str], *, most: int | None = None) -> bytes:
    """Return the content of a file, of a `.gz` unpacked; with `most` no more than its first bytes."""
    try:
        path = Path(file)
        if path.exists() and not path.is_file():
            raise TraceError(file, None, None, "a folder or device", "a regular file")
        if path.suffix != ".gz":
            with path.open("rb") as raw:
                data = raw.read(-1 if most is None else most)
            for mark, what in _PACKED.items():
                if data.startswith(mark):
                    expected = "text, or text packed by gzip in a file named .gz (unpack it)"
                    raise TraceError(file, None, None, f"a file packed by {what}", expected)
            return data
        limit = _FREE_BYTES + _BYTES_PER_PACKED_BYTE * path.stat().st_size
        with gzip.open(path) as stream:
            data = stream.read(limit + 1 if most is None else most)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(file, None, None, str(error), "a complete gzip file") from None
    except OSError as error:
        found = "no file" if isinstance(error, FileNotFoundError) else f"an error ({error.strerror or error})"
        raise TraceError(file, None, None, found, "a readable file") from None
    if len(data) > limit:
        expected = (
            f"at most {_FREE_BYTES:,} + {_BYTES_PER_PACKED_BYTE:,} for each packed byte (or an unpacked file)"
        )
        raise TraceError(file, None, None, f"more than {limit:,} bytes when unpacked", expected)
    return data
