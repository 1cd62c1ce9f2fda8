"""A CSV file in the job table's own columns: any cluster's log, without a module of its own."""

from __future__ import annotations

from itertools import islice
from os import PathLike

import numpy as np
import pandas as pd

from gpu_cluster_gym.traces._columns import COLUMNS
from gpu_cluster_gym.traces._files import records
from gpu_cluster_gym.traces._table import TraceError, check, check_header, first, values

_ROWS_AT_ONCE = 65_536


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Read the job table from a CSV file (`.gz` too): columns in any order, times and ids as they are.

    Unknown columns are named in the notes and left out. Whatever is malformed is a TraceError with its line.
    `seed` is not needed: nothing here is drawn. `jobs` keeps the first so many.
    """
    if file is None:
        raise TraceError(
            "trace", None, None, "no file", "one with the job table's columns: --trace-file FILE"
        )
    rows = records(file)
    _, header = next(rows)
    ignored = check_header(header, file)
    known = [(header.index(column.name), column) for column in COLUMNS if column.name in header]
    parts: list[list[np.ndarray]] = []
    lines: list[int] = []
    while chunk := list(islice(rows, _ROWS_AT_ONCE)):  # numbers take far less room than their text
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
