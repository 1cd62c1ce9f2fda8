"""Jobs of a small shared cluster on which every lever counts; how many and when they come is left open.

Each figure is taken from a trace or a profile, or lies between those of several (`docs/mixed.md` tells which of which):

- runs of like jobs by one user, 78 % of jobs in runs of two at least (Philly);
- GPUs: 1, 2, 4 or 8, 2.3 on average with a median of one (Philly 1.5, Helios 3.7, both with a median of one);
- run times: Philly's quantiles for each number of GPUs, between a minute and six hours;
- models: all of `data/models.csv` alike, as where a log is filled in, but for alexnet, which could use some 40 cores a
  GPU; in mixed precision, for which V100s are made and in which the public curves of speed over cores were measured;
  memory, exchange, restarts and scaling follow from the model;
- cores: 2 to 6 a GPU whatever is trained (AITurbo's data set: mean 4.3, quartiles 3 and 5; in PAI 84 % ask for more
  than they use);
- estimates: good at once for 45 % of jobs, after a share of the run for 40 %, never for 15 % (AITurbo's data set and
  jobs), with the errors of logs that are filled in;
- CPU jobs: 12 % of all (AITurbo's data set 11.7 %, PAI 17.8 %), each as in `coda_mix`.

`duration_s` is the run time with the GPUs and cores asked for, from which the start-up is taken out. Nodes have eight
V100s and six cores a GPU: the V100 machines of Alibaba's PAI have 96 hyper-threads for eight.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.traces import ERRORS, MAX_LOSS, NO_MODEL, STATISTICS, fill, models, stream
from gpu_cluster_gym.workloads._generated import generated

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
When = Callable[[Floats, float], Floats]
"""Returns when, s, such shares (0 to 1) of all submissions have come, over a span of so many seconds."""

PHYSICS = (
    "memory,preemption,estimates,sharing,locality,cores,bandwidth,cpu_jobs,elastic,"
    "startup,links,exchange,profiles"
)
"""All that levers act on; neither types of GPUs nor failures are."""
GPU_GIB = 16.0  # of a V100
ALONE = (
    0.47  # of the runs have one job and sizes are geometric: 1 - 0.47 ** 2 = 78 % of jobs are in larger ones
)
GAP_S = 6.0  # mean between the jobs of a run, as in Philly's generator
WIDTHS, WIDTH_SHARES = (1, 2, 4, 8), (0.6, 0.15, 0.15, 0.1)
BUCKETS = {1: "1", 2: "2", 4: "3-4", 8: "5-8"}  # of the statistics
RUN_S = (60.0, 6 * 3600.0)
WITHIN = 0.31  # deviation of log duration within a run: the median of Philly's
LEFT_OUT = "alexnet"  # as in `coda_mix`
ASKED_CORES = (2, 3, 4, 5, 6)  # a GPU
AT_ONCE, NEVER = 0.45, 0.15
ON_THE_WAY = (0.1, 0.9)  # of its run
CPU_SHARE, CPU_RUN_S, CPU_MOST_CORES = 0.12, 900.0, 16
HEAVY_SHARE, HEAVY_GBS = 0.2, 12.5  # of the CPU jobs, and what a core of them draws
USERS = 20
NEEDS = ("kind", "gpu_memory_gib", "input_core_s", "sync_gb", "bandwidth_gbs", "cpu_slowdown")


def small_cluster(name: str, seed: int, jobs: int, *, gpus: int, load: float, when: When) -> pd.DataFrame:
    """Return so many jobs, drawn for a workload of this name, submitted when it says.

    load: GPUs asked for x run time, over all `gpus` x the span of the submissions.
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
    return generated(_with_estimates(name, seed, both), f"the {name}")


def _runs(name: str, seed: int, number: int) -> tuple[Ints, pd.DataFrame]:
    """Return the run that each job belongs to, and the jobs, submitted so long after the first of their run."""
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
            "cpu_cores": stream(seed, f"{name} asked").choice(ASKED_CORES, number)[run] * gpus,
            "user": _users(seed, f"{name} users", number)[run],
        }
    )
    return run, _trained_fast(table, seed)


def _durations(gpus: Ints, level: Floats) -> Floats:
    """Return Philly's run times at these levels, 0 to 1, of those within RUN_S."""
    levels, by_bucket = _philly()
    found = np.empty(len(gpus))
    for width, bucket in BUCKETS.items():
        quantiles, rows = np.log(by_bucket[bucket]), gpus == width
        least, most = np.interp(np.log(RUN_S), quantiles, levels)
        found[rows] = np.exp(np.interp(least + (most - least) * level[rows], levels, quantiles))
    return found


def _trained_fast(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the jobs with what their models need in mixed precision, at batch sizes drawn about the defaults."""
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
    cores = stream(seed, f"{name} cpu cores").integers(1, CPU_MOST_CORES + 1, number)
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


def _with_estimates(name: str, seed: int, table: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs with when they turn predictable, and the estimates before and from then on."""
    number = len(table)
    kind = stream(seed, f"{name} kinds").random(number)
    later = stream(seed, f"{name} turns").uniform(*ON_THE_WAY, number)
    turns = np.select([kind < AT_ONCE, kind < 1 - NEVER], [0.0, later], 1.0)
    good, bad = (
        table["duration_s"] * np.exp(error * stream(seed, f"{name} errors {error}").standard_normal(number))
        for error in ERRORS
    )
    return table.assign(
        predictable_from=turns,
        profiled_duration_s=np.maximum(np.where(turns > 0, bad, good), 1.0),
        predicted_duration_s=np.maximum(good, 1.0),
    )


@cache
def _philly() -> tuple[Floats, dict[str, Floats]]:
    """Return quantile levels, and the run times at them for each bucket of GPUs."""
    statistics = json.loads(STATISTICS.read_text())
    buckets = statistics["duration_s"]["by_gpu_bucket"]
    levels = np.array(statistics["quantile_levels"], float)
    return levels, {name: np.array(bucket["quantiles"], float) for name, bucket in buckets.items()}


@cache
def _models() -> pd.DataFrame:
    return models()[["alpha_s", "amp_gain_V100"]].drop(index=[LEFT_OUT, NO_MODEL])
