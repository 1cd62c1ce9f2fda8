"""Jobs like those that Xonar was tried on, drawn from statistics of the profiles that its authors published.

The profiles (github.com/pengujoa/Xonar; V100, TensorFlow 1, two workers, two parameter servers) are 600 settings
of 29 networks on CIFAR-10 and ImageNet. Duty, iteration and memory have their quantiles and their rank correlations
(`traces/data/xonar_statistics.json`), by a Gaussian copula: jobs of large memory have long iterations and leave their
GPUs idle. Read out of the authors' code: a job is 10 iterations of warm-up and 100 more, on two GPUs, one worker on
each; its parameter servers run on CPUs and are left out here; all are queued at once.

A job begins with a start-up in which its GPUs idle. Fitted: ten jobs one after another took 862.6 s on the authors'
V100s, and their iterations alone make 683 s of it, so a job has 18 s besides. Its containers' restart at the end is
in that too.

Inferred: that the copula is Gaussian; quantiles between those kept. The shares of memory's steps give the profiles'
quantiles, and as many pairs that overflow a GPU as there. The prototype takes a GPU to hold 32,000 MB; here one holds
32 GiB, and 1,000 MB are written as 1 GiB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from gpu_cluster_gym.traces import STATISTICS, stream
from gpu_cluster_gym.workloads._invented import invented

Floats = npt.NDArray[np.float64]

ITERATIONS = 110
STARTUP_S = 18.0
PROFILES = STATISTICS.with_name("xonar_statistics.json")
IDLING = {
    0.17: 0.385,
    0.22: 0.5,
}  # more quantiles of duty: 22 % of the settings are below a half, most far below
# Memory climbs in steps, since TensorFlow's allocator doubles; the shares give the quantiles and the overflows.
MEMORY_GIB = (0.933, 1.189, 1.701, 2.767, 4.745, 8.839, 9.095, 17.031, 17.289, 31.137)
UP_TO = (0.20, 0.30, 0.38, 0.45, 0.545, 0.70, 0.76, 0.93, 0.96, 1.0)


def generate(seed: int, jobs: int, *, above_gib: float = 0.0) -> pd.DataFrame:
    """Return so many jobs, all submitted at once, of the settings that take more than `above_gib`."""
    least = np.r_[0.0, UP_TO][np.searchsorted(MEMORY_GIB, above_gib, side="right")]
    level = least + (1 - least) * stream(seed, "xonar memory").random(jobs)
    memory = np.array(MEMORY_GIB)[np.searchsorted(UP_TO, level, side="right")]
    duty_level, length_level = _beside(level, stream(seed, "xonar duty and iteration"))
    duty, iteration_ms = duties(duty_level), iterations_ms(length_level)
    return jobs_table(
        {
            "job_id": np.arange(jobs).astype(str),
            "gpu_memory_gib": memory,
            "active_ms": iteration_ms * duty,
            "idle_ms": iteration_ms * (1 - duty),
        }
    )


def jobs_table(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return jobs with these profiles: a start-up and so many iterations each, on two GPUs, all there at once."""
    table = pd.DataFrame(columns)
    run_s = ITERATIONS * (table["active_ms"] + table["idle_ms"]) / 1000
    table = table.assign(
        submit_s=0.0,
        num_gpus=2,
        duration_s=run_s,
        kind="gpu",
        model="none",  # of 29, of which most are not in models.csv
        startup_s=STARTUP_S,
        profiled_duration_s=run_s,
        profiled_memory_gib=table["gpu_memory_gib"],
        predictable_from=0.0,
        bandwidth_gbs=0.0,
        input_core_s=0.0,
        sync_gb=0.0,
    )
    return invented(table, "Xonar")


def duties(level: Floats) -> Floats:
    """Return the duties at these levels, 0 to 1, of all settings."""
    knots = np.array(sorted((_quantiles("duty") | IDLING).items()))
    return np.asarray(np.interp(level, knots[:, 0], knots[:, 1]))


def iterations_ms(level: Floats) -> Floats:
    """Return the iterations at these levels, 0 to 1, of all settings."""
    knots = np.array(sorted(_quantiles("iteration_ms").items()))
    return np.asarray(np.exp(np.interp(level, knots[:, 0], np.log(knots[:, 1]))))


def _beside(level: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return levels of duty and iteration of jobs with these levels of memory."""
    memory, duty, length = 0, 1, 2
    tie = _ties()
    normal = np.empty((3, len(level)))
    normal[memory] = ndtri(level)
    rest = np.linalg.cholesky(tie[1:, 1:] - np.outer(tie[0, 1:], tie[0, 1:]))
    normal[1:] = np.outer(tie[0, 1:], normal[memory]) + rest @ rng.standard_normal((len(level), 2)).T
    return ndtr(normal[duty]), ndtr(normal[length])


@cache
def _ties() -> Floats:
    """Return the correlations of the Gaussian levels of memory, duty and iteration.

    A Spearman correlation of rho is one of 2 sin(pi rho / 6) of the levels; memory's steps take some of it away.
    """
    spearman = _statistics()["spearman"]
    steps = np.sqrt(1 - (np.diff(UP_TO, prepend=0.0) ** 3).sum())
    duty, length = spearman["duty~memory_mb"] / steps, spearman["memory_mb~iteration_ms"] / steps
    both = spearman["duty~iteration_ms"]
    ranks = np.array([[1.0, duty, length], [duty, 1.0, both], [length, both, 1.0]])
    return np.asarray(2 * np.sin(np.pi * ranks / 6))


def _quantiles(name: str) -> dict[float, float]:
    return {float(level): float(value) for level, value in _statistics()["quantiles"][name].items()}


@cache
def _statistics() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PROFILES.read_text(encoding="utf-8"))
    return found
