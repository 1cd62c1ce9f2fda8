"""Xonar's experiment with jobs above 8 GB only: more than a third of the pairs would overflow a GPU's memory."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

import pandas as pd

from gpu_cluster_gym.workloads import xonar_mix
from gpu_cluster_gym.workloads._generated import num_jobs

ABOVE_GIB = (
    8.0  # our choice: two such jobs overflow a GPU of 32 GiB in 36 % of pairs, against 12 % of all pairs
)

scenario = replace(xonar_mix.scenario, trace="xonar_memory")


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 10) generated jobs of two GPUs and more than 8 GiB on each, determined by `seed`."""
    return xonar_mix.generate(seed, num_jobs(file, jobs, xonar_mix.JOBS), above_gib=ABOVE_GIB)
