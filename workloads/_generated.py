"""Shared parts of generators without a log: the number of jobs, and a table that names its origin."""

from __future__ import annotations

from os import PathLike

import pandas as pd

from gpu_cluster_gym.traces import TraceError, check, refuse_while_asking


def num_jobs(file: str | PathLike[str] | None, jobs: int | None, default: int) -> int:
    """Return the number of jobs to generate; TraceError for a file, which no generator reads."""
    refuse_while_asking("a trace")
    if file is not None:
        raise TraceError(file, None, None, "a file", "no file: this trace is generated (drop --trace-file)")
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs {jobs}: expected at least 1")
    return default if jobs is None else jobs


def generated(table: pd.DataFrame, paper: str) -> pd.DataFrame:
    """Return a checked copy that names the paper whose experiment its jobs are drawn for."""
    named = table.copy()
    named.attrs["origin"] = dict.fromkeys(table.columns, f"filled: drawn for {paper}'s experiment")
    return check(named, file=f"{paper} generator")
