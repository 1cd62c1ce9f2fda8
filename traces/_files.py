"""Text out of files that may be anything: missing, cut short, packed, in another encoding, hostile."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from gpu_cluster_gym.traces._table import TraceError

# Deflate packs at most 1,032 to 1 and job logs about 10 to 1. Past this a packed file is taken for a bomb.
_FREE_BYTES = 16 * 2**20
_BYTES_PER_PACKED_BYTE = 50


def open_text(file: str | PathLike[str]) -> io.TextIOWrapper:
    """Return a file's text as a stream, all of it UTF-8 for certain; `.gz` is unpacked in memory."""
    data = _read(file)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceError(file, line, None, f"the byte 0x{data[error.start]:02x}", "text in UTF-8") from None
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")


def records(file: str | PathLike[str], *, skip_blanks: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield each record of a CSV file with the line it starts on, the header as the first.

    All records are as wide as the header. `skip_blanks` drops the blanks behind each comma.
    """
    reader = csv.reader(open_text(file), strict=True, skipinitialspace=skip_blanks)
    line, blank, width = 1, 0, 0
    while True:
        try:
            record = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            raise TraceError(file, line, None, str(error), "comma-separated values") from None
        if not record:
            blank = blank or line
        elif blank:  # blank lines may only end a file
            raise TraceError(file, blank, None, "a blank line", "a job")
        else:
            width = width or len(record)
            if len(record) != width:
                raise TraceError(file, line, None, f"{len(record)} fields", f"{width}, as in the header")
            yield line, record
        line = reader.line_num + 1
    if not width:
        raise TraceError(file, 1, None, "an empty file", "a header")


def _read(file: str | PathLike[str]) -> bytes:
    try:
        path = Path(file)
        if path.exists() and not path.is_file():
            raise TraceError(file, None, None, "no ordinary file", "a file")
        if path.suffix != ".gz":
            return path.read_bytes()
        limit = _FREE_BYTES + _BYTES_PER_PACKED_BYTE * path.stat().st_size
        with gzip.open(path) as stream:
            data = stream.read(limit + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(file, None, None, str(error), "a whole gzip file") from None
    except OSError as error:
        raise TraceError(file, None, None, error.strerror or str(error), "a file that can be read") from None
    if len(data) > limit:
        expected = (
            f"at most {_FREE_BYTES:,} + {_BYTES_PER_PACKED_BYTE} for each packed one (or unpack it first)"
        )
        raise TraceError(file, None, None, f"more than {limit:,} bytes when unpacked", expected)
    return data
