"""Jobs for Xion's regime: short, of similar length, on two GPUs; a pause and a load take a fifth as long as a job.

From Xion's abstract: pausing and loading cost up to hundreds of seconds, and then preferring short jobs stops paying
off. Its jobs and machines are not public; all figures below are our assumptions. They were found by searching for a
regime in which the claims hold: with longer jobs, smaller overheads or wider gangs they do not, as
`python evaluate.py --paper xion` prints. Arrivals are Poisson, lengths lognormal, each job fills one slot (one GPU),
and pause + load is lognormal, split 40 to 60. Slots are placement-insensitive: a paused job may resume in either, and
SRTF always pauses the job with the longest remaining time.
"""

from __future__ import annotations

from os import PathLike

import numpy as np
import pandas as pd

from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads._generated import generated, num_jobs
from gpu_cluster_gym.workloads._scenario import Scenario

MACHINES = cluster("1x2")  # two slots
JOBS = 120
LOAD = 0.8  # of the slots, on average
MEAN_S, CV = 900.0, 0.7
OVERHEAD_S, OVERHEAD_SPREAD = 200.0, 0.7  # median of pause + load, standard deviation of its log
PAUSE_SHARE = 0.4

scenario = Scenario(
    trace="xion_small",
    cluster=MACHINES.name,
    placement="pooled",
    physics="preemption",
    jobs=JOBS,
    all_windows=True,
)


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 120) generated jobs of one GPU, determined by `seed`."""
    number = num_jobs(file, jobs, JOBS)
    gaps = stream(seed, "xion arrivals").exponential(MEAN_S / (LOAD * MACHINES.num_gpus), number)
    spread = np.sqrt(np.log1p(CV**2))
    lengths = stream(seed, "xion lengths").lognormal(np.log(MEAN_S) - spread**2 / 2, spread, number)
    overhead = stream(seed, "xion overheads").lognormal(np.log(OVERHEAD_S), OVERHEAD_SPREAD, number)
    table = pd.DataFrame(
        {
            "job_id": np.arange(number).astype(str),
            "submit_s": np.cumsum(gaps) - gaps[0],
            "num_gpus": 1,
            "duration_s": lengths,
            "pause_s": PAUSE_SHARE * overhead,
            "load_s": (1 - PAUSE_SHARE) * overhead,
        }
    )
    return generated(table, "Xion's experiment")


def with_overhead(table: pd.DataFrame, median_s: float) -> pd.DataFrame:
    """Return the jobs of `trace` with another median of pause + load, otherwise unchanged."""
    scale = median_s / OVERHEAD_S
    return table.assign(pause_s=scale * table["pause_s"], load_s=scale * table["load_s"])


def with_load(table: pd.DataFrame, load: float) -> pd.DataFrame:
    """Return the jobs of `trace` at another load: further apart or closer together."""
    return table.assign(submit_s=table["submit_s"] * LOAD / load)
