"""Xonar's experiment with jobs above 8 GB alone: more than a third of the pairs would run over a GPU's memory."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

import pandas as pd

from gpu_cluster_gym.workloads import xonar_mix
from gpu_cluster_gym.workloads._invented import count
from gpu_cluster_gym.workloads._xonar_like import generate

ABOVE_GIB = (
    8.0  # our choice: two such jobs overflow a GPU of 32 GiB in 36 % of pairs, against 12 % of any two
)

scenario = replace(xonar_mix.scenario, trace="xonar_memory")


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 10) invented jobs of two GPUs and more than 8 GiB on each, decided by `seed`."""
    return generate(seed, count(file, jobs, xonar_mix.JOBS), above_gib=ABOVE_GIB)
