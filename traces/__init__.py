"""Job traces: real logs, and generators fitted to them, all as one job table.

A public module of this folder is a trace, and its name is the name to load it by. It defines a `reader` of the log's
original files (`_log.Reader`), a function `trace(file=None, *, seed, jobs) -> DataFrame` that generates jobs, or both.
`generic` reads a table in the job table's own columns. Other packages add traces by entry points in the group
`gpu_cluster_gym.traces`: such a function, or such a module.
"""

from __future__ import annotations

if __name__ != "gpu_cluster_gym.traces":
    raise ImportError("traces is part of a package: import gpu_cluster_gym.traces, not traces")

from os import PathLike
from typing import TYPE_CHECKING, Any

from gpu_cluster_gym.traces._asking import asking, refuse_while_asking
from gpu_cluster_gym.traces._columns import COLUMNS, NOTHING, Column
from gpu_cluster_gym.traces._delimited import records as csv_records
from gpu_cluster_gym.traces._fill import (
    ERRORS,
    MAX_LOSS,
    NO_MODEL,
    STATISTICS,
    WORKER_CORES,
    fill,
    models,
    runs,
    speed_on,
)
from gpu_cluster_gym.traces._log import Options, columns_given
from gpu_cluster_gym.traces._registry import (
    add_current_folder,
    available,
    did_you_mean,
    find,
    load_own,
    modules,
    plug_ins,
    provider,
    unknown,
)
from gpu_cluster_gym.traces._snapshot import Snapshot, cut, finished, has_known_columns, snapshot
from gpu_cluster_gym.traces._streams import seed_from, stream
from gpu_cluster_gym.traces._table import OVER_LIMIT, TraceError, check, first
from gpu_cluster_gym.traces._times import zone_expected

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.traces._generator import Rates

__all__ = [
    "COLUMNS",
    "ERRORS",
    "MAX_LOSS",
    "NOTHING",
    "NO_MODEL",
    "OVER_LIMIT",
    "STATISTICS",
    "VERSION",
    "WORKER_CORES",
    "Column",
    "Snapshot",
    "TraceError",
    "add_current_folder",
    "asking",
    "available",
    "check",
    "columns_given",
    "csv_records",
    "cut",
    "did_you_mean",
    "fill",
    "find",
    "finished",
    "first",
    "has_known_columns",
    "load",
    "load_own",
    "models",
    "modules",
    "names",
    "plug_ins",
    "provider",
    "rates",
    "refuse_while_asking",
    "runs",
    "seed_from",
    "snapshot",
    "speed_on",
    "stream",
    "unknown",
    "zone_expected",
]

VERSION = 2
"""Version of all random draws, that of `GPUCluster-v2`: raised by each change that alters the results of a seed."""


def names() -> list[str]:
    """Return the names of all traces."""
    return [name for name in available("traces") if name != "generic"]


def load(
    name: str | None = None,
    file: str | PathLike[str] | None = None,
    *,
    seed: int,
    jobs: int | None = None,
    columns: str | None = None,
    time_zone: str | None = None,
    scale: float = 1.0,
) -> pd.DataFrame:
    """Return a trace as the job table.

    name: a trace; None to detect the format of the file, which may also be a table with the columns of `COLUMNS`
    file: a log for the trace's reader; None for jobs of its generator
    seed: seed of a generator
    jobs: number of jobs to generate, or of a file's first jobs to keep
    columns: headings of a table whose columns have other names, such as `job_id="job id",submit_s=submit`
    time_zone: zone of times that have none; None for UTC
    scale: arrivals per hour of a generator that is fitted to a log, relative to the log's

    TraceError for a file that cannot be read, ValueError for an unknown name.
    """
    refuse_while_asking("a trace")
    from gpu_cluster_gym.traces import _readers

    found = provider("traces", name or _readers.GENERIC, "trace")
    if file is not None and (name is None or hasattr(found, "reader")):
        options = Options(columns_given(columns), time_zone)
        return first(_readers.read(name, file, options), jobs)
    if name is None or (hasattr(found, "reader") and not hasattr(found, "trace")):
        raise TraceError(
            name or "trace", None, None, "no file", "a log (--trace-file FILE), since it has no generator"
        )
    scaled = {} if scale == 1 else {"scale": scale}
    table: pd.DataFrame = find("traces", name, "trace")(file, seed=seed, jobs=jobs, **scaled)
    return table


def rates(name: str | None) -> Rates | None:
    """Return the rates of a generator that can be scaled; None for any other trace."""
    found: Any = provider("traces", name, "trace") if name in available("traces") else None
    return found.rates() if hasattr(found, "rates") else None
