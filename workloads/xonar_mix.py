"""Xonar's experiment: ten jobs at once, of all its settings, on one pair of 32 GB GPUs, at most two on each.

The jobs are drawn from statistics of the profiles that Xonar's authors published (github.com/pengujoa/Xonar; V100,
TensorFlow 1, two workers, two parameter servers): 600 settings of 29 networks on CIFAR-10 and ImageNet. Duty cycle,
iteration and memory have the profiles' quantiles and rank correlations (`traces/data/xonar_statistics.json`), by a
Gaussian copula: jobs of large memory have long iterations and leave their GPUs idle. From the authors' code: a job is
10 iterations of warm-up and 100 more, on two GPUs, one worker on each; its parameter servers run on CPUs and are left
out here; all jobs are queued at once.

A job begins with a start-up in which its GPUs idle. It is fitted: ten jobs one after another took 862.6 s on the
authors' V100s, of which their iterations take 683 s, so 18 s per job remain. These include the restart of its
containers at the end.

Two jobs that together demand more than a GPU slow each other down in proportion, and by an additional 25 %. This is
fitted so that the authors' queue of ten takes 634.8 s under FIFO with a memory test, as on their V100s
(`experiments/xonar.py`); it includes the effect of parameter servers, network and hosts. Where memory overflows, any
job on the GPU may be the victim; it is retried after the time of a start-up and its clean-up.

Inferred: the Gaussian copula, and values between the published quantiles. The shares of the memory steps reproduce the
profiles' quantiles, and their share of pairs that overflow a GPU. The prototype assumes GPUs of 32,000 MB; here they
have 32 GiB, and 1,000 MB are written as 1 GiB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from gpu_cluster_gym.traces import STATISTICS, stream
from gpu_cluster_gym.workloads._generated import generated, num_jobs
from gpu_cluster_gym.workloads._scenario import Scenario

Floats = npt.NDArray[np.float64]

JOBS = 10  # as in a trial of the authors
LOSS = 0.25
ITERATIONS = 110
STARTUP_S = 18.0
PROFILES = STATISTICS.with_name("xonar_statistics.json")
IDLING = {0.17: 0.385, 0.22: 0.5}
"""Additional quantiles of the duty cycle: 22 % of the settings are below a half, most of them far below."""
# Memory comes in steps, since TensorFlow's allocator doubles; the shares give the quantiles and the overflows.
MEMORY_GIB = (0.933, 1.189, 1.701, 2.767, 4.745, 8.839, 9.095, 17.031, 17.289, 31.137)
UP_TO = (0.20, 0.30, 0.38, 0.45, 0.545, 0.70, 0.76, 0.93, 0.96, 1.0)

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
    """Return `jobs` (default 10) generated jobs of two GPUs, determined by `seed`."""
    return generate(seed, num_jobs(file, jobs, JOBS))


def generate(seed: int, jobs: int, *, above_gib: float = 0.0) -> pd.DataFrame:
    """Return `jobs` jobs, all submitted at once, of the settings that take more than `above_gib`."""
    lowest = np.r_[0.0, UP_TO][np.searchsorted(MEMORY_GIB, above_gib, side="right")]
    level = lowest + (1 - lowest) * stream(seed, "xonar memory").random(jobs)
    memory = np.array(MEMORY_GIB)[np.searchsorted(UP_TO, level, side="right")]
    duty_level, length_level = _levels_given(level, stream(seed, "xonar duty and iteration"))
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
    """Return jobs with these profiles: a start-up and ITERATIONS each, on two GPUs, all submitted at once."""
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
    return generated(table, "Xonar's experiment")


def duties(level: Floats) -> Floats:
    """Return the duty cycles at these levels, 0 to 1, of all settings."""
    knots = np.array(sorted((_quantiles("duty") | IDLING).items()))
    return np.asarray(np.interp(level, knots[:, 0], knots[:, 1]))


def iterations_ms(level: Floats) -> Floats:
    """Return the iteration times at these levels, 0 to 1, of all settings."""
    knots = np.array(sorted(_quantiles("iteration_ms").items()))
    return np.asarray(np.exp(np.interp(level, knots[:, 0], np.log(knots[:, 1]))))


def _levels_given(level: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw levels of duty cycle and iteration for jobs with these levels of memory."""
    memory, duty, length = 0, 1, 2
    correlation = _correlations()
    normal = np.empty((3, len(level)))
    normal[memory] = ndtri(level)
    rest = np.linalg.cholesky(correlation[1:, 1:] - np.outer(correlation[0, 1:], correlation[0, 1:]))
    normal[1:] = np.outer(correlation[0, 1:], normal[memory]) + rest @ rng.standard_normal((len(level), 2)).T
    return ndtr(normal[duty]), ndtr(normal[length])


@cache
def _correlations() -> Floats:
    """Return the correlations of the Gaussian levels of memory, duty cycle and iteration.

    A Spearman correlation rho corresponds to 2 sin(pi rho / 6) of the levels; the steps of memory reduce it.
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
