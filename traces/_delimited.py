"""Delimited text and Parquet as columns of text: strict, with the line of each row, in pieces that fit memory.

A file without quotes whose lines all have the same number of delimiters is split by pandas; any other, by the standard
library, which finds the line of an error. Both give the same cells.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_cluster_gym.traces._log import File, Head, Log, among
from gpu_cluster_gym.traces._table import (
    TraceError,
    open_text,
    parse_numbers,
    quote,
    read_bytes,
    refuse_no_text,
)
from gpu_cluster_gym.traces._times import Times

ROWS_AT_ONCE = 131_072
BYTES_AT_ONCE = 2**24
HEAD_BYTES = 65_536
DELIMITERS = (",", "\t", ";", "|")
PARQUET = b"PAR1"
MAX_PARQUET_BYTES = 4 * 2**30
"""Largest table that a Parquet file may unpack to."""
MAX_FIELDS = 100_000
HEADER_BYTES = 4 << 20  # longest header that is read
MAX_LINE = csv.field_size_limit()  # bytes that the standard library accepts in a field

Cells = npt.NDArray[Any]
Convert = Callable[[Cells, npt.NDArray[np.int64], str, File], Any]
"""Function from cells of text, their lines, the heading and the file to an array or `Times`."""


class Piece(NamedTuple):
    """Some rows of a file: an array of text for each column asked for, and the line of each row."""

    columns: dict[str, Cells]
    line: npt.NDArray[np.int64]


def head_of(file: File) -> Head:
    """Return the beginning of a file; TraceError where it cannot be read."""
    data = read_bytes(file, most=HEAD_BYTES)
    text = "" if data.startswith(PARQUET) else data.decode("utf-8-sig", errors="replace")
    return Head(Path(file).name, "PAR1" if data.startswith(PARQUET) else text)


def delimiter_of(head: Head) -> str:
    """Return the delimiter of a file by its first line: a comma if there is one."""
    line = head.first_line
    return next((each for each in DELIMITERS if each in line), ",")


def header_of(file: File, delimiter: str = ",") -> list[str]:
    """Return the headings of a delimited file; TraceError for an empty one."""
    data = _content(file, most=HEADER_BYTES)
    first = data.partition(b"\n")[0]
    refuse_no_text(first, file)
    return _first_row(first or data, file, delimiter)[0]


def read(
    file: File,
    converters: Mapping[str, Convert],
    *,
    delimiter: str = ",",
    names: Sequence[str] | None = None,
) -> tuple[dict[str, Any], npt.NDArray[np.int64], list[str]]:
    """Return the converted columns of a file, the line of each row, and the headings of the file.

    converters: the function of each wanted column, by its heading
    names: headings of a file without a header
    """
    data = _content(file)
    refuse_no_text(data, file)
    if names is None:
        names, begin = _first_row(data, file, delimiter)
    else:
        begin = 0
    parts: dict[str, list[Any]] = {name: [] for name in converters}
    lines: list[npt.NDArray[np.int64]] = []
    for piece in _pieces(data, file, delimiter, list(names), [*converters], begin):
        for name, convert in converters.items():
            parts[name].append(convert(piece.columns[name], piece.line, name, file))
        lines.append(piece.line)
    columns = {name: _joined(found) for name, found in parts.items()}
    return columns, np.concatenate(lines) if lines else np.zeros(0, np.int64), list(names)


def log(
    file: File, converters: Mapping[str, Convert], *, delimiter: str = ",", names: Sequence[str] | None = None
) -> Log:
    """Return the converted columns of a file as a log; see `read`."""
    columns, line, _ = read(file, converters, delimiter=delimiter, names=names)
    return Log(file, columns, line)


def records(file: File) -> Iterator[tuple[int, list[str]]]:
    """Yield each record of a CSV file, the header first, with the line that it starts on; all are as wide."""
    rows = _strict_rows(open_text(file), file)
    header = next(rows, None)
    if header is None:
        raise TraceError(file, 1, None, "an empty file", "a header")
    yield header
    yield from rows


def cell(file: File, line: int, heading: str, delimiter: str) -> str:
    """Return the text of a column in the record that starts on a line of a delimited file."""
    rows = _strict_rows(open_text(file), file, delimiter)
    at = next(rows)[1].index(heading)
    return next(record[at] for number, record in rows if number == line)


def require(headings: Sequence[str], wanted: Sequence[str], file: File, what: str) -> None:
    """Raise TraceError for the first column that a format requires and a file lacks."""
    for name in wanted:
        if name not in headings:
            raise TraceError(
                file, 1, name, f"only {quote(', '.join(headings))}", f"a column named {name} of {what}"
            )


# Converters.


def text(cells: Cells, line: npt.NDArray[np.int64], column: str, file: File) -> Cells:
    """Return cells as they are; equal ones share memory."""
    known: dict[str, str] = {}
    same = np.empty(len(cells), object)
    same[:] = [known.setdefault(cell, cell) for cell in cells]
    return same


def numbers(
    *, least: float = 0.0, blank: Sequence[str] = (), whole: bool = False
) -> Callable[[Cells, npt.NDArray[np.int64], str, File], npt.NDArray[np.float64]]:
    """Return a converter to numbers, a cell of `blank` as NaN."""
    words = (
        f"a {'whole ' * whole}number >= {least:g}" if np.isfinite(least) else f"a {'whole ' * whole}number"
    )

    def convert(
        cells: Cells, line: npt.NDArray[np.int64], column: str, file: File
    ) -> npt.NDArray[np.float64]:
        is_blank = among(cells, blank) if blank else np.zeros(len(cells), bool)
        if is_blank.any():
            cells = np.where(is_blank, "0", cells)
        found = parse_numbers(cells)
        bad = ~(found >= least) | ~(np.abs(found) < 1e15)
        if whole:
            bad |= np.floor(found) != found
        bad &= ~is_blank
        if bad.any():
            row = int(np.argmax(bad))
            raise TraceError(file, int(line[row]), column, quote(cells[row]), words)
        found[is_blank] = np.nan
        return found

    return convert


# Pieces.


def _content(file: File, *, most: int | None = None) -> bytes:
    """Return a file, or its beginning, without a byte-order mark, its lines ended by newlines."""
    data = read_bytes(file, most=most).removeprefix(b"\xef\xbb\xbf")
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def _first_row(data: bytes, file: File, delimiter: str) -> tuple[list[str], int]:
    """Return the header, and the position behind it."""
    end = data.find(b"\n")
    end = len(data) if end < 0 else end + 1
    line = data[:end].decode("utf-8")
    if not line.strip("\n"):
        return _blank_start(data, file)
    try:
        (row,) = csv.reader([line], delimiter=delimiter, strict=True)
    except csv.Error as error:
        raise TraceError(file, 1, None, str(error), "a header") from None
    if len(row) > MAX_FIELDS:
        raise TraceError(file, 1, None, f"{len(row):,} columns", f"at most {MAX_FIELDS:,}")
    for name, count in Counter(row).items():
        if count > 1:
            raise TraceError(file, 1, name, f"{count} columns of this name", "each column once")
    return row, end


def _blank_start(data: bytes, file: File) -> tuple[list[str], int]:
    if not data.strip(b"\n"):
        raise TraceError(file, 1, None, "an empty file", "a header")
    raise TraceError(file, 1, None, "a blank line", "a header")


def _pieces(
    data: bytes, file: File, delimiter: str, names: list[str], wanted: list[str], begin: int
) -> Iterator[Piece]:
    body = data[begin:].rstrip(b"\n")
    if not body:
        return
    first_line = data.count(b"\n", 0, begin) + 1
    if _is_plain(body, delimiter, len(names)):
        yield from _plain_pieces(body, delimiter, names, wanted, first_line)
    else:
        yield from _strict_pieces(body, file, delimiter, names, wanted, first_line)


def _is_plain(body: bytes, delimiter: str, width: int) -> bool:
    """Return whether no field is quoted and each line has as many fields as there are names."""
    if b'"' in body or b"\0" in body or b"\n\n" in body or width < 2:
        return False
    num_lines = body.count(b"\n") + 1
    if body.count(delimiter.encode()) != num_lines * (width - 1):
        return False
    at = left = 0
    while at < len(body):
        end = body.find(b"\n", at + BYTES_AT_ONCE)
        end = len(body) if end < 0 else end + 1
        here = np.frombuffer(body, np.uint8, end - at, at)
        if (np.diff(np.flatnonzero(here == ord("\n")), prepend=-1, append=len(here)) > MAX_LINE).any():
            return False
        marks = here[(here == ord(delimiter)) | (here == ord("\n"))] == ord("\n")
        ends = np.flatnonzero(marks)
        left = len(marks) - (int(ends[-1]) + 1 if len(ends) else 0)
        if (np.diff(ends, prepend=-1) != width).any():
            return False
        at = end
        if left and at < len(body):
            return False
    return left in (0, width - 1)


def _plain_pieces(
    body: bytes, delimiter: str, names: list[str], wanted: list[str], first_line: int
) -> Iterator[Piece]:
    import pandas as pd

    places = [names.index(name) for name in wanted]
    chunks = pd.read_csv(
        io.BytesIO(body),
        sep=delimiter,
        header=None,
        names=range(len(names)),
        usecols=places,
        dtype=object,
        na_filter=False,
        quoting=csv.QUOTE_NONE,
        chunksize=ROWS_AT_ONCE,
        skip_blank_lines=False,
        encoding="utf-8",
    )
    for chunk in chunks:
        columns = {name: chunk[place].to_numpy() for name, place in zip(wanted, places, strict=True)}
        yield Piece(columns, np.arange(first_line, first_line + len(chunk)))
        first_line += len(chunk)


def _strict_pieces(
    body: bytes, file: File, delimiter: str, names: list[str], wanted: list[str], first_line: int
) -> Iterator[Piece]:
    places = [names.index(name) for name in wanted]
    stream = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8", newline="")
    rows = _strict_rows(stream, file, delimiter, len(names), first_line)
    while chunk := list(islice(rows, ROWS_AT_ONCE)):
        line, records = zip(*chunk, strict=True)
        columns = {}
        for name, place in zip(wanted, places, strict=True):
            cells = np.empty(len(records), object)
            cells[:] = [record[place] for record in records]
            columns[name] = cells
        yield Piece(columns, np.array(line))


def _strict_rows(
    stream: io.TextIOWrapper, file: File, delimiter: str = ",", width: int = 0, first_line: int = 1
) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the line that it starts on; each has `width` fields, or as many as the first one for 0."""
    reader = csv.reader(stream, delimiter=delimiter, strict=True)
    line, blank = first_line, 0
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TraceError(file, line, None, str(error), f"{_NAMES[delimiter]}-separated values") from None
        if not record:
            blank = blank or line
        elif blank:  # blank lines are allowed only at the end
            raise TraceError(file, blank, None, "a blank line", "a record (blank lines only at the end)")
        else:
            width = width or len(record)
            if len(record) != width:
                raise TraceError(file, line, None, f"{len(record)} fields", f"{width}, as in the header")
            yield line, record
        line = first_line + reader.line_num


_NAMES = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}


def _joined(parts: list[Any]) -> Any:
    """Return the pieces of a column as one."""
    if not parts:
        return np.zeros(0)
    if isinstance(parts[0], Times):
        early, late = (np.concatenate([getattr(each, name) for each in parts]) for name in ("early", "late"))
        return Times(early, late, parts[0].zone)
    return np.concatenate(parts)


# Parquet.


def parquet(file: File) -> dict[str, Cells]:
    """Return the columns of a Parquet file as arrays; TraceError where pyarrow is missing or the file is damaged."""
    try:
        import pyarrow as pa
        from pyarrow import parquet as pq
    except ImportError:
        raise TraceError(
            file,
            None,
            None,
            "a Parquet file",
            "the package pyarrow to read it (pip install pyarrow), or a CSV",
        ) from None
    try:
        found = pq.ParquetFile(file)
        meta = found.metadata
        size = sum(meta.row_group(k).total_byte_size for k in range(meta.num_row_groups))
        if size > MAX_PARQUET_BYTES:
            raise TraceError(
                file, None, None, f"{size:,} bytes when unpacked", f"at most {MAX_PARQUET_BYTES:,}"
            )
        frame = found.read().to_pandas()
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(file, None, None, quote(str(error)), "a complete Parquet file") from None
    return {str(name): frame[name].to_numpy() for name in frame.columns}
