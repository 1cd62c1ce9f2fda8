"""A CSV file in the job table's own columns, for logs without a reader module."""

from __future__ import annotations

from itertools import islice
from os import PathLike

import numpy as np
import pandas as pd

from gpu_cluster_gym.traces._columns import COLUMNS
from gpu_cluster_gym.traces._table import TraceError, check, check_header, first, records, values

_ROWS_AT_ONCE = 65_536


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Read the job table from a CSV file (also `.gz`): columns in any order, times and ids unchanged.

    Unknown columns are left out and named in the notes. TraceError with its line for the first malformed cell. `seed`
    is unused, since nothing is drawn. `jobs` keeps only the first rows.
    """
    if file is None:
        raise TraceError(
            "trace", None, None, "no file", "a file with the job table's columns (--trace-file FILE)"
        )
    rows = records(file)
    _, header = next(rows)
    ignored = check_header(header, file)
    known = [(header.index(column.name), column) for column in COLUMNS if column.name in header]
    parts: list[list[np.ndarray]] = []
    lines: list[int] = []
    while chunk := list(islice(rows, _ROWS_AT_ONCE)):  # numbers take far less memory than their text
        line, cells = zip(*chunk, strict=True)
        fields = list(zip(*cells, strict=True))
        parts.append([values(column, fields[place], line, file) for place, column in known])
        lines.extend(line)
    names = [column.name for _, column in known]
    arrays = [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
    table = pd.DataFrame(dict(zip(names, arrays, strict=True)) if arrays else {}, columns=names)
    if ignored:
        table.attrs["notes"] = [f"columns ignored, unknown to the job table: {', '.join(map(repr, ignored))}"]
    return first(check(table, file=file, line=lines), jobs)
