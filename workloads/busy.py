"""A day of `mixed`'s jobs with busy and quiet hours: the best policy depends on the hour.

The jobs are those of `workloads/_small_cluster.py`, as in `mixed`; their arrivals differ (`docs/workloads.md` has the
source of each figure):

- the day: a rate of exp(-0.75 cos), from the quietest hour on; the busiest and the quietest are 1.8 and 0.4 times the
  mean (Philly 2.0 and 0.5, Venus 1.7 and 0.2, PAI 1.4 and 0.6);
- the hours: times lognormal factors with a standard deviation of 0.6 and a correlation of 0.41 from hour to hour, as in
  Philly's generator;
- the load: raised until waiting was a third of mean JCT under `union` on training windows, then frozen; nothing else
  was searched.

Restart costs are fitted to all public measurements, and co-located jobs slow each other down as in every workload.
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
LOAD = 1.6  # of the GPUs, without sharing
DAY_S, HOUR_S, STEP_S = 86_400.0, 3600.0, 60.0
SWING = 0.75  # of the log rate
HOUR_CORRELATION, HOUR_SPREAD = (
    0.41,
    0.6,
)  # of the log rate from hour to hour: correlation, standard deviation

scenario = Scenario(
    trace="busy", cluster=MACHINES.name, physics=PHYSICS, jobs=JOBS, max_share=2, all_windows=True
)


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 512) generated jobs, determined by `seed`."""

    def when(level: Floats, span_s: float) -> Floats:
        return _moments(level, span_s, seed)

    number = num_jobs(file, jobs, JOBS)
    return small_cluster("busy", seed, number, gpus=MACHINES.num_gpus, load=LOAD, when=when)


def _moments(level: Floats, span_s: float, seed: int) -> Floats:
    """Return the times, s, by which shares `level` of all jobs have arrived; time 0 is the quietest hour."""
    step = np.arange(0, span_s, STEP_S)
    of_day = -SWING * np.cos(2 * np.pi * step / DAY_S)
    of_hour = HOUR_SPREAD * _correlated(seed, int(span_s // HOUR_S) + 1)[(step // HOUR_S).astype(int)]
    arrived = np.cumsum(np.exp(of_day + of_hour))
    return np.interp(level, np.r_[0, arrived] / arrived[-1], np.r_[step, span_s])


def _correlated(seed: int, hours: int) -> Floats:
    """Return a standard normal number for each hour, correlated with that of the hour before."""
    fresh = stream(seed, "busy hours").standard_normal(hours)
    fresh[1:] *= np.sqrt(1 - HOUR_CORRELATION**2)
    correlated: Floats = lfilter([1], [1, -HOUR_CORRELATION], fresh)
    return correlated
