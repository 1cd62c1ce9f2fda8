"""Xonar's experiment: ten jobs at once, of all its settings, on one pair of 32 GB GPUs, at most two on each.

The jobs are those of `_xonar_like`. Two that want more than a GPU slow each other down in proportion, and by a fixed
25 % besides: fitted, so that the authors' queue of ten takes the 634.8 s under FIFO with a memory test that it took on
their V100s (`experiments/xonar.py`). Their parameter servers, network and hosts are in that figure. Where
memory runs over, any job on the GPU may be the victim; it is tried again after as long as a start-up and its clean-up.
"""

from __future__ import annotations

from os import PathLike

import pandas as pd

from gpu_cluster_gym.workloads._invented import count
from gpu_cluster_gym.workloads._scenario import Scenario
from gpu_cluster_gym.workloads._xonar_like import ITERATIONS, STARTUP_S, generate, jobs_table

__all__ = ["ITERATIONS", "JOBS", "LOSS", "STARTUP_S", "jobs_table", "scenario", "trace"]

JOBS = 10  # as in a trial of the authors
LOSS = 0.25

scenario = Scenario(
    trace="xonar_mix",
    cluster="1x2-32gb",
    physics="memory,sharing,startup",
    max_share=2,
    contention_form="excess",
    contention=1.0,
    contention_loss=LOSS,
    oom_victim="random",
    restart_delay=STARTUP_S,
    jobs=JOBS,
    all_windows=True,
)


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 10) invented jobs of two GPUs, decided by `seed`."""
    return generate(seed, count(file, jobs, JOBS))
