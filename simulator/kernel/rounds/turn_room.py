"""Room for a turn: free GPUs of a kind, or those of the jobs that come last."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_free
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold
from gpu_cluster_gym.simulator.kernel.rankings.granting import make_room, place_on
from gpu_cluster_gym.simulator.kernel.rankings.room import EPS


@compiled
def rank_of(s, jobs, job):
    """Return the rank of the memory that a job's GPUs must have."""
    rank = 0
    while rank < s.num_levels and s.level_memory[rank] < jobs[job].gpu_memory_gib:
        rank += 1
    return rank


@compiled
def is_hopeless(s, jobs, m, at):
    """Tell whether a job that asks for the same on the same kind has found no room in this pass."""
    job = m.turn_job[at]
    for k in range(m.num_hopeless):
        other = m.turn_job[m.hopeless[k]]
        if (
            m.turn_kind[m.hopeless[k]] == m.turn_kind[at]
            and jobs[other].num_gpus == jobs[job].num_gpus
            and jobs[other].cores_each == jobs[job].cores_each
            and rank_of(s, jobs, other) == rank_of(s, jobs, job)
        ):
            return True
    return False


@compiled
def is_of_kind(m, node, kind):
    """Tell whether the GPUs of a node are of a kind."""
    return m.node_kind[node] >= 0 and (kind == m.num_kinds - 1 or m.node_kind[node] == kind)


@compiled
def best_fit(s, jobs, m, job, wanted):
    """Return the node, of those noted, with fewest free GPUs, but enough of them and of cores; or NOBODY."""
    more = max(jobs[job].cores_each - 1.0, 0.0) if s.cpu_limited else 0.0
    best = NOBODY
    for node in range(s.num_nodes):
        fits = m.able[node] and s.free[node] >= wanted and s.unreserved_cores[node] + EPS >= more * wanted
        if fits and (best == NOBODY or s.free[node] < s.free[best]):
            best = node
    return best


@compiled
def fit(s, jobs, m, job, kind):
    """Find free GPUs of a kind: where there is but one, by the scenario's rule, else by best fit; tell whether any."""
    if kind == m.num_kinds - 1 or m.num_kinds == 2:
        return place_on(s, jobs, job, jobs[job].num_gpus)
    largest, count = 0, 0
    for node in range(s.num_nodes):
        m.able[node] = is_of_kind(m, node, kind) and can_hold(s, jobs, job, node)
        if m.able[node]:
            largest = max(largest, s.node_gpus[node])
    while count < jobs[job].num_gpus:
        wanted = min(jobs[job].num_gpus - count, largest)
        node = best_fit(s, jobs, m, job, wanted)
        if node == NOBODY:
            return False
        m.able[node] = False
        until = count + wanted
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            if count < until and is_free(s, gpu):
                s.gpus[count] = gpu
                count += 1
    return True


@allocating
def find(s, jobs, m, job, kind):
    """Find GPUs for a job, free ones if they will do, and jobs to pause for it; return how many, -1 for no room."""
    count, gpus = 0, jobs[job].num_gpus
    if not fit(s, jobs, m, job, kind):
        after, num_after = np.empty(m.num_after, np.int64), 0
        for k in range(m.num_after):
            if m.is_after[m.after[k]] and m.after[k] != job:
                after[num_after] = m.after[k]
                num_after += 1
        able = np.empty(s.num_nodes, np.bool_)
        for node in range(s.num_nodes):
            able[node] = is_of_kind(m, node, kind) and can_hold(s, jobs, job, node)
        count = make_room(s, jobs, job, gpus, after[:num_after], able)
    if count < 0:
        return count
    s.gpus[:gpus].sort()
    m.move_job, m.num_gpus, m.node = job, gpus, NOBODY
    for k in range(gpus):
        m.gpus[k] = s.gpus[k]
    for k in range(count):
        m.victims[k] = s.victims[k]
    return count
