"""Xonar's experiment: ten jobs at once, of all its settings, on one pair of 32 GB GPUs, at most two on each.

The jobs are those of `_xonar_like`. Two that want more than a GPU slow each other down in proportion, and by a fixed
4 % per co-located job. Where memory runs over, any job on the GPU may be the victim.
"""

from __future__ import annotations

from os import PathLike

import pandas as pd

from workloads._invented import count
from workloads._scenario import Scenario
from workloads._xonar_like import generate

JOBS = 10  # as in a trial of the authors

scenario = Scenario(
    trace="xonar_mix",
    cluster="1x2-32gb",
    physics="memory,sharing",
    max_share=2,
    contention_form="excess",
    contention=1.0,
    contention_loss=0.04,
    oom_victim="random",
    restart_delay=25.0,
    jobs=JOBS,
    all_windows=True,
)


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 10) invented jobs of two GPUs, decided by `seed`."""
    return generate(seed, count(file, jobs, JOBS))
