"""Jobs for AITurbo's regime: elastic training through parameter servers, partly predictable only during the run.

From AITurbo's abstract: jobs of TensorFlow's benchmarks, some predictable and some not, on GPUs and CPUs. From its
authors' data set (github.com/LFSCODE/AITurbo): 15 % of jobs are never predictable. From a later prototype of the
same lab (github.com/MaoZzzzz/Aiturbo-vGPU): 40 % of jobs become predictable, at a tenth to nine tenths of their run;
one or two servers per job; five cores per server or worker; and the slowdown of a worker on five cores, for the six
models where its fits give a plausible figure.

Our assumptions: everything else, fixed before AITurbo had been run. `duration_s` is the run time in the shape asked
for, not GPU-seconds: a median of 4,500 s and a standard deviation of 1.2 of its log come near the run times of the data
set (43 % below an hour, there 40 %; 99 % below 73,000 s, there 71,000 s), but for its many very short ones. It is drawn
independently of the number of GPUs and of the time a job becomes predictable, which therefore reveals nothing of its
length. Arrivals are Poisson; the load is the GPU-seconds asked for over those of 16 GPUs, servers not counted.
Estimates err by a lognormal factor, as those of any trace: with a standard deviation of 1 of its log until a job is
predictable, 0.25 from then on. Pausing and loading a job takes a minute on average: 62 s were measured per preemption
on Tiresias' testbed (as quoted by the code of Lucid, ASPLOS 2023); spread and split are those of `xion_small`. A job
can have up to 8 workers, the largest number that any asks for.

Iterations and exchanged data are those of `data/models.csv`, so users ask for shapes that may suit a model badly, as
in the prototype: through one server, eight workers of the VGGs are slower than one.

There are 16 cores per GPU, as on the prototype's testbed (two nodes of two GPUs and 32 cores): a worker's five, and the
ten of two servers, so that any job as asked fits wherever it has its GPUs. Four nodes of four GPUs are our choice.
"""

from __future__ import annotations

from os import PathLike

import numpy as np
import pandas as pd

from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.traces import ERRORS, WORKER_CORES, stream
from gpu_cluster_gym.workloads._generated import generated, num_jobs, with_estimates
from gpu_cluster_gym.workloads._scenario import Scenario

MACHINES = cluster("4x4-64c")
JOBS = 120
LOAD = 0.7  # of the GPUs, on average, from the workers asked for
MEDIAN_S, SPREAD = 4_500.0, 1.2
WIDTHS, WIDTH_SHARES = (1, 2, 4, 8), (0.35, 0.2, 0.3, 0.15)
SERVERS = (1, 2)  # with equal probability
MAX_WORKERS = 8
LOSS = (0.02, 0.15)  # of scaling, uniform
RESTART_S, RESTART_SPREAD = 62.0, 0.7  # mean of pause + load, standard deviation of its log
PAUSE_SHARE = 0.4
CPU_SLOWDOWN = {
    "googlenet": 5.0,
    "vgg11": 6.0,
    "vgg16": 14.0,
    "inception_v4": 19.0,
    "resnet50": 29.0,
    "resnet152": 51.0,
}

scenario = Scenario(
    trace="aiturbo_ps",
    cluster=MACHINES.name,
    physics="preemption,estimates,elastic",
    jobs=JOBS,
    all_windows=True,
)


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 120) generated jobs with parameter servers, determined by `seed`."""
    number = num_jobs(file, jobs, JOBS)
    gaps = stream(seed, "aiturbo arrivals").exponential(_gap_s(), number)
    gpus = stream(seed, "aiturbo widths").choice(WIDTHS, number, p=WIDTH_SHARES)
    run_s = stream(seed, "aiturbo lengths").lognormal(np.log(MEDIAN_S), SPREAD, number)
    middle_s = RESTART_S / np.exp(RESTART_SPREAD**2 / 2)
    restart_s = stream(seed, "aiturbo restarts").lognormal(np.log(middle_s), RESTART_SPREAD, number)
    model = stream(seed, "aiturbo models").choice(np.array(list(CPU_SLOWDOWN), object), number)
    table = pd.DataFrame(
        {
            "job_id": np.arange(number).astype(str),
            "submit_s": np.cumsum(gaps) - gaps[0],
            "num_gpus": gpus,
            "duration_s": run_s,
            "model": model,
            "cpu_cores": WORKER_CORES * gpus,
            "pause_s": PAUSE_SHARE * restart_s,
            "load_s": (1 - PAUSE_SHARE) * restart_s,
            "servers": stream(seed, "aiturbo servers").choice(SERVERS, number),
            "min_workers": 1,
            "max_workers": MAX_WORKERS,
            "scaling_loss": stream(seed, "aiturbo losses").uniform(*LOSS, number),
            "cpu_slowdown": [CPU_SLOWDOWN[name] for name in model],
        }
    )
    return generated(with_estimates(table, "aiturbo", seed), "AITurbo's experiment")


def _gap_s() -> float:
    """Return the mean gap between arrivals, s: the GPU-seconds of a job over those requested per second."""
    mean_s = MEDIAN_S * np.exp(SPREAD**2 / 2)
    return float(np.dot(WIDTHS, WIDTH_SHARES) * mean_s / (LOAD * MACHINES.num_gpus))


def with_load(table: pd.DataFrame, load: float) -> pd.DataFrame:
    """Return the jobs of `trace` at another load: further apart or closer together."""
    return table.assign(submit_s=table["submit_s"] * LOAD / load)


def with_restart(table: pd.DataFrame, mean_s: float) -> pd.DataFrame:
    """Return the jobs of `trace` with another mean of pause + load, otherwise unchanged."""
    scale = mean_s / RESTART_S
    return table.assign(pause_s=scale * table["pause_s"], load_s=scale * table["load_s"])


def all_predictable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs of `trace`, all predictable from the start."""
    return table.assign(predictable_from=0.0, profiled_duration_s=table["predicted_duration_s"])


def none_predictable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs of `trace`, none ever predictable: errors of predictable jobs grow to those of the others."""
    good, bad = ERRORS
    error = table["profiled_duration_s"] / table["duration_s"]
    grown = table["duration_s"] * error ** (bad / good)
    were = table["predictable_from"] == 0
    return table.assign(
        predictable_from=1.0, profiled_duration_s=np.where(were, grown, table["profiled_duration_s"])
    )
