"""Speed formulas of co-located jobs, one plain function each, as a second opinion."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym import traces
from gpu_cluster_gym.simulator.cluster import GPU_MEMORY_GIB, Cluster
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.workloads import Workload

CORES = 5.0  # of a parameter server on cores, and of a worker there


class Shape(NamedTuple):
    """Shape of a job on a number of GPUs, of which parameter servers may have some."""

    workers: int
    servers: int
    gpus: int  # 0 without

    @property
    def server_cores(self) -> float:
        """Cores per GPU that servers take."""
        return CORES * self.servers / self.gpus if self.gpus == self.workers > 0 else 0.0


class Task(NamedTuple):
    """Constants of a job as requested, on V100s, without the parts of physics that are off."""

    submit_s: float
    gpus: int  # 0 for a CPU job
    servers: int
    duration_s: float
    estimates_s: tuple[float, float]  # at first, and once it is predictable
    memory_gib: float
    cores: float  # a GPU, to feed it; of the whole CPU job
    pause_s: float
    load_s: float
    startup_s: float
    gpu_s: float  # of an iteration
    duty: float
    input_core_s: float
    sync_gb: float
    bandwidth_gbs: float  # of the whole job
    least: int  # workers
    most: int
    loss: float
    on_cpu: float  # how many times slower; 0 for not at all
    type_speed: Mapping[str, float]
    predictable_from: float
    crash_at: float
    nodes: frozenset[int]  # those that its constraints allow

    @property
    def shape(self) -> Shape:
        """Requested shape."""
        return Shape(self.gpus, self.servers, self.gpus)


def tasks(work: Workload) -> list[Task]:
    """Return the jobs of a workload."""
    parts = work.scenario.parts
    made = []
    rows: list[dict[str, Any]] = work.table.to_dict("records")  # type: ignore[assignment]
    for number, row in enumerate(rows):
        gpus, on_gpu = row["num_gpus"], row["num_gpus"] > 0
        elastic = on_gpu and "elastic" in parts
        servers = row["servers"] if elastic else 0
        whole = row["active_ms"] + row["idle_ms"] if on_gpu else 0.0
        true = (row["duration_s"], row["duration_s"])
        estimates_s = (row["profiled_duration_s"], row["predicted_duration_s"])
        made.append(
            Task(
                submit_s=row["submit_s"],
                gpus=gpus,
                servers=servers,
                duration_s=row["duration_s"],
                estimates_s=estimates_s if "estimates" in parts else true,
                memory_gib=row["gpu_memory_gib"] if on_gpu and "memory" in parts else 0.0,
                cores=asked_cores(gpus, servers, row["cpu_cores"], work.cluster, work.physics),
                pause_s=row["pause_s"] if "preemption" in parts else 0.0,
                load_s=row["load_s"] if "preemption" in parts else 0.0,
                startup_s=row["startup_s"] if on_gpu and "startup" in parts else 0.0,
                gpu_s=whole / 1000,
                duty=row["active_ms"] / whole if whole else 0.0,
                input_core_s=row["input_core_s"] if on_gpu and parts & {"cores", "bandwidth"} else 0.0,
                sync_gb=row["sync_gb"] if on_gpu and ("locality" in parts or servers) else 0.0,
                bandwidth_gbs=row["bandwidth_gbs"] if "bandwidth" in parts else 0.0,
                least=row["min_workers"] if elastic else gpus,
                most=row["max_workers"] if elastic else gpus,
                loss=row["scaling_loss"] if elastic else 0.0,
                on_cpu=row["cpu_slowdown"] if elastic else 0.0,
                type_speed=speeds_by_type(work, number),
                predictable_from=row["predictable_from"] if "estimates" in parts else 0.0,
                crash_at=row["crash_at"] if "failures" in parts else 1.0,
                nodes=allowed_nodes(work, number),
            )
        )
    return made


def allowed_nodes(work: Workload, job: int) -> frozenset[int]:
    """Return the nodes that the constraints of a job allow."""
    kinds, may_use = work.constraints.node_kind, work.constraints.may_use
    nodes = range(work.cluster.num_nodes)
    return frozenset(node for node in nodes if not may_use.size or may_use[job, kinds[node]])


def speeds_by_type(work: Workload, job: int) -> dict[str, float]:
    """Return the computing speed of a job on each GPU type."""
    if "gpu_types" not in work.scenario.parts or set(work.cluster.types) == {"v100"}:
        return dict.fromkeys(GPU_MEMORY_GIB, 1.0)
    model = work.table["model"].iloc[job]
    return {name: speed_of(traces.speed_on, name, model) for name in GPU_MEMORY_GIB}


@cache
def speed_of(known: Callable[[str, pd.Series], np.ndarray], gpu_type: str, model: str) -> float:
    """Return the speed of a network on a GPU type, according to `known`, which a test may replace."""
    return float(known(gpu_type, pd.Series([model]))[0])


def asked_cores(gpus: int, servers: int, cores: float, cluster: Cluster, physics: Physics) -> float:
    """Return the requested cores per GPU of a job: its GPUs' share at most, limited by a node's capacity if allocated.

    That is what the largest node has for it if no other job is there, one core being kept for each other GPU,
    less what its servers take there, but at least one.
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
    return min(max(cores / gpus, 1.0), max(room / here - CORES * servers / gpus, 1.0))


def wanted_cores(task: Task, shape: Shape) -> float:
    """Return the requested cores of a shape, per GPU or in total."""
    if not shape.gpus:
        return CORES * (shape.workers + shape.servers) if task.gpus else task.cores
    return task.cores + shape.server_cores


def fewest_cores(task: Task, shape: Shape) -> float:
    """Return the minimum cores with which a shape can run, per GPU or in total."""
    if task.gpus and not shape.gpus:
        return wanted_cores(task, shape)
    return 1.0 + shape.server_cores


def crowding(task: Task, others: Iterable[Task], physics: Physics) -> float:
    """Return the slowdown of a task's computing on one GPU by co-located running jobs."""
    beside = list(others)
    match physics.contention_form:
        case "excess":
            beyond = max(0.0, task.duty + sum(other.duty for other in beside) - 1)
        case "turns":
            beyond = sum(waiting(task, other) for other in beside)
    return 1 + physics.contention * beyond + physics.contention_loss * len(beside)


def waiting(task: Task, other: Task) -> float:
    """Return how much a task waits for the turns of another: most for long iterations and much memory."""
    if other.duty == 0:
        return 0.0
    own, its = (math.sqrt(math.sqrt(each.gpu_s)) for each in (task, other))
    memory = min(max(other.memory_gib, 1.0), 16.0) if other.memory_gib else 4.0
    return other.duty * math.sqrt(memory) / 2 * its / ((own + its) / 2)


def work_of(task: Task, workers: int) -> float:
    """Return one worker's computing per iteration, relative to that with the requested number of workers."""
    each = [(1 + task.loss * (many - 1)) / many for many in (workers, task.gpus)]
    return each[0] / each[1]


class Exchange(NamedTuple):
    """Exchange of an iteration: s on idle links, s of latency, GB through the host of each worker."""

    links_s: float = 0.0
    hops_s: float = 0.0
    host_gb: float = 0.0
    between_nodes: bool = False

    def takes_s(self, physics: Physics, crossing: float, pressure: float, cores: float) -> float:
        """Return the seconds that it takes under the given load on links and memory."""
        by_links = self.links_s * (crossing if self.between_nodes else 1.0)
        by_hosts = self.host_gb * physics.exchange_core_s * pressure / cores
        return max(by_links, by_hosts) + self.hops_s


def exchange(task: Task, shape: Shape, nodes: int, cluster: Cluster) -> Exchange:
    """Return the exchange of a job per iteration on a number of nodes."""
    nodes = max(1, nodes)
    if task.sync_gb == 0 or (shape.workers == 1 and not shape.servers):
        return Exchange()
    if shape.servers:
        pushed_and_pulled = 2 * task.sync_gb
        by_each = pushed_and_pulled * shape.workers / shape.servers
        return Exchange(by_each / cluster.inter_gbs, 0.0, pushed_and_pulled, nodes > 1)
    around = 2 * (shape.workers - 1) / shape.workers * task.sync_gb
    hops_ms = cluster.intra_ms * (shape.workers / nodes - 1) + cluster.inter_ms * (nodes - 1)
    if nodes == 1:
        return Exchange(around / cluster.intra_gbs, hops_ms / 1000)
    return Exchange(around / cluster.inter_gbs, hops_ms / 1000, around / (shape.workers / nodes), True)


def iteration_s(
    task: Task, shape: Shape, crowd: float, speed: float, pressure: float, cores: float, sync_s: float
) -> float:
    """Return the time of an iteration of a GPU job; `cores` feed each of its GPUs."""
    compute_s = task.gpu_s * work_of(task, shape.workers)
    if not shape.gpus:
        return compute_s * task.on_cpu + sync_s
    input_s = task.input_core_s * task.gpus / shape.workers * pressure / cores
    return max(compute_s * crowd / speed, input_s) + sync_s


def able(task: Task, cluster: Cluster) -> list[int]:
    """Return the number of GPUs of each node that can hold a job, the largest first."""
    holding = (node for node in task.nodes if cluster.node_gpu_memory_gib[node] >= task.memory_gib)
    return sorted((cluster.node_gpus[node] for node in holding), reverse=True)


def nodes_alone(task: Task, cluster: Cluster) -> int:
    """Return the number of nodes of a job where the rule puts it on the empty cluster."""
    rest, nodes = task.gpus, 0
    for gpus in able(task, cluster):
        nodes += rest > 0
        rest -= gpus
    return nodes


def fed_s(task: Task, shape: Shape, speed: float, cluster: Cluster) -> float:
    """Return the time of an iteration alone, with plenty of cores, on as few nodes as possible.

    A job in another shape than requested is assumed to have as many of the largest nodes as it needs.
    """
    nodes = math.ceil(shape.gpus / able(task, cluster)[0])
    if shape == task.shape:
        nodes = nodes_alone(task, cluster)
    sync = exchange(task, shape, nodes, cluster)
    return iteration_s(task, shape, 1.0, speed, 1.0, math.inf, sync.links_s + sync.hops_s)


def reference_s(task: Task, cluster: Cluster, physics: Physics) -> float:
    """Return the time of an iteration alone, with the requested cores, where the rule puts it on the empty cluster."""
    sync_s = exchange(task, task.shape, nodes_alone(task, cluster), cluster).takes_s(
        physics, 1.0, 1.0, task.cores
    )
    return iteration_s(task, task.shape, 1.0, 1.0, 1.0, task.cores, sync_s)


def pressures(drawn_gbs: Mapping[int, float], physics: Physics, cluster: Cluster) -> dict[int, float]:
    """Return the slowdown of memory traffic on each node."""
    if not physics.bandwidth:
        return dict.fromkeys(drawn_gbs, 1.0)
    return {node: pressure_at(drawn / cluster.bandwidth_gbs, physics) for node, drawn in drawn_gbs.items()}


def pressure_at(used: float, physics: Physics) -> float:
    """Return that slowdown at a demanded bandwidth: linear between two points, then proportional."""
    begin, full = physics.pressure_from, physics.pressure_at_full
    if used >= 1:
        return full * used
    return float(np.interp(used, [begin, 1.0], [1.0, full])) if used > begin else 1.0
