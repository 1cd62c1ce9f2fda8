"""What the generators without a log share: what is asked for, and a table that says how it was made."""

from __future__ import annotations

from os import PathLike

import pandas as pd

from gpu_cluster_gym.traces import TraceError, check


def count(file: str | PathLike[str] | None, jobs: int | None, usual: int) -> int:
    """Return how many jobs to invent; TraceError for a file, of which there is none to read."""
    if file is not None:
        raise TraceError(file, None, None, "a file", "none: this trace is invented, leave --trace-file out")
    if jobs is not None and jobs < 1:
        raise ValueError(f"{jobs} jobs were asked for; at least 1 is needed")
    return usual if jobs is None else jobs


def invented(table: pd.DataFrame, paper: str) -> pd.DataFrame:
    """Return a checked copy that names the paper for whose experiment its jobs are drawn."""
    named = table.copy()
    named.attrs["origin"] = dict.fromkeys(table.columns, f"filled: drawn for {paper}'s experiment")
    return check(named, file=f"{paper} generator")
