"""What a job cannot do with less of, whatever it is given: time, GPUs and cores; and the most that a GPU can give.

Each is the least over all shapes, types of GPU and numbers of nodes, with all cores of a node and no lack of bandwidth.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import LEAST_CORES, MOST_SERVERS, TURNS
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
def room_of(s):
    """Return the GPUs of the largest node, and the most cores of a node beside one for each GPU."""
    largest, spare = 1, 0.0
    for node in range(s.num_nodes):
        largest = max(largest, s.node_gpus[node])
        spare = max(spare, s.node_cores[node] - s.node_gpus[node])
    return largest, spare if s.cpu_limited else PLENTY_OF_CORES


@compiled
def shortest_iteration(s, jobs, job, workers, servers, slowdown, room):
    """Seconds of an iteration of so many workers on GPUs so much slower, on as many nodes as suits it best.

    Each other GPU of a node has a core, or one is kept for it.
    """
    largest, spare = room
    least = np.inf
    for nodes in range((workers - 1) // largest + 1, min(workers, s.num_nodes) + 1):
        cores = spare / ((workers - 1) // nodes + 1) + 1.0
        setting = Setting(workers, servers, nodes, cores)
        least = min(least, iteration_time(s, jobs, job, setting, Burden(slowdown, 1.0, 1.0)))
    return least


@compiled
def server_counts(row):
    """Return the numbers of parameter servers that a job can have."""
    return range(int(row.servers > 0), MOST_SERVERS * (row.servers > 0) + 1)


@compiled
def greatest_rate(s, jobs, job, room):
    """Return the greatest speed that a job can have, over that at the reference: its best shape and type of GPU.

    A CPU job has no more than the cores it asks for. room: that of the nodes, as `room_of` tells.
    """
    row = jobs[job]
    if row.num_gpus == 0 or row.iteration_s <= 0:
        return 1.0
    slowdown = 1.0
    if s.typed:
        fastest = 0.0
        for node in range(s.num_nodes):
            fastest = max(fastest, row.type_speed[s.node_type[node]])
        slowdown = 1.0 / fastest
    least = row.iteration_s
    for workers in range(row.min_workers, row.max_workers + 1):
        for servers in server_counts(row):
            least = min(least, shortest_iteration(s, jobs, job, workers, servers, slowdown, room))
            if row.cpu_slowdown > 0:
                least = min(least, iteration_on_cpu(s, jobs, job, workers, servers))
    return row.iteration_s / least


@compiled
def least_gpu_seconds(s, jobs, job, slowdown, room):
    """Return the GPU-seconds that a job on GPUs takes for a second of progress at least; 0 for a CPU job.

    slowdown: of its computing, by the type of GPU and by others on it.
    """
    row = jobs[job]
    if row.num_gpus == 0 or row.iteration_s <= 0:
        return 1.0 * row.min_workers
    least = np.inf
    for workers in range(row.min_workers, row.max_workers + 1):
        for servers in server_counts(row):
            iteration_s = shortest_iteration(s, jobs, job, workers, servers, slowdown, room)
            least = min(least, workers * iteration_s)
    return least / row.iteration_s


@compiled
def least_core_seconds(s, jobs, job, gpu_seconds):
    """Return the core-seconds that a job takes for a second of progress at least, on GPUs and, if it can, without.

    On GPUs it has a core for each, and its input takes core-seconds that no shape saves. gpu_seconds: the least it
    takes for a second of progress on any type of GPU. Infinite without GPUs where it cannot do without.
    """
    row = jobs[job]
    if row.num_gpus == 0:
        return np.inf, row.cores_each
    on_gpus = LEAST_CORES * gpu_seconds
    if row.iteration_s > 0:
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
def greatest_total(s, base, by_duty, duty, waits, slowdown):
    """Return the most that a GPU can give at once to the jobs on it, in units of progress alone on it at a slowdown.

    A job counts `base + by_duty x its duty`, no job having a greater duty than `duty`; the less crowded, the less than
    `slowdown / crowding` jobs gain. Where they take turns each waits for each other `waits` at least. Where jobs demand
    U of a GPU together their slowdown follows from that: between U = 1 and the most that n jobs demand a ratio of
    linear functions has its greatest value at one end.
    """
    most = 0.0
    for running in range(1, s.max_share + 1):
        for demand in (min(1.0, running * duty), running * duty):
            beyond = waits * (running - 1) if s.contention_form == TURNS else max(demand - 1.0, 0.0)
            slower = max(slowdown / crowding(s, beyond, running), 1.0)
            most = max(most, (base * running + by_duty * demand) * slower)
    return most
