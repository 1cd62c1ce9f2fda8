"""Minimum resources per unit of progress: time, GPUs and cores; and the maximum total progress of a shared GPU.

Each minimum is over all shapes, GPU types and numbers of nodes, with all cores of a node and full bandwidth.
They are the relaxations behind the lower bound on the mean JCT (`simulator/relaxations.py`).
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SERVERS, MIN_CORES, TURNS
from gpu_cluster_gym.simulator.kernel.cluster.speed import (
    PLENTY_OF_CORES,
    Burden,
    Setting,
    cores_asked,
    crowding,
    iteration_on_cpu,
    iteration_time,
)


@compiled
def node_capacity(s):
    """Return the GPUs of the largest node, and the maximum cores of a node beyond one per GPU."""
    largest, spare = 1, 0.0
    for node in range(s.num_nodes):
        largest = max(largest, s.node_gpus[node])
        spare = max(spare, s.node_cores[node] - s.node_gpus[node])
    return largest, spare if s.cpu_limited else PLENTY_OF_CORES


@compiled
def min_iteration_time(s, jobs, job, workers, servers, slowdown, capacity):
    """Return the minimum seconds of an iteration with these workers, over numbers of nodes; slowdown: of computing."""
    largest, spare = capacity
    least = np.inf
    for nodes in range((workers - 1) // largest + 1, min(workers, s.num_nodes) + 1):
        # The node with most GPUs of the job has (workers - 1) // nodes + 1 of them; each other GPU of it
        # keeps one core.
        cores = spare / ((workers - 1) // nodes + 1) + 1.0
        setting = Setting(workers, servers, nodes, cores)
        least = min(least, iteration_time(s, jobs, job, setting, Burden(slowdown, 1.0, 1.0)))
    return least


@compiled
def server_counts(row):
    """Return the possible numbers of parameter servers of a job."""
    return range(int(row.servers > 0), MAX_SERVERS * (row.servers > 0) + 1)


@compiled
def max_rate(s, jobs, job, capacity):
    """Return the maximum progress rate of a job, with its best shape and GPU type; 1 at the reference.

    A CPU job has at most the cores it asks for. `capacity` is the result of `node_capacity`.
    """
    row = jobs[job]
    if row.num_gpus == 0 or row.iteration_s <= 0:
        return 1.0
    slowdown = 1.0
    if s.typed:
        fastest = 0.0
        for node in range(s.num_nodes):
            fastest = max(fastest, row.type_speed[s.node_type[node]])
        # The fastest GPU type of the cluster.
        slowdown = 1.0 / fastest
    least = row.iteration_s
    for workers in range(row.min_workers, row.max_workers + 1):
        for servers in server_counts(row):
            least = min(least, min_iteration_time(s, jobs, job, workers, servers, slowdown, capacity))
            if row.cpu_slowdown > 0:
                least = min(least, iteration_on_cpu(s, jobs, job, workers, servers))
    return row.iteration_s / least


@compiled
def min_gpu_seconds(s, jobs, job, slowdown, capacity):
    """Return the minimum GPU-seconds per second of progress of a job; 0 for a CPU job.

    slowdown: of its computing, by the GPU type and co-located jobs.
    """
    row = jobs[job]
    if row.num_gpus == 0 or row.iteration_s <= 0:
        return 1.0 * row.min_workers
    least = np.inf
    for workers in range(row.min_workers, row.max_workers + 1):
        for servers in server_counts(row):
            iteration_s = min_iteration_time(s, jobs, job, workers, servers, slowdown, capacity)
            least = min(least, workers * iteration_s)
    return least / row.iteration_s


@compiled
def min_core_seconds(s, jobs, job, gpu_seconds):
    """Return the minimum core-seconds per second of progress of a job, on GPUs and without GPUs.

    On GPUs it has one core per GPU, and its input takes core-seconds that no shape saves. Infinity if the job
    must have GPUs, or cannot have them. gpu_seconds: the minimum per second of progress on any GPU type.
    """
    row = jobs[job]
    if row.num_gpus == 0:
        return np.inf, row.cores_each
    on_gpus = MIN_CORES * gpu_seconds
    if row.iteration_s > 0:
        # Feeding takes `input_core_s` per requested GPU and iteration, whatever the shape.
        on_gpus = max(on_gpus, row.input_core_s * row.num_gpus / row.iteration_s)
    without = np.inf
    if row.cpu_slowdown > 0:
        for workers in range(row.min_workers, row.max_workers + 1):
            for servers in server_counts(row):
                took = 1.0
                if row.iteration_s > 0:
                    took = iteration_on_cpu(s, jobs, job, workers, servers) / row.iteration_s
                without = min(without, cores_asked(jobs, job, 0, workers, servers) * took)
    return on_gpus, without


@compiled
def max_total(s, base, by_utilization, utilization, waits, slowdown):
    """Return the maximum total progress rate of the jobs on a GPU; the unit is a job alone at this slowdown.

    A job counts `base + by_utilization x its utilisation`, which is at most `utilization`. Jobs that are
    slowed less than `slowdown` count for more, by `slowdown / crowding`. Under `turns` each job waits at least
    `waits` for each other job. Under `excess` the slowdown follows from the total utilisation U: between U = 1
    and the maximum of n jobs the total is a ratio of linear functions, which is greatest at one of the ends.
    """
    most = 0.0
    for running in range(1, s.max_share + 1):
        for demand in (min(1.0, running * utilization), running * utilization):
            beyond = waits * (running - 1) if s.contention_form == TURNS else max(demand - 1.0, 0.0)
            slower = max(slowdown / crowding(s, beyond, running), 1.0)
            most = max(most, (base * running + by_utilization * demand) * slower)
    return most
