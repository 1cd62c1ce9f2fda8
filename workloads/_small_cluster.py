"""Jobs of a small shared cluster on which every mechanism matters, with a free choice of number and arrivals.

Each figure is taken from a trace or a profile, or lies between those of several (`docs/workloads.md` has the sources):

- runs of similar jobs by one user, 78 % of jobs in runs of two or more (Philly);
- GPUs: 1, 2, 4 or 8, 2.3 on average with a median of one (Philly 1.5, Helios 3.7, both with a median of one);
- run times: Philly's quantiles for each number of GPUs, between a minute and six hours;
- models: uniform over `data/models.csv`, as for a log without models, but for alexnet, which could use some 40 cores
  per GPU; in mixed precision, for which V100s are made and in which the public curves of speed over cores were
  measured; memory, exchange, restarts and scaling follow from the model;
- cores: 2 to 6 per GPU, independent of the model (AITurbo's data set: mean 4.3, quartiles 3 and 5; in PAI 84 % ask for
  more than they use);
- estimates: accurate at once for 45 % of jobs, after a share of the run for 40 %, never for 15 % (AITurbo's data set
  and jobs), with the errors of logs without estimates;
- CPU jobs: 12 % of all (AITurbo's data set 11.7 %, PAI 17.8 %), each as in `coda_mix`.

`duration_s` is the run time with the GPUs and cores asked for, start-up excluded. Nodes have eight V100s and six cores
per GPU: the V100 machines of Alibaba's PAI have 96 hyper-threads for eight.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.traces import MAX_LOSS, NO_MODEL, STATISTICS, fill, models, stream
from gpu_cluster_gym.workloads._generated import generated, with_estimates

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
When = Callable[[Floats, float], Floats]
"""Function of shares (0 to 1) and a span, s, that returns the times by which these shares of jobs are submitted."""

PHYSICS = (
    "memory,preemption,estimates,sharing,locality,cores,bandwidth,cpu_jobs,elastic,"
    "startup,links,exchange,profiles"
)
"""Parts of physics that levers act on: neither types of GPUs nor failures."""
GPU_GIB = 16.0  # of a V100
ALONE = 0.47  # share of runs with one job; sizes are geometric, so 1 - 0.47 ** 2 = 78 % of jobs are in larger runs
GAP_S = 6.0  # mean gap between the jobs of a run, as in Philly's generator
WIDTHS, WIDTH_SHARES = (1, 2, 4, 8), (0.6, 0.15, 0.15, 0.1)
BUCKETS = {1: "1", 2: "2", 4: "3-4", 8: "5-8"}  # of the statistics
RUN_S = (60.0, 6 * 3600.0)
WITHIN = 0.31  # standard deviation of log duration within a run: the median of Philly's
LEFT_OUT = "alexnet"  # as in `coda_mix`
REQUESTED_CORES = (2, 3, 4, 5, 6)  # per GPU
CPU_SHARE, CPU_RUN_S, CPU_MAX_CORES = 0.12, 900.0, 16
HEAVY_SHARE, HEAVY_GBS = 0.2, 12.5  # of the CPU jobs, and GB/s per core of these
USERS = 20
NEEDS = ("kind", "gpu_memory_gib", "input_core_s", "sync_gb", "bandwidth_gbs", "cpu_slowdown")


def small_cluster(name: str, seed: int, jobs: int, *, gpus: int, load: float, when: When) -> pd.DataFrame:
    """Return jobs of a workload.

    name: of the workload, as part of the names of random streams
    jobs: number of jobs
    load: GPUs asked for x run time, over `gpus` x the span of the submissions
    when: times of submission
    """
    on_cpu = round(CPU_SHARE * jobs)
    run, trained = _runs(name, seed, jobs - on_cpu)
    span_s = float((trained["num_gpus"] * trained["duration_s"]).sum()) / (load * gpus)
    begins_s = np.sort(when(stream(seed, f"{name} arrivals").random(run[-1] + 1), span_s))
    trained["submit_s"] += begins_s[run]
    alone = _cpu_jobs(name, seed, on_cpu)
    alone["submit_s"] = when(stream(seed, f"{name} cpu arrivals").random(on_cpu), span_s)
    both = pd.concat([trained, alone]).sort_values("submit_s", kind="stable", ignore_index=True)
    both["submit_s"] -= both["submit_s"].iloc[0]
    return generated(with_estimates(both, name, seed), f"the workload {name}")


def _runs(name: str, seed: int, number: int) -> tuple[Ints, pd.DataFrame]:
    """Return the run of each job, and the jobs, with submissions relative to the first of their run."""
    run = np.repeat(np.arange(number), stream(seed, f"{name} runs").geometric(ALONE, number))[:number]
    gaps_s = np.cumsum(stream(seed, f"{name} gaps").exponential(GAP_S, number))
    gpus = stream(seed, f"{name} widths").choice(WIDTHS, number, p=WIDTH_SHARES)[run]
    length = _durations(gpus, stream(seed, f"{name} lengths").random(number)[run])
    noise = np.exp(WITHIN * stream(seed, f"{name} lengths within").standard_normal(number))
    table = pd.DataFrame(
        {
            "job_id": [f"gpu-{row}" for row in range(number)],
            "submit_s": gaps_s - gaps_s[np.searchsorted(run, run)],
            "num_gpus": gpus,
            "duration_s": np.clip(length * noise, *RUN_S),
            "model": stream(seed, f"{name} models").choice(_models().index.to_numpy(object), number)[run],
            "cpu_cores": stream(seed, f"{name} asked").choice(REQUESTED_CORES, number)[run] * gpus,
            "user": _users(seed, f"{name} users", number)[run],
        }
    )
    return run, _in_mixed_precision(table, seed)


def _durations(gpus: Ints, level: Floats) -> Floats:
    """Return Philly's run times at these levels, 0 to 1, of run times within RUN_S."""
    levels, by_bucket = _philly()
    found = np.empty(len(gpus))
    for width, bucket in BUCKETS.items():
        quantiles, rows = np.log(by_bucket[bucket]), gpus == width
        low, high = np.interp(np.log(RUN_S), quantiles, levels)
        found[rows] = np.exp(np.interp(low + (high - low) * level[rows], levels, quantiles))
    return found


def _in_mixed_precision(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the jobs with the resources their models need in mixed precision, at sampled batch sizes."""
    at_fp32 = fill(table, seed=seed, largest_gpu_gib=GPU_GIB)
    model, gpus = _models().loc[table["model"]], table["num_gpus"].to_numpy()
    whole_s = (at_fp32["active_ms"] + at_fp32["idle_ms"]).to_numpy() / 1000
    busy = at_fp32["active_ms"].to_numpy() / 1000 / whole_s
    alpha_s = model["alpha_s"].to_numpy()
    batch_s = (whole_s - alpha_s) / model["amp_gain_V100"].to_numpy()
    fast = table.assign(
        active_ms=1000 * (alpha_s + batch_s) * busy,
        idle_ms=1000 * (alpha_s + batch_s) * (1 - busy),
        scaling_loss=np.minimum(alpha_s / (alpha_s + batch_s * gpus), MAX_LOSS),
    )
    return fast.join(fill(fast, seed=seed, largest_gpu_gib=GPU_GIB)[list(NEEDS)])


def _cpu_jobs(name: str, seed: int, number: int) -> pd.DataFrame:
    cores = stream(seed, f"{name} cpu cores").integers(1, CPU_MAX_CORES + 1, number)
    heavy = stream(seed, f"{name} heavy").random(number) < HEAVY_SHARE
    none = dict.fromkeys(("num_gpus", "active_ms", "idle_ms", "scaling_loss", *NEEDS), 0)
    return pd.DataFrame(
        {
            "job_id": [f"cpu-{row}" for row in range(number)],
            "duration_s": stream(seed, f"{name} cpu lengths").exponential(CPU_RUN_S, number),
            "model": "none",
            "cpu_cores": cores,
            "user": _users(seed, f"{name} cpu users", number),
            **none,
            "kind": "cpu",
            "bandwidth_gbs": np.where(heavy, HEAVY_GBS * cores, 0.0),
        }
    )


def _users(seed: int, what: str, number: int) -> npt.NDArray[np.object_]:
    return np.array([f"user-{user:02}" for user in stream(seed, what).integers(USERS, size=number)], object)


@cache
def _philly() -> tuple[Floats, dict[str, Floats]]:
    """Return quantile levels, and their run times for each bucket of GPUs."""
    statistics = json.loads(STATISTICS.read_text())
    buckets = statistics["duration_s"]["by_gpu_bucket"]
    levels = np.array(statistics["quantile_levels"], float)
    return levels, {name: np.array(bucket["quantiles"], float) for name, bucket in buckets.items()}


@cache
def _models() -> pd.DataFrame:
    return models()[["alpha_s", "amp_gain_V100"]].drop(index=[LEFT_OUT, NO_MODEL])
