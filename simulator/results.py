"""What became of every job: one results table an episode, one row a job."""

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

COLUMNS = {
    "window": "number of the window, 0 where the whole trace is one episode",
    "seed": "seed of the scenario",
    "job_id": "the job's name in its trace, unchanged",
    "kind": "gpu or cpu",
    "num_gpus": "GPUs asked for, which a job holds while running, pausing and loading; 0 for CPU jobs",
    "submit_s": "time of submission",
    "start_s": "time of the first start, NaN if it never started",
    "finish_s": "time of completion, NaN if unfinished when the window was cut",
    "jct_s": "job completion time, finish minus submission",
    "wait_s": "time without GPUs: queued, paused, or delayed before a restart",
    "run_s": "time running whose progress was kept",
    "overhead_s": "time holding GPUs without progress: pausing and loading",
    "lost_s": "time running whose progress was lost",
    "preemptions": "how often the job was paused",
    "oom_restarts": "how often it ran out of GPU memory and began anew",
    "status": "how it ended",
    "busy_s": "time its GPUs were busy up to the last submission: run time x speed / speed with plenty of cores",
    "shared_s": "time it ran beside another job, the mean over its GPUs",
    "core_s": "CPU core-seconds held",
    "resizes": "how often it was restarted to hold other GPUs",
    "failures": "how often it failed by itself or with a node, and fell back to a checkpoint",
    "run_gpu_s": "GPU-seconds of running whose progress was kept",
    "overhead_gpu_s": "GPU-seconds held without progress",
    "lost_gpu_s": "GPU-seconds of running whose progress was lost",
}
"""The columns of the results table, in order. Times are seconds; those without a unit are counts or names."""

UNLESS_GIVEN = {
    "busy_s": math.nan,
    "shared_s": 0.0,
    "core_s": math.nan,
    "resizes": 0,
    "failures": 0,
    "run_gpu_s": math.nan,
    "overhead_gpu_s": math.nan,
    "lost_gpu_s": math.nan,
}
"""What a column holds that is not given."""

PARTS = ["wait_s", "run_s", "overhead_s", "lost_s"]
"""What a job completion time is the sum of."""


def table(*, window: int, seed: int, allow_unfinished: bool = False, **columns: ArrayLike) -> pd.DataFrame:
    """Return the results table of one episode, one row a job, with `COLUMNS` as its columns.

    columns: arrays over jobs, by their names in `COLUMNS`, all but `jct_s` and those of `UNLESS_GIVEN`; GPU-seconds
    that are not given are those of the GPUs asked for. An unfinished job has a NaN `finish_s`, hence a
    NaN `jct_s`; the parts of its time then reach to the cut. Raises `ValueError` if a job is unfinished,
    unless `allow_unfinished` says that the window was cut.
    """
    given = {"window": window, "seed": seed, **UNLESS_GIVEN, **columns}
    if wrong := set(given) ^ (set(COLUMNS) - {"jct_s"}):
        raise TypeError(f"columns of a results table: {', '.join(sorted(wrong))} unknown, or missing")
    results = pd.DataFrame(given)
    results = results.assign(**_gpu_seconds(results))
    results["jct_s"] = results["finish_s"] - results["submit_s"]
    refuse_unfinished(results, allow_unfinished=allow_unfinished)
    excess = (results["jct_s"] - results[PARTS].sum(axis="columns")).abs()
    rounding = 8 * np.spacing(results["finish_s"])
    broken = results[excess > 1e-6 * results["jct_s"].clip(lower=1.0) + rounding]
    assert broken.empty, f"completion time is not the sum of its parts:\n{broken.head()}"
    return results[list(COLUMNS)]


def _gpu_seconds(results: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the GPU-seconds that were not given, those of the GPUs asked for."""
    left_out = [part for part in ("run", "overhead", "lost") if results[f"{part}_gpu_s"].isna().any()]
    return {f"{part}_gpu_s": results["num_gpus"] * results[f"{part}_s"] for part in left_out}


def refuse_unfinished(results: pd.DataFrame, *, allow_unfinished: bool) -> None:
    """Raise ValueError if a job is unfinished, unless that is allowed."""
    unfinished = results["finish_s"].isna()
    if unfinished.any() and not allow_unfinished:
        first = results.loc[unfinished, "job_id"].iloc[0]
        raise ValueError(
            f"{unfinished.sum()} of {len(results)} jobs are unfinished, the first is {first}: "
            "let the episode drain, or pass allow_unfinished=True if the window was cut on purpose"
        )
