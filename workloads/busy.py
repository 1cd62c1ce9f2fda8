"""A day of `mixed`'s jobs that come in hours of crowd and hours of calm: what is best to do depends on the hour.

The jobs are those of `workloads/_small_cluster.py`, as in `mixed`. Here is when they come, and how many
(`docs/busy.md` has the source of each figure):

- the day: a rate of exp(-0.75 cos), from the quietest hour on; the busiest and the quietest are 1.8 and 0.4 times the
  mean (Philly 2.0 and 0.5, Venus 1.7 and 0.2, PAI 1.4 and 0.6);
- the hours: times lognormal factors of deviation 0.6, tied to that of the hour before by a correlation of 0.41, as in
  Philly's generator;
- the load: raised until waiting was a third of mean JCT under `union` on training windows, then frozen; nothing else
  was searched.

Restarts cost what all public measurements together say, and jobs on one GPU slow each other as in every workload.
"""

from __future__ import annotations

from os import PathLike

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads._generated import num_jobs
from gpu_cluster_gym.workloads._scenario import Scenario
from gpu_cluster_gym.workloads._small_cluster import PHYSICS, Floats, small_cluster

MACHINES = cluster("3x8")
JOBS = 512
LOAD = 1.6  # of the GPUs, asked for and not shared
DAY_S, HOUR_S, STEP_S = 86_400.0, 3600.0, 60.0
SWING = 0.75  # of the logarithm of the rate
HOURS_ALIKE, HOURS_APART = 0.41, 0.6  # correlation and deviation of the logarithm of the rate, hour by hour

scenario = Scenario(
    trace="busy", cluster=MACHINES.name, physics=PHYSICS, jobs=JOBS, max_share=2, all_windows=True
)


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 512) invented jobs, decided by `seed`."""

    def when(level: Floats, span_s: float) -> Floats:
        return _moments(level, span_s, seed)

    number = num_jobs(file, jobs, JOBS)
    return small_cluster("busy", seed, number, gpus=MACHINES.num_gpus, load=LOAD, when=when)


def _moments(level: Floats, span_s: float, seed: int) -> Floats:
    """Return when, s, such shares of all that come over the span have come; time 0 is the quietest of the day."""
    step = np.arange(0, span_s, STEP_S)
    of_day = -SWING * np.cos(2 * np.pi * step / DAY_S)
    of_hour = HOURS_APART * _tied(seed, int(span_s // HOUR_S) + 1)[(step // HOUR_S).astype(int)]
    come = np.cumsum(np.exp(of_day + of_hour))
    return np.interp(level, np.r_[0, come] / come[-1], np.r_[step, span_s])


def _tied(seed: int, hours: int) -> Floats:
    """Return a standard normal number for each hour, tied to that of the hour before."""
    fresh = stream(seed, "busy hours").standard_normal(hours)
    fresh[1:] *= np.sqrt(1 - HOURS_ALIKE**2)
    tied: Floats = lfilter([1], [1, -HOURS_ALIKE], fresh)
    return tied
