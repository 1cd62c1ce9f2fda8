"""Job traces: real logs, and generators fitted on them, all as one job table; and what the rooms above build on.

A public module of this folder is a trace, and its name is the name to load it by; it defines
`trace(file=None, *, seed, jobs) -> DataFrame`. `generic` reads a CSV in the table's own columns.
"""

from __future__ import annotations

if __name__ != "gpu_cluster_gym.traces":
    raise ImportError("traces is part of a package: import gpu_cluster_gym.traces, not traces")

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from gpu_cluster_gym.traces._registry import did_you_mean, find, modules, unknown

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.traces._column_type import Column
    from gpu_cluster_gym.traces._columns import COLUMNS
    from gpu_cluster_gym.traces._fill_missing import ERRORS, MOST_LOSS, WORKER_CORES, fill, runs
    from gpu_cluster_gym.traces._profiles import NO_MODEL, STATISTICS, models, speed_on
    from gpu_cluster_gym.traces._streams import seed_from, stream
    from gpu_cluster_gym.traces._table import TraceError, check, first

__all__ = [
    "COLUMNS",
    "ERRORS",
    "MOST_LOSS",
    "NO_MODEL",
    "STATISTICS",
    "VERSION",
    "WORKER_CORES",
    "Column",
    "TraceError",
    "check",
    "did_you_mean",
    "fill",
    "find",
    "first",
    "load",
    "models",
    "modules",
    "names",
    "runs",
    "seed_from",
    "speed_on",
    "stream",
    "unknown",
]

VERSION = 2
"""Of all that is drawn, that of `GPUCluster-v2`: raised whenever the same seed comes to give other results."""

_LATER = (
    dict.fromkeys(("ERRORS", "MOST_LOSS", "WORKER_CORES", "fill", "runs"), "_fill_missing")
    | dict.fromkeys(("NO_MODEL", "STATISTICS", "models", "speed_on"), "_profiles")
    | dict.fromkeys(("TraceError", "check", "first"), "_table")
    | dict.fromkeys(("seed_from", "stream"), "_streams")
    | {"COLUMNS": "_columns", "Column": "_column_type"}
)

if not TYPE_CHECKING:  # else a checker would believe in any name

    def __getattr__(name: str) -> Any:
        """Import what is heavy when it is first asked for."""
        if name not in _LATER:
            raise AttributeError(f"module 'traces' has no attribute {name!r}")
        return getattr(import_module(f"gpu_cluster_gym.traces.{_LATER[name]}"), name)


def names() -> list[str]:
    """Return the names of all traces."""
    return [name for name in modules("traces") if name != "generic"]


def load(
    name: str | None = None, file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None
) -> pd.DataFrame:
    """Return a trace as the job table: `file` by the trace's reader, or its generator without one.

    Without a name the file is a CSV with the columns of `COLUMNS`. `seed` decides all that a generator draws;
    `jobs` is how many it makes, or how many of a file's first jobs are kept. Raise TraceError for a file that
    cannot be read, ValueError for an unknown name.
    """
    trace = find("traces", name or "generic", "trace")
    table: pd.DataFrame = trace(file, seed=seed, jobs=jobs)
    return table
