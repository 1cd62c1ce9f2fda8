"""Shared parts of generators without a log: the number of jobs, estimates, and a table that names its origin."""

from __future__ import annotations

from os import PathLike

import numpy as np
import pandas as pd

from gpu_cluster_gym.traces import ERRORS, TraceError, check, refuse_while_asking, stream

FROM_START, NEVER = 0.45, 0.15  # shares of jobs that are predictable from the start, and never
TURNS_AT = (0.1, 0.9)  # share of the run at which the others become predictable, uniform


def num_jobs(file: str | PathLike[str] | None, jobs: int | None, default: int) -> int:
    """Return the number of jobs to generate; TraceError for a file, which no generator reads."""
    refuse_while_asking("a trace")
    if file is not None:
        raise TraceError(file, None, None, "a file", "no file: this trace is generated (drop --trace-file)")
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs {jobs}: expected at least 1")
    return default if jobs is None else jobs


def with_estimates(table: pd.DataFrame, name: str, seed: int) -> pd.DataFrame:
    """Return the jobs with the time they become predictable, and estimates before and after.

    name: of the workload, as part of the names of random streams
    """
    number = len(table)
    kind = stream(seed, f"{name} kinds").random(number)
    later = stream(seed, f"{name} turns").uniform(*TURNS_AT, number)
    turns = np.select([kind < FROM_START, kind < 1 - NEVER], [0.0, later], 1.0)
    good, bad = (
        table["duration_s"] * np.exp(error * stream(seed, f"{name} errors {error}").standard_normal(number))
        for error in ERRORS
    )
    return table.assign(
        predictable_from=turns,
        profiled_duration_s=np.maximum(np.where(turns > 0, bad, good), 1.0),
        predicted_duration_s=np.maximum(good, 1.0),
    )


def generated(table: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return a checked copy that names the experiment or workload for which its jobs are drawn."""
    named = table.copy()
    named.attrs["origin"] = dict.fromkeys(table.columns, f"filled: drawn for {what}")
    return check(named, file=f"generator of {what}")
