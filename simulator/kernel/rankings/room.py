"""Room for a job that does not fit: which jobs to pause for it, and which GPUs it then gets.

A gang that some node could hold stays on one; a larger one takes whole nodes of the largest size and the rest of its
GPUs on one more, as the placement rules do where nodes are alike. Room is exact on one node; a gang on several takes
the best node for each part. Only what a view shows is read: profiles and estimates, no truth.
"""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled
from gpu_cluster_gym.simulator.kernel.cluster.knapsack import cheapest
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, PAUSING
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold

EPS = 1e-6  # of sums of cores


class Pool(NamedTuple):
    """What may be freed for a job: of each job, whether it may be paused, at what cost, and what breaks ties.

    left: the set with most of it in sum is taken among equals. cores: of each node, those to be had without a pause,
    infinite where they do not matter. awaits: whether GPUs that pauses in flight will free may be taken.
    """

    offered: np.ndarray
    cost: np.ndarray
    left: np.ndarray
    cores: np.ndarray
    awaits: bool


@compiled
def is_free(s, gpu):
    """Tell whether a GPU is free for anybody."""
    return s.first_owner[gpu] == NOBODY and s.reserved_for[gpu] == NOBODY


@compiled
def is_coming(s, gpu):
    """Tell whether a pause in flight will free a GPU that is kept for nobody."""
    job = s.first_owner[gpu]
    return (
        job != NOBODY
        and s.phase[job] == PAUSING
        and s.reserved_for[gpu] == NOBODY
        and s.num_jobs_on[gpu] <= 1
    )


@compiled
def is_offered(s, pool, gpu):
    """Tell whether the pause of a job that may be paused would free a GPU."""
    job = s.first_owner[gpu]
    return job != NOBODY and s.reserved_for[gpu] == NOBODY and pool.offered[job]


@compiled
def held_on(s, pool, node, job):
    """Return how many GPUs of a node a job would free."""
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        count += s.first_owner[gpu] == job and is_offered(s, pool, gpu)
    return count


@compiled
def is_among(jobs, count, job):
    """Tell whether a job is one of the first of a list."""
    for k in range(count):
        if jobs[k] == job:
            return True
    return False


@allocating
def list_offers(s, pool, node, victims, num_victims):
    """Return the jobs that a pause could take from a node, the last first, and from how many GPUs, but for victims."""
    size = s.node_gpus[node]
    offered, gpus = np.empty(size, np.int32), np.zeros(size, np.int32)
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + size):
        job = s.first_owner[gpu]
        if not is_offered(s, pool, gpu) or is_among(victims, num_victims, job):
            continue
        at = 0
        while at < count and offered[at] > job:
            at += 1
        if at < count and offered[at] == job:
            gpus[at] += 1
            continue
        for later in range(count, at, -1):
            offered[later] = offered[later - 1]
            gpus[later] = gpus[later - 1]
        offered[at] = job
        gpus[at] = 1
        count += 1
    return offered[:count], gpus[:count]


@compiled
def cores_with(s, pool, node, victims, num_victims):
    """Return the cores of a node that are to be had once these jobs are paused."""
    gained = 0.0
    if pool.cores[node] < np.inf:
        for k in range(num_victims):
            gained += held_on(s, pool, node, victims[k]) * (s.core_count[victims[k]] - 1)
    return pool.cores[node] + gained


@compiled
def largest_of(s, able):
    """Return the GPUs of the largest of these nodes."""
    largest = 0
    for node in range(s.num_nodes):
        if able[node]:
            largest = max(largest, s.node_gpus[node])
    return largest


@allocating
def holding_nodes(s, jobs, job):
    """Return of each node whether its GPUs are large enough for a job."""
    able = np.zeros(s.num_nodes, np.bool_)
    for node in range(s.num_nodes):
        able[node] = can_hold(s, jobs, job, node)
    return able


@allocating
def part_on(s, pool, node, wanted, victims, num_victims):
    """Note the cheapest further victims for so many GPUs of a node behind those there are.

    Return their number, cost, what they have left, and how many GPUs are not free yet; infinite cost for no way.
    """
    there, free = 0, 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        free += is_free(s, gpu)
        there += is_free(s, gpu) or (pool.awaits and is_coming(s, gpu))
    for k in range(num_victims):
        there += held_on(s, pool, node, victims[k])
    offered, gpus = list_offers(s, pool, node, victims, num_victims)
    missing = max(wanted - there, 0)
    if gpus.sum() < missing:
        return 0, np.inf, 0.0, 0
    count, cost, left = cheapest(
        missing, offered, gpus, pool.cost[offered], pool.left[offered], victims[num_victims:]
    )
    return count, cost, left, wanted - free if pool.awaits else 0


@compiled
def take_gpus(s, pool, node, wanted, victims, gpus):
    """Write GPUs of a node: free ones, those that come free, then those of each victim; return how many."""
    count = 0
    first, end = s.node_first[node], s.node_first[node] + s.node_gpus[node]
    for gpu in range(first, end):
        if count < wanted and is_free(s, gpu):
            gpus[count] = gpu
            count += 1
    for gpu in range(first, end):
        if count < wanted and pool.awaits and is_coming(s, gpu):
            gpus[count] = gpu
            count += 1
    for victim in victims:
        for gpu in range(first, end):
            if count < wanted and s.first_owner[gpu] == victim and is_offered(s, pool, gpu):
                gpus[count] = gpu
                count += 1
    return count


@allocating
def best_node(s, pool, able, wanted, each, victims, num_victims):
    """Find the node where so many GPUs with so many cores each cost least, then the one with fewest victims.

    Then most left to them, fewest GPUs to wait for, the lowest number. Return it, or NOBODY, and how many victims there
    are with the new ones, which are noted behind the others.
    """
    best, count = NOBODY, 0
    least = (np.inf, 0, 0.0, 0)
    found = victims.copy()
    for node in range(s.num_nodes):
        if not able[node] or s.node_gpus[node] < wanted:
            continue
        size, cost, left, awaited = part_on(s, pool, node, wanted, found, num_victims)
        if cost == np.inf or (best != NOBODY and (cost, size, -left, awaited) >= least):
            continue
        extra = wanted if pool.awaits else 0
        if cores_with(s, pool, node, found, num_victims + size) + extra + EPS < each * wanted:
            continue
        best, count = node, num_victims + size
        least = (cost, size, -left, awaited)
        victims[:count] = found[:count]
    return best, count


@compiled
def find_room(s, pool, able, wanted, each, victims, gpus):
    """Find GPUs on these nodes for so many, and jobs to pause for them; return how many victims, and the least GiB.

    each: cores that every GPU must find. The number is -1 where there is no room. `able` is written.
    """
    memory = np.inf
    num_victims, count = 0, 0
    largest = largest_of(s, able)
    while count < wanted:
        part = min(wanted - count, largest)
        node, num_victims = best_node(s, pool, able, part, each, victims, num_victims)
        if node == NOBODY:
            return -1, memory
        able[node] = False
        count += take_gpus(s, pool, node, part, victims[:num_victims], gpus[count:])
        memory = min(memory, s.node_memory[node])
    return num_victims, memory
