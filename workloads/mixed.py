"""Jobs for which four mechanisms matter at once: GPU sharing, preemption, elastic sizes and allocation of CPU cores.

Half a generated day of a small shared cluster. No figure is fitted to the results of any policy (`docs/workloads.md`
has the source of each). The jobs are those of `workloads/_small_cluster.py`, with:

- arrivals: a rate that swings by 60 % once (from the mean, the busiest and quietest hours are 2.0 and 0.5 times it in
  Philly, 1.7 and 0.2 in Venus); submissions are spread so that every episode is offered the same load, which counts
  GPUs that are not shared;
- restarts: at high cost.

Two jobs slow each other down as Gavel measured on V100s, and by a fixed 4 % per co-located job (Lucid's pairs: 3 to
5 %). There are no failures, since they are no lever.
"""

from __future__ import annotations

from os import PathLike

import numpy as np
import pandas as pd

from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.physics import CONTENTION_OF_EXCESS
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads._generated import num_jobs
from gpu_cluster_gym.workloads._scenario import Scenario
from gpu_cluster_gym.workloads._small_cluster import PHYSICS, Floats, small_cluster

MACHINES = cluster("4x8")
JOBS = 240
LOAD = 1.1  # of the GPUs; our choice, as in `coda_mix`
SWING = 0.6

scenario = Scenario(
    trace="mixed",
    cluster=MACHINES.name,
    physics=PHYSICS,
    max_share=2,
    restart_cost="high",
    contention_form="excess",
    contention=CONTENTION_OF_EXCESS,
    contention_loss=0.04,
    jobs=JOBS,
    all_windows=True,
)


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 240) generated jobs, determined by `seed`."""
    hour = stream(seed, "mixed hour").random()

    def when(level: Floats, span_s: float) -> Floats:
        return span_s * _moments(level, hour)

    number = num_jobs(file, jobs, JOBS)
    return small_cluster("mixed", seed, number, gpus=MACHINES.num_gpus, load=LOAD, when=when)


def _moments(level: Floats, hour: float) -> Floats:
    """Return the times, 0 to 1, by which shares `level` have arrived at a rate of 1 + SWING sin, from `hour` on."""
    at, turn = np.linspace(0, 1, 1001), 2 * np.pi
    arrived = at + SWING * (np.cos(turn * hour) - np.cos(turn * (at + hour))) / turn
    return np.interp(level, arrived, at)
