"""Conversion of a job table to the kernel's array of jobs; no pandas beyond this point."""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym import traces
from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.kernel.cluster.layout import GPU_TYPES, JOB, SERVER_CORES
from gpu_cluster_gym.traces import COLUMNS

COMMON_GIB = 4.0  # memory of a job with contention as measured; the scale of `Parameters.contention`
PAIRS_GIB = (1.0, 16.0)  # approximate memory range of the jobs in Gavel's pairs

if TYPE_CHECKING:
    import pandas as pd


def jobs_array(table: "pd.DataFrame", cluster: Cluster, physics: frozenset[str]) -> np.ndarray:
    """Return the jobs of a filled table as an array of JOB, with these parts of physics on.

    A column none of whose parts is on gets its neutral value (see `traces.COLUMNS`), and without `estimates` policies
    see true run times. Demands for cores and bandwidth and the speed on each type of GPU are derived.
    """
    table = table.copy(deep=False)
    table.attrs = {}  # pandas deep-copies the notes with every column that is read
    jobs = np.zeros(len(table), JOB)
    for column in (column for column in COLUMNS if column.simulated):
        jobs[column.name] = as_simulated(column, jobs, table, physics)
    asked = jobs["num_gpus"]
    jobs["min_workers"] = np.minimum(jobs["min_workers"], asked)
    jobs["max_workers"] = np.where(asked > 0, np.maximum(jobs["max_workers"], asked), 0)
    if "locality" not in physics:  # parameter servers exchange in any case
        jobs["sync_gb"][jobs["servers"] == 0] = 0.0
    if "user" in table:
        jobs["user"] = by_first_submission(table["user"].astype(str).to_numpy())
    if "bandwidth" in physics:
        jobs["gbs_each"] = table["bandwidth_gbs"] / np.maximum(asked, 1)
    jobs["cores_each"] = cores_asked(jobs, table, cluster, given_out=gives_out_cores(physics))
    whole = jobs["active_ms"] + jobs["idle_ms"]
    jobs["gpu_s"] = whole / 1000
    jobs["gpu_utilization"] = jobs["active_ms"] / np.where(whole > 0, whole, 1.0)
    add_turns(jobs)
    add_types(jobs, table, cluster, physics)
    return jobs


def as_simulated(
    column: traces.Column, jobs: np.ndarray, table: "pd.DataFrame", physics: frozenset[str]
) -> np.ndarray:
    """Return the values of a column in JOB; columns that it refers to must already be in `jobs`."""
    inexact = {"estimates"} if column.estimate_of == "duration_s" else {"estimates", "profiles"}
    if column.estimate_of and not physics & inexact:
        return jobs[column.estimate_of]
    if column.always or physics & set(column.parts):
        cells = table[column.name].to_numpy()
    else:
        cells = (
            jobs[column.neutral] if isinstance(column.neutral, str) else np.full(len(jobs), column.neutral)
        )
    return np.where(jobs["num_gpus"] > 0, cells, 0) if column.gpus_only else cells


def by_first_submission(names: np.ndarray) -> np.ndarray:
    """Return a number for each name, 0 for the first: it does not depend on names that come later."""
    _, first, of_each = np.unique(names, return_index=True, return_inverse=True)
    numbers: np.ndarray = np.argsort(np.argsort(first))[of_each]
    return numbers


def gives_out_cores(physics: frozenset[str]) -> bool:
    """Return whether cores are allocated: they determine speed, or jobs or parameter servers may run on them.

    Whether one does, now or later, makes no difference: nobody can know of the jobs to come.
    """
    return bool(physics & {"cores", "cpu_jobs", "elastic"})


def add_types(jobs: np.ndarray, table: "pd.DataFrame", cluster: Cluster, physics: frozenset[str]) -> None:
    """Write the compute speed of each job on each type of GPU relative to a V100."""
    if "gpu_types" in physics and set(cluster.types) != {GPU_TYPES[0]}:
        for number, name in enumerate(GPU_TYPES):
            jobs["type_speed"][:, number] = traces.speed_on(name, table["model"])


def add_turns(jobs: np.ndarray) -> None:
    """Write how much each job slows others on a GPU, and how long it holds the GPU, where jobs take turns.

    A job with more memory has larger kernels: the slowdown grows with the root of its memory over COMMON_GIB, within
    the range of the measured pairs. A job whose memory is not simulated counts as COMMON_GIB.
    """
    jobs["interference"] = interference(jobs["gpu_utilization"], jobs["gpu_memory_gib"])
    whole = jobs["profiled_active_ms"] + jobs["profiled_idle_ms"]
    profiled = np.where(
        whole > 0, jobs["profiled_active_ms"] / np.where(whole > 0, whole, 1.0), jobs["gpu_utilization"]
    )
    jobs["profiled_interference"] = interference(profiled, jobs["profiled_memory_gib"])
    jobs["interference_hold"] = jobs["gpu_s"] ** 0.25


def interference(utilization: np.ndarray, memory_gib: np.ndarray) -> np.ndarray:
    """Return the interference by which jobs with these utilisations and memories slow co-located jobs."""
    memory = np.where(memory_gib > 0, memory_gib, COMMON_GIB)
    slows: np.ndarray = utilization * np.sqrt(np.clip(memory, *PAIRS_GIB) / COMMON_GIB)
    return slows


def cores_asked(jobs: np.ndarray, table: "pd.DataFrame", cluster: Cluster, *, given_out: bool) -> np.ndarray:
    """Return the cores that each job asks for, per GPU, or in total for a CPU job.

    At most its GPUs' share of the node; where cores are allocated, at most those that the largest node can give a job
    on its own, with one core kept for each other GPU, and at least one. Cores of parameter servers are added.
    """
    gpus = table["num_gpus"].to_numpy()
    asked = table["cpu_cores"].to_numpy() / np.maximum(gpus, 1)
    servers = SERVER_CORES * jobs["servers"] / np.maximum(gpus, 1)
    most = np.full(len(table), cluster.cores_per_gpu)
    if given_out:
        size = max(cluster.node_gpus)
        here = np.clip(gpus, 1, size)
        cores = cluster.node_cores[cluster.node_gpus.index(size)]
        most = (cores - (size - here)) / here
        most = np.maximum(most - servers, 1.0)
        asked = np.maximum(asked, 1.0)
    cores_of_each: np.ndarray = np.where(gpus > 0, np.minimum(asked, most) + servers, asked)
    return cores_of_each
