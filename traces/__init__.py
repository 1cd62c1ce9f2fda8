"""Job traces: real logs and generators, all as one job table.

A public module of this folder is a trace, and its name is the name to load it by; it defines
`trace(file=None, *, seed, jobs) -> DataFrame`. `generic` reads a CSV in the table's own columns.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from os import PathLike
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from traces._table import COLUMNS, Column, TraceError, check

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

__all__ = ["COLUMNS", "Column", "TraceError", "check", "fill", "load", "names", "speed_on"]


def names() -> list[str]:
    """Return the names of all traces."""
    modules = (module.name for module in iter_modules(__path__))
    return sorted(name for name in modules if not name.startswith("_") and name != "generic")


def load(
    name: str | None = None, file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None
) -> pd.DataFrame:
    """Return a trace as the job table: `file` by the trace's reader, or its generator without one.

    Without a name the file is a CSV with the columns of `COLUMNS`. `seed` decides all that a generator draws;
    `jobs` is how many it makes, or how many of a file's first jobs are kept. Raise TraceError for a file that
    cannot be read, ValueError for an unknown name.
    """
    if name is not None and name not in names():
        near = get_close_matches(name, names(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no trace {name!r} among {', '.join(names())}{hint}")
    module = import_module(f"traces.{name or 'generic'}")
    table: pd.DataFrame = module.trace(file, seed=seed, jobs=jobs)
    return table


def fill(table: pd.DataFrame, *, seed: int, largest_gpu_gib: float, cores_per_gpu: int = 6) -> pd.DataFrame:
    """Return the job table with each missing column drawn from the profiles; see `traces._fill`."""
    from traces._fill import fill as fill_table

    return fill_table(table, seed=seed, largest_gpu_gib=largest_gpu_gib, cores_per_gpu=cores_per_gpu)


def speed_on(gpu_type: str, models: pd.Series) -> np.ndarray:
    """Return how fast each model computes on a type of GPU, over its speed on a V100; see `traces/data/models.csv`."""
    from traces._profiles import speed_on as look_up

    return look_up(gpu_type, models)
