"""Jobs for CODA's regime: a day of training that waits for input, alongside CPU jobs that take cores and bandwidth.

From CODA's abstract: clusters run DNN training and CPU jobs; the cores that training needs differ by model and GPU
count; CPU jobs disturb training through shared resources such as memory bandwidth. Its cluster and trace are not
public. Inferred: ten nodes of eight GPUs and 40 cores, and the figures below.

Our assumptions: all rates, shares and distributions. The nine models are those of `data/models.csv` whose input need
was fitted to Synergy's measurements, which are the only public curves of speed over cores: four of vision, two of
speech and audio, three of language. Two of Synergy's models are left out: alexnet, which could use about 40 cores per
GPU, all that a node has, and the language model lstm, to keep nine. Synergy trained in mixed precision and so do these
jobs; otherwise the GPUs would be too slow to need the cores that its curves show. Users request cores at random, but at
most five per GPU for an 8-GPU job, which are all cores of its node; `duration_s` is the run time with the requested
cores.

The drawn run times and the load of 1.1 assume plenty of cores. More work is then offered than any policy completes in
the day, so that utilisation shows how well the GPUs are fed and not how many jobs arrived.
"""

from __future__ import annotations

from os import PathLike

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.traces import check, fill, first, models, stream
from gpu_cluster_gym.workloads._generated import generated, num_jobs
from gpu_cluster_gym.workloads._scenario import Scenario

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MODELS = (
    *("shufflenet_v2", "resnet18_imagenet", "mobilenet_v2", "resnet50"),  # vision
    *("m5_audio", "deepspeech2"),  # speech and audio
    *("gnmt", "transformer_xl_base", "bert_base"),  # language: one core is enough
)
SPAN_S = 86_400.0
MACHINES = cluster("10x8-40c")
NODE_CORES = MACHINES.node_cores[0]
WIDTHS, WIDTH_SHARES = (1, 2, 4, 8), (0.5, 0.2, 0.2, 0.1)
GPU_LOAD, GPU_RUN_S = 1.1, 5_400.0
REQUESTED_CORES = (1, 2, 3, 4, 8)  # per GPU; capped so that a job on one node does not exceed its cores
CPU_LOAD, CPU_RUN_S, CPU_MAX_CORES = 0.25, 900.0, 16  # the load is relative to all cores
HEAVY_SHARE = 0.2  # of the CPU jobs
HEAVY_GBS = 12.5  # per core: about the maximum, as in STREAM
USERS = 20

scenario = Scenario(
    trace="coda_mix",
    cluster=MACHINES.name,
    physics="memory,preemption,locality,cores,bandwidth,cpu_jobs",
    jobs=4_000,  # more than the about 1,700 of a day, so that a window has all of them
    all_windows=True,
)


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return a day's generated jobs, or the first `jobs` of them, determined by `seed`."""
    num_jobs(file, jobs, default=0)  # refuses a file and invalid numbers; a day has no fixed number
    both = pd.concat([_gpu_jobs(seed), _cpu_jobs(seed)]).sort_values("submit_s", ignore_index=True)
    users = stream(seed, "coda users").integers(USERS, size=len(both))
    table = generated(both.assign(user=[f"user-{number:02}" for number in users]), "CODA's experiment")
    return first(with_heavy(table, HEAVY_SHARE, seed), jobs)


def with_heavy(table: pd.DataFrame, share: float, seed: int) -> pd.DataFrame:
    """Return the jobs of `trace` with another share of bandwidth-heavy CPU jobs, otherwise unchanged.

    With the seed of the trace, the heavy jobs of a smaller share are a subset of those of a larger one.
    """
    on_cpu = (table["kind"] == "cpu").to_numpy()
    heavy = stream(seed, "coda heavy").random(int(on_cpu.sum())) < share
    bandwidth = table["bandwidth_gbs"].to_numpy(copy=True)
    bandwidth[on_cpu] = np.where(heavy, HEAVY_GBS * table["cpu_cores"].to_numpy()[on_cpu], 0.0)
    return table.assign(bandwidth_gbs=bandwidth)


def iteration_s(
    compute_s: Floats, input_core_s: Floats, sync_gb: Floats, gpus: Ints, cores: Floats
) -> Floats:
    """Return the seconds of an iteration alone on one node with `cores` cores per GPU."""
    computing = np.maximum(compute_s, input_core_s / cores)
    exchange = 2 * (gpus - 1) / gpus * sync_gb / MACHINES.intra_gbs + MACHINES.intra_ms / 1000 * (gpus - 1)
    return computing + np.where(sync_gb > 0, exchange, 0.0)


def _arrivals(rng: np.random.Generator, per_second: float) -> Floats:
    return np.sort(rng.random(rng.poisson(per_second * SPAN_S))) * SPAN_S


def _gpu_jobs(seed: int) -> pd.DataFrame:
    gpu_s_per_job = float(np.dot(WIDTHS, WIDTH_SHARES)) * GPU_RUN_S
    submit_s = _arrivals(stream(seed, "coda gpu arrivals"), GPU_LOAD * MACHINES.num_gpus / gpu_s_per_job)
    number = len(submit_s)
    gpus = stream(seed, "coda widths").choice(WIDTHS, number, p=WIDTH_SHARES)
    cores = np.minimum(stream(seed, "coda asked").choice(REQUESTED_CORES, number), NODE_CORES // gpus)
    table = pd.DataFrame(
        {
            "job_id": [f"gpu-{row}" for row in range(number)],
            "submit_s": submit_s,
            "num_gpus": gpus,
            "duration_s": stream(seed, "coda gpu lengths").exponential(GPU_RUN_S, number),
            "model": stream(seed, "coda models").choice(np.array(MODELS, object), number),
            "cpu_cores": cores * gpus,
        }
    )
    return _with_cores(_in_mixed_precision(check(table), seed))


def _in_mixed_precision(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the jobs with the resources their models need in mixed precision, at sampled batch sizes."""
    at_fp32 = fill(table, seed=seed, largest_gpu_gib=MACHINES.largest_gpu_gib)
    profile = models().loc[table["model"]]
    whole_ms = at_fp32["active_ms"] + at_fp32["idle_ms"]
    alpha_ms = 1000 * profile["alpha_s"].to_numpy()
    fast_ms = alpha_ms + (whole_ms - alpha_ms) / profile["amp_gain_V100"].to_numpy()
    active_ms = fast_ms * at_fp32["active_ms"] / whole_ms
    fast = table.assign(active_ms=active_ms, idle_ms=fast_ms - active_ms)
    needs = ["kind", "gpu_memory_gib", "input_core_s", "sync_gb", "bandwidth_gbs"]
    return fast.join(fill(fast, seed=seed, largest_gpu_gib=MACHINES.largest_gpu_gib)[needs])


def _with_cores(table: pd.DataFrame) -> pd.DataFrame:
    """Convert run times with plenty of cores to run times with the requested cores."""
    gpus = table["num_gpus"].to_numpy()
    compute_s = (table["active_ms"] + table["idle_ms"]).to_numpy() / 1000
    needs = compute_s, table["input_core_s"].to_numpy(), table["sync_gb"].to_numpy(), gpus
    ratio = iteration_s(*needs, table["cpu_cores"].to_numpy() / gpus) / iteration_s(
        *needs, np.full(len(table), np.inf)
    )
    return table.assign(duration_s=table["duration_s"] * ratio)


def _cpu_jobs(seed: int) -> pd.DataFrame:
    core_s_per_job = (1 + CPU_MAX_CORES) / 2 * CPU_RUN_S
    per_second = CPU_LOAD * sum(MACHINES.node_cores) / core_s_per_job
    submit_s = _arrivals(stream(seed, "coda cpu arrivals"), per_second)
    number = len(submit_s)
    none = dict.fromkeys(
        ("gpu_memory_gib", "active_ms", "idle_ms", "input_core_s", "sync_gb", "bandwidth_gbs"), 0.0
    )
    return pd.DataFrame(
        {
            "job_id": [f"cpu-{row}" for row in range(number)],
            "submit_s": submit_s,
            "num_gpus": 0,
            "duration_s": stream(seed, "coda cpu lengths").exponential(CPU_RUN_S, number),
            "kind": "cpu",
            "model": "none",
            "cpu_cores": stream(seed, "coda cpu cores").integers(1, CPU_MAX_CORES + 1, number),
            **none,
        }
    )
