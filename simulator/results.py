"""Results table of an episode: one row per job, each column declared once."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from gpu_cluster_gym.traces import COLUMNS as JOB_COLUMNS


class Ended(NamedTuple):
    """A finished episode and the table of its jobs."""

    jobs: pd.DataFrame
    state: np.record

    def booked(self, field: str) -> np.ndarray:
        """Return a field of the record over jobs; times are seconds."""
        array: np.ndarray = self.state[field][: len(self.jobs)]
        return array.copy()


class Column(NamedTuple):
    """Column of the results table.

    of: computes the column from a finished episode; None for the record's field of that name.
    unless_given: default in a table assembled without the column; None if the column is required.
    """

    name: str
    meaning: str
    of: Callable[[Ended], ArrayLike] | None = None
    unless_given: float | None = None


def _as_in_the_trace(name: str) -> Callable[[Ended], ArrayLike]:
    return lambda ended: ended.jobs[name].array if name in ended.jobs else ""


def _run_s(ended: Ended) -> ArrayLike:
    run_s: np.ndarray = ended.booked("attained_s") + ended.booked("delay_s")
    return run_s


def _busy_s(ended: Ended) -> ArrayLike:
    busy_s: np.ndarray = ended.booked("busy_gpu_s") / np.maximum(ended.jobs["num_gpus"].to_numpy(), 1)
    return busy_s


ROWS = (
    Column("window", "index of the window in its split, 0 if the whole trace is one episode"),
    Column("seed", "seed of the scenario"),
    Column("job_id", "the job's name in its trace, unchanged", _as_in_the_trace("job_id")),
    Column("kind", "gpu or cpu", _as_in_the_trace("kind")),
    Column(
        "num_gpus",
        "GPUs requested, which a job holds while running, pausing and loading; 0 for CPU jobs",
        _as_in_the_trace("num_gpus"),
    ),
    Column("submit_s", "time of submission", _as_in_the_trace("submit_s")),
    Column("start_s", "time of the first start, NaN if it never started"),
    Column("finish_s", "time of completion, NaN if unfinished when the window was cut"),
    Column("jct_s", "job completion time, finish minus submission"),
    Column("wait_s", "time without GPUs: queued, paused, or delayed before a restart"),
    Column("run_s", "time running whose progress was kept", _run_s),
    Column("overhead_s", "time holding GPUs without progress: pausing and loading"),
    Column("lost_s", "time running whose progress was lost"),
    Column("preemptions", "number of preemptions"),
    Column("oom_restarts", "number of failures for lack of GPU memory, each of which loses all progress"),
    Column("status", "final status in its trace", _as_in_the_trace("status")),
    Column(
        "busy_s",
        "time its GPUs were busy up to the last submission: run time x speed / speed with plenty of cores",
        _busy_s,
        math.nan,
    ),
    Column("shared_s", "time it shared GPUs with other jobs, the mean over its GPUs", None, 0.0),
    Column("core_s", "CPU core-seconds held", None, math.nan),
    Column("resizes", "number of restarts on other GPUs or in another shape", None, 0),
    Column("failures", "number of failures by itself or with a node, back to a checkpoint", None, 0),
    Column("shared_gpu_s", "GPU-seconds of sharing with other jobs", None, math.nan),
    Column("run_gpu_s", "GPU-seconds of running whose progress was kept", None, math.nan),
    Column("overhead_gpu_s", "GPU-seconds held without progress", None, math.nan),
    Column("lost_gpu_s", "GPU-seconds of running whose progress was lost", None, math.nan),
    *(
        Column(column.name, column.meaning, _as_in_the_trace(column.name), math.nan)
        for column in JOB_COLUMNS
        if column.in_results
    ),
)
COLUMNS = {row.name: row.meaning for row in ROWS}
"""Columns of the results table, in order. Times are seconds; columns without a unit are counts or names."""

PARTS = ["wait_s", "run_s", "overhead_s", "lost_s"]
"""Columns whose sum is the job completion time."""


def of_episode(
    jobs: pd.DataFrame, state: np.record, *, window: int, seed: int, rows: np.ndarray | None = None
) -> pd.DataFrame:
    """Return the results table of a finished episode.

    jobs: table of its jobs.
    state: its record.
    window, seed: values of the columns of that name.
    rows: which jobs to include, bool (jobs,); default: all.

    ValueError if one of these jobs is unfinished.
    """
    ended = Ended(jobs, state)
    own = ("window", "seed", "jct_s")
    cells: dict[str, Any] = {
        row.name: row.of(ended) if row.of else ended.booked(row.name) for row in ROWS if row.name not in own
    }
    if rows is not None:
        cells = {name: np.asarray(it)[rows] if np.ndim(it) else it for name, it in cells.items()}
    return table(window=window, seed=seed, **cells)


def table(*, window: int, seed: int, allow_unfinished: bool = False, **columns: ArrayLike) -> pd.DataFrame:
    """Return the results table of one episode, one row per job, with `COLUMNS` as its columns.

    window, seed: values of the columns of that name.
    allow_unfinished: whether unfinished jobs are allowed because the window was cut.
    columns: arrays over jobs by column name, all except `jct_s` and those with a default in `ROWS`. Missing
    GPU-seconds are computed from the GPUs requested.

    An unfinished job has a NaN `finish_s`, hence a NaN `jct_s`; the parts of its time then reach to the cut.
    Raises ValueError if a job is unfinished, unless allowed.
    """
    left_out = {row.name: row.unless_given for row in ROWS if row.unless_given is not None}
    given = {"window": window, "seed": seed, **left_out, **columns}
    if wrong := set(given) ^ (set(COLUMNS) - {"jct_s"}):
        raise TypeError(
            f"results table: unknown or missing columns {', '.join(sorted(wrong))}; expected those of COLUMNS, except "
            "jct_s and those with a default"
        )
    results = pd.DataFrame({name: given.get(name, math.nan) for name in COLUMNS})
    for part in ("shared", "run", "overhead", "lost"):
        if results[f"{part}_gpu_s"].isna().any():
            results[f"{part}_gpu_s"] = results["num_gpus"] * results[f"{part}_s"]
    results["jct_s"] = results["finish_s"] - results["submit_s"]
    refuse_unfinished(results, allow_unfinished=allow_unfinished)
    refuse_lost_time(results)
    return results


def refuse_lost_time(results: pd.DataFrame) -> None:
    """Raise AssertionError if a completion time is not the sum of its parts, except for rounding."""
    jct_s, finish_s = (results[name].to_numpy(float) for name in ("jct_s", "finish_s"))
    excess = np.abs(jct_s - np.nansum(results[PARTS].to_numpy(float), axis=1))
    broken = excess > 1e-6 * np.maximum(jct_s, 1.0) + 8 * np.spacing(finish_s)
    assert not broken.any(), f"completion time is not the sum of its parts:\n{results[broken].head()}"


def refuse_unfinished(results: pd.DataFrame, *, allow_unfinished: bool) -> None:
    """Raise ValueError if a job is unfinished, unless that is allowed."""
    unfinished = results["finish_s"].isna()
    if unfinished.any() and not allow_unfinished:
        first = results.loc[unfinished, "job_id"].iloc[0]
        raise ValueError(
            f"{unfinished.sum()} of {len(results)} jobs are unfinished (the first is {first}): "
            "let the episode drain, or pass allow_unfinished=True if the window was cut on purpose"
        )
