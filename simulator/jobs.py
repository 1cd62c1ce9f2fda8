"""From a job table to the kernel's array of jobs: here pandas stops."""

from typing import TYPE_CHECKING

import numpy as np

import traces
from simulator.cluster import Cluster
from simulator.kernel.layout import GPU_TYPES, JOB, SERVER_CORES

if TYPE_CHECKING:
    import pandas as pd


def jobs_array(table: "pd.DataFrame", cluster: Cluster, physics: frozenset[str]) -> np.ndarray:
    """Return the jobs of a filled table as the kernel reads them, with the named parts of physics on.

    Without `memory` a job asks for none; without `preemption` pausing and loading take no time; without
    `estimates` a policy is told the duration and the true memory; without `cores` or `bandwidth` an iteration waits
    for no input, without `locality` for no exchange but that with parameter servers, which are part of `elastic`.
    Without `gpu_types` all are as fast as a V100; without `failures` no job fails by itself.
    """
    jobs = np.zeros(len(table), JOB)
    on_gpus = table["num_gpus"].to_numpy() > 0
    jobs["submit"] = table["submit_s"]
    jobs["num_gpus"] = table["num_gpus"]
    jobs["duration"] = table["duration_s"]
    jobs["estimate"] = table["profiled_duration_s" if "estimates" in physics else "duration_s"]
    jobs["late_estimate"] = table["predicted_duration_s" if "estimates" in physics else "duration_s"]
    jobs["predictable_from"] = table["predictable_from"] if "estimates" in physics else 0.0
    jobs["crash_at"] = (
        np.where(table["crash_at"] < 1, table["crash_at"], 0.0) if "failures" in physics else 0.0
    )
    add_shapes(jobs, table, physics)
    jobs["cores"] = cores_asked(jobs, table, cluster, given_out=gives_out_cores(jobs, physics))
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
    add_types(jobs, table, cluster, physics)
    return jobs


def gives_out_cores(jobs: np.ndarray, physics: frozenset[str]) -> bool:
    """Tell whether cores must be counted: they decide about speed, or some jobs or parameter servers live on them."""
    on_cores = (jobs["num_gpus"] == 0) | (jobs["servers"] > 0) | (jobs["on_cpu"] > 0)
    return "cores" in physics or bool(on_cores.any())


def add_shapes(jobs: np.ndarray, table: "pd.DataFrame", physics: frozenset[str]) -> None:
    """Write the workers and parameter servers with which each job can run: without `elastic`, those it asks for."""
    asked = jobs["num_gpus"]
    jobs["least"] = jobs["most"] = asked
    if "elastic" in physics:
        jobs["servers"] = np.where(asked > 0, table["servers"], 0)
        jobs["least"] = np.minimum(table["min_workers"], asked)
        jobs["most"] = np.maximum(table["max_workers"], asked) * (asked > 0)
        jobs["scaling"] = table["scaling_loss"]
        jobs["on_cpu"] = np.where(asked > 0, table["cpu_slowdown"], 0.0)


def add_types(jobs: np.ndarray, table: "pd.DataFrame", cluster: Cluster, physics: frozenset[str]) -> None:
    """Write the speed of each job's computing on each type of GPU, over that on a V100."""
    if "gpu_types" in physics and set(cluster.types) != {GPU_TYPES[0]}:
        for number, name in enumerate(GPU_TYPES):
            jobs["type_speed"][:, number] = traces.speed_on(name, table["model"])


def cores_asked(jobs: np.ndarray, table: "pd.DataFrame", cluster: Cluster, *, given_out: bool) -> np.ndarray:
    """Return the cores that each job asks for, for each GPU, or as a whole if it has none.

    At most its GPUs' share of the node; where cores are given out, at most what the largest node can give a job
    that comes to it alone, one core being kept for each other GPU, and at least one. Parameter servers come on top.
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
    exchanges = on_gpus & (("locality" in physics) | (jobs["servers"] > 0))
    jobs["traffic"] = np.where(exchanges, table["sync_gb"], 0.0)
    if "bandwidth" in physics:
        jobs["bandwidth"] = table["bandwidth_gbs"] / np.maximum(jobs["num_gpus"], 1)
