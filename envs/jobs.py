"""From a job table to the kernel's array of jobs: here pandas stops."""

from typing import TYPE_CHECKING

import numpy as np

from envs.cluster import Cluster
from envs.kernel.layout import JOB

if TYPE_CHECKING:
    import pandas as pd


def jobs_array(table: "pd.DataFrame", cluster: Cluster, physics: frozenset[str]) -> np.ndarray:
    """Return the jobs of a filled table as the kernel reads them, with the named parts of physics on.

    Without `memory` a job asks for none; without `preemption` pausing and loading take no time; without
    `estimates` a policy is told the duration and the true memory; without `cores` or `bandwidth` an iteration waits
    for no input, without `locality` for no exchange.
    """
    jobs = np.zeros(len(table), JOB)
    on_gpus = table["num_gpus"].to_numpy() > 0
    jobs["submit"] = table["submit_s"]
    jobs["num_gpus"] = table["num_gpus"]
    jobs["duration"] = table["duration_s"]
    jobs["estimate"] = table["profiled_duration_s" if "estimates" in physics else "duration_s"]
    jobs["predictable_from"] = table["predictable_from"] if "estimates" in physics else 0.0
    jobs["cores"] = cores_asked(table, cluster, given_out="cores" in physics or not on_gpus.all())
    if "memory" in physics:
        jobs["peak"] = np.where(on_gpus, table["gpu_memory_gib"], 0.0)
        profiled = table["profiled_memory_gib" if "estimates" in physics else "gpu_memory_gib"]
        jobs["memory"] = np.where(on_gpus, profiled, 0.0)
    if "preemption" in physics:
        jobs["pause"] = table["pause_s"]
        jobs["load"] = table["load_s"]
    if "user" in table:
        jobs["user"] = np.unique(table["user"].astype(str), return_inverse=True)[1]
    add_iteration(jobs, table, physics)
    return jobs


def cores_asked(table: "pd.DataFrame", cluster: Cluster, *, given_out: bool) -> np.ndarray:
    """Return the cores that each job asks for, for each GPU, or as a whole if it has none.

    At most its GPUs' share of the node; where cores are given out, at most what the largest node can give a job
    that comes to it alone, one core being kept for each other GPU, and at least one.
    """
    gpus = table["num_gpus"].to_numpy()
    asked = table["cpu_cores"].to_numpy() / np.maximum(gpus, 1)
    most = np.full(len(table), cluster.cores_per_gpu)
    if given_out:
        size = max(cluster.node_gpus)
        here = np.clip(gpus, 1, size)
        cores = cluster.node_cores[cluster.node_gpus.index(size)]
        most = (cores - (size - here)) / here
        asked = np.maximum(asked, 1.0)
    cores_of_each: np.ndarray = np.where(gpus > 0, np.minimum(asked, most), asked)
    return cores_of_each


def add_iteration(jobs: np.ndarray, table: "pd.DataFrame", physics: frozenset[str]) -> None:
    """Write what an iteration of each job needs."""
    on_gpus = jobs["num_gpus"] > 0
    jobs["active"] = np.where(on_gpus, table["active_ms"], 0.0)
    jobs["idle"] = np.where(on_gpus, table["idle_ms"], 0.0)
    whole = jobs["active"] + jobs["idle"]
    jobs["gpu_time"] = whole / 1000
    jobs["duty"] = jobs["active"] / np.where(whole > 0, whole, 1.0)
    if physics & {"cores", "bandwidth"}:
        jobs["input"] = np.where(on_gpus, table["input_core_s"], 0.0)
    if "locality" in physics:
        jobs["traffic"] = np.where(on_gpus, table["sync_gb"], 0.0)
    if "bandwidth" in physics:
        jobs["bandwidth"] = table["bandwidth_gbs"] / np.maximum(jobs["num_gpus"], 1)
