"""How fast jobs run that meet on GPUs and nodes: the formulas, one plain function each, for a second opinion."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from envs.cluster import Cluster
from envs.physics import Physics
from envs.workload import Workload


class Task(NamedTuple):
    """What is fixed about a job, with the parts of physics that are off left out; `cores` and `gpus` as asked."""

    submit_s: float
    gpus: int  # 0 for a CPU job
    duration_s: float
    memory_gib: float
    cores: float  # a GPU; of the whole CPU job
    pause_s: float
    load_s: float
    gpu_s: float  # of an iteration
    duty: float
    input_core_s: float
    sync_gb: float
    bandwidth_gbs: float  # of the whole job


def tasks(work: Workload) -> list[Task]:
    """Return the jobs of a workload."""
    parts = work.scenario.parts
    made = []
    rows: list[dict[str, Any]] = work.table.to_dict("records")  # type: ignore[assignment]
    for row in rows:
        gpus, on_gpu = row["num_gpus"], row["num_gpus"] > 0
        whole = row["active_ms"] + row["idle_ms"] if on_gpu else 0.0
        made.append(
            Task(
                submit_s=row["submit_s"],
                gpus=gpus,
                duration_s=row["duration_s"],
                memory_gib=row["gpu_memory_gib"] if on_gpu and "memory" in parts else 0.0,
                cores=asked_cores(gpus, row["cpu_cores"], work.cluster, work.physics),
                pause_s=row["pause_s"] if "preemption" in parts else 0.0,
                load_s=row["load_s"] if "preemption" in parts else 0.0,
                gpu_s=whole / 1000,
                duty=row["active_ms"] / whole if whole else 0.0,
                input_core_s=row["input_core_s"] if on_gpu and parts & {"cores", "bandwidth"} else 0.0,
                sync_gb=row["sync_gb"] if on_gpu and "locality" in parts else 0.0,
                bandwidth_gbs=row["bandwidth_gbs"] if "bandwidth" in parts else 0.0,
            )
        )
    return made


def asked_cores(gpus: int, cores: float, cluster: Cluster, physics: Physics) -> float:
    """Return what a job asks for, a GPU: at most its GPUs' share, or, where cores are given out, what a node can give.

    That is what the largest node has for it if no other job is there, one core being kept for each other GPU.
    """
    if not physics.cores:
        nodes = zip(cluster.node_cores, cluster.node_gpus, strict=True)
        shares = [cores_there / gpus_there for cores_there, gpus_there in nodes if gpus_there]
        return min(cores / gpus, *shares)
    if not gpus:
        return cores
    largest = max(cluster.node_gpus)
    here = min(gpus, largest)
    room = cluster.node_cores[cluster.node_gpus.index(largest)] - (largest - here)
    return min(max(cores / gpus, 1.0), room / here)


def crowding(duties: Iterable[float], physics: Physics) -> float:
    """Return the slowdown of computation on one GPU with running residents of these duties."""
    here = list(duties)
    return 1 + physics.contention * max(0.0, sum(here) - 1) + physics.contention_loss * (len(here) - 1)


def exchange_s(task: Task, on_nodes: Iterable[int], cluster: Cluster) -> float:
    """Return the time that the GPUs of a job exchange data in one iteration, with so many of them on its nodes."""
    spread = list(on_nodes)
    gpus = sum(spread)
    if gpus == 1 or task.sync_gb == 0:
        return 0.0
    bandwidth = cluster.inter_gbs if len(spread) > 1 else cluster.intra_gbs
    ring_s = 2 * (gpus - 1) / gpus * task.sync_gb / bandwidth
    hops_ms = cluster.intra_ms * (gpus / len(spread) - 1) + cluster.inter_ms * (len(spread) - 1)
    return ring_s + hops_ms / 1000


def iteration_s(task: Task, crowd: float, pressure: float, cores: float, sync_s: float) -> float:
    """Return the time of an iteration of a job with GPUs, `cores` for each."""
    return max(task.gpu_s * crowd, task.input_core_s * pressure / cores) + sync_s


def closest(task: Task, cluster: Cluster) -> list[int]:
    """Return how many GPUs a job has on each of its nodes where they are as close together as the cluster allows."""
    sizes = zip(cluster.node_gpus, cluster.node_gpu_memory_gib, strict=True)
    able = sorted((gpus for gpus, memory in sizes if memory >= task.memory_gib), reverse=True)
    spread: list[int] = []
    while (rest := task.gpus - sum(spread)) > 0:
        spread.append(min(rest, able[len(spread)]))
    return spread


def fed_s(task: Task, cluster: Cluster) -> float:
    """Return the time of an iteration alone, with plenty of cores, as close together as can be."""
    return task.gpu_s + exchange_s(task, closest(task, cluster), cluster)


def reference_s(task: Task, cluster: Cluster) -> float:
    """Return the time of an iteration alone, with the cores asked, as close together as can be."""
    return iteration_s(task, 1.0, 1.0, task.cores, exchange_s(task, closest(task, cluster), cluster))


def pressures(drawn_gbs: Mapping[int, float], physics: Physics, cluster: Cluster) -> dict[int, float]:
    """Return by how much the memory of each node is overdrawn, 1 where it is not."""
    limit = cluster.bandwidth_gbs if physics.bandwidth else float("inf")
    return {node: max(1.0, drawn / limit) for node, drawn in drawn_gbs.items()}
