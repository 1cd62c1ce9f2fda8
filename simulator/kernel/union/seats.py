"""Seats: GPUs on which a job can run now, alone or in a share slot, and the cost of co-location.

Co-located jobs are taken to slow each other down by CONTENTION for each GPU's worth of profiled demand beyond one, the
median of Gavel's pairs on V100s, and by a fixed LOSS_PER_JOB for each co-located job, as in Lucid:

    slowdown = 1 + CONTENTION x max(sum of utilisations - 1, 0) + LOSS_PER_JOB x co-located jobs

A gang is as slow as on its worst GPU. The GPUs of a job must lie within a place: a node or, if the job may be spread,
several nodes.

A gang across nodes is slower by an amount that no profile shows, so `union` tries it and measures: a running job that
could use more GPUs than its node has takes those of a second node once no job waits, and returns if it is not faster.
The first guess is the median of what jobs of eight GPUs of Philly's generator lose on sixteen GPUs of two nodes,
against sixteen of one (training windows 0 to 11); our choice.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import count_on
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold
from gpu_cluster_gym.simulator.kernel.cluster.queues import attained_now
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_asked
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_be_displaced_for
from gpu_cluster_gym.simulator.kernel.union.job_shapes import (
    CORE_EPS,
    MAX_NAMED_GPUS,
    gpu_utilization,
    max_gpus_on_a_node,
    may_spread,
    relative_time,
    type_slowdown_on,
)

CONTENTION, LOSS_PER_JOB = 0.48, 0.04
EXCLUSIVE_AFTER = 3  # out-of-memory failures after which a job gets exclusive GPUs; our choice
SPAN_LOSS = 0.13  # first guess of the share of time that a gang loses across nodes
SPAN_WATCH_S = 600.0  # minimum duration of a measurement


# Places.


@compiled
def num_places(s, jobs, m, job):
    """Return the number of places of a job: the nodes, then each GPU type if there are several, then all GPUs."""
    if not may_spread(s, jobs, m, job):
        return s.num_nodes
    return s.num_nodes + (m.num_gpu_types + 1 if m.typed else 1)


@compiled
def list_gpus(s, m, place):
    """List the GPUs of a place in `place_gpus` and return their number; nodes with most empty GPUs come first."""
    if place < s.num_nodes:
        for k in range(s.node_gpus[place]):
            m.place_gpus[k] = s.node_first[place] + k
        return s.node_gpus[place]
    kind = place - s.num_nodes
    every = not m.typed or kind == m.num_gpu_types
    nodes = 0
    for node in range(s.num_nodes):
        if not every and s.node_type[node] != m.gpu_types[kind]:
            continue
        at = nodes
        while at > 0 and m.num_empty[m.node_order[at - 1]] < m.num_empty[node]:
            m.node_order[at] = m.node_order[at - 1]
            at -= 1
        m.node_order[at] = node
        nodes += 1
    count = 0
    for k in range(nodes):
        node = m.node_order[k]
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            m.place_gpus[count] = gpu
            count += 1
    return count


@compiled
def count_empty(m, count):
    """Return the number of GPUs of the listed place that are empty."""
    empty = 0
    for k in range(count):
        empty += m.is_empty[m.place_gpus[k]]
    return empty


@compiled
def has_requested_cores(s, jobs, m, job, shape, count):
    """Return whether the nodes of the best-ranked GPUs have the cores that a job asks for in a shape.

    One core is kept for each empty GPU. count: ranked GPUs.
    """
    workers = m.shape_workers[shape]
    each = cores_asked(jobs, job, workers, workers, m.shape_servers[shape])
    if each <= 1.0:
        return True
    if workers > count:
        return False
    for k in range(workers):
        node = s.gpu_node[m.ranked[k]]
        here = empty = 0
        for other in range(workers):
            if s.gpu_node[m.ranked[other]] == node:
                here += 1
                empty += m.is_empty[m.ranked[other]]
        if s.unreserved_cores[node] + empty + CORE_EPS < each * here:
            return False
    return True


@compiled
def has_server_cores(s, jobs, m, job, shape):
    """Return whether the nodes of the chosen GPUs have the cores for the servers of a running job in a shape.

    The cores that the job holds count as free.
    """
    workers, servers = m.shape_workers[shape], m.shape_servers[shape]
    if servers == 0 or not s.cpu_limited:
        return True
    each = cores_asked(jobs, job, workers, workers, servers)
    for k in range(workers):
        node = s.gpu_node[m.chosen[k]]
        here = empty = kept = 0
        for other in range(workers):
            gpu = m.chosen[other]
            if s.gpu_node[gpu] == node:
                here += 1
                empty += m.is_empty[gpu]
                kept += count_on(s, gpu, job) > 0
        own = 0
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            own += count_on(s, gpu, job) > 0
        # Free cores, the reserve of the empty GPUs, and the job's own less a reserve for each GPU it leaves.
        there = s.unreserved_cores[node] + empty + own * s.core_count[job] - (own - kept)
        if there + CORE_EPS < each * here:
            return False
    return True


# Co-location.


@compiled
def colocation_slowdown(demand, others):
    """Return the slowdown of jobs on a GPU by this total demand and this number of co-located jobs."""
    return 1 + CONTENTION * max(demand - 1, 0.0) + LOSS_PER_JOB * others if others > 0 else 1.0


@compiled
def is_oom_prone(s, job):
    """Return whether a job gets exclusive GPUs because it ran out of memory repeatedly."""
    return s.oom_restarts[job] >= EXCLUSIVE_AFTER


@compiled
def must_be_exclusive(s, job):
    """Return whether a job can only move to exclusive GPUs: it is running, or ran out of memory repeatedly."""
    return is_oom_prone(s, job) or s.phase[job] == RUNNING


@compiled
def slowdown_beside(s, m, gpu, utilization, memory, type_slowdown):
    """Return the slowdown of a job beside the jobs on a GPU; infinite where it cannot run.

    utilization, memory: of the job. type_slowdown: by the type of the GPU.
    """
    demand = m.demand[gpu] + utilization
    if m.exclusive or m.free_memory_gib[gpu] < memory or demand > m.most_busy * m.sharing:
        return np.inf
    return colocation_slowdown(demand, s.num_jobs_on[gpu]) * type_slowdown


@compiled
def find_seats(s, jobs, m, job, since):
    """Note the slowdown of a job on each GPU, infinite where it cannot run; return whether it can run on any.

    A running job can only move to exclusive GPUs. since: visit only nodes that changed after this read
    (`changed_at_read`), -1 for all nodes; only `has_seat` is written for the others.
    """
    utilization, memory = gpu_utilization(jobs, job), jobs[job].profiled_memory_gib
    m.exclusive = must_be_exclusive(s, job)
    found = False
    for node in range(s.num_nodes):
        m.can_hold[node] = can_hold(s, jobs, job, node)
        m.has_seat[node] = 0
        if m.changed_at_read[node] <= since:
            continue
        m.node_slowdown[node] = type_slowdown_on(s, jobs, m, job, node) if m.can_hold[node] else np.inf
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            if m.is_repeated[gpu]:
                m.slowdown[gpu] = m.slowdown[gpu - 1]
            elif m.is_empty[gpu]:
                m.slowdown[gpu] = m.node_slowdown[node]
            elif m.has_slot[gpu] and m.can_hold[node]:
                m.slowdown[gpu] = slowdown_beside(s, m, gpu, utilization, memory, m.node_slowdown[node])
            else:
                m.slowdown[gpu] = np.inf
            m.has_seat[node] |= m.slowdown[gpu] < np.inf
        found |= m.has_seat[node]
    return found


@compiled
def rank_gpus(m, count):
    """Rank the GPUs of the listed place by the slowdown just noted, least first."""
    for k in range(count):
        gpu = m.place_gpus[k]
        at = k
        while at > 0 and m.slowdown[m.ranked[at - 1]] > m.slowdown[gpu]:
            m.ranked[at] = m.ranked[at - 1]
            at -= 1
        m.ranked[at] = gpu


@compiled
def harm_share(s, jobs, m, job, gpus, other):
    """Return the additional slowdown of another job, as a share of its time, if a job came to these GPUs."""
    after = 1.0
    slot = s.first_slot[other]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        demand, beside = m.demand[gpu], s.num_jobs_on[gpu] - 1
        for k in range(len(gpus)):
            if gpus[k] == gpu:
                demand += gpu_utilization(jobs, job)
                beside += 1
        after = max(after, colocation_slowdown(demand, beside))
        slot = s.next_slot[slot]
    return max(after / m.shared_slowdown[other] - 1, 0.0)


@compiled
def harm_s(s, jobs, m, job, gpus, slowdown):
    """Return the seconds that jobs on these GPUs lose by a new job with this slowdown, while both run."""
    total = 0.0
    for k in range(len(gpus)):
        for slot in range(MAX_SHARE * gpus[k], MAX_SHARE * gpus[k] + MAX_SHARE):
            other = s.job_in[slot]
            if other == NOBODY or holds_any(s, gpus[:k], other):
                continue
            slower = harm_share(s, jobs, m, job, gpus, other)
            total += slower * min(m.left_s[other], slowdown * m.left_s[job])
    return total


@compiled
def holds_any(s, gpus, job):
    """Return whether a job holds any of these GPUs."""
    for gpu in gpus:
        if count_on(s, gpu, job) > 0:
            return True
    return False


@compiled
def relief_s(s, m, job):
    """Return the seconds that co-located jobs gain if a job leaves them."""
    left = m.left_s[job]
    others = 0
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        for at in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            other = s.job_in[at]
            if other != NOBODY and other != job:
                others += 1
                left = min(left, m.left_s[other])
        slot = s.next_slot[slot]
    slowdown = m.shared_slowdown[job]
    return (slowdown - 1) / slowdown * left if others > 0 else 0.0


@compiled
def fits_without(s, jobs, m, job, gpu, evicted):
    """Return whether a job fits on a GPU once another job has left it."""
    if s.num_jobs_on[gpu] == 1:
        return True
    if (
        m.exclusive
        or m.free_memory_gib[gpu] + jobs[evicted].profiled_memory_gib < jobs[job].profiled_memory_gib
    ):
        return False
    if m.demand[gpu] - gpu_utilization(jobs, evicted) + gpu_utilization(jobs, job) > m.most_busy * m.sharing:
        return False
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        if s.job_in[slot] != NOBODY and is_oom_prone(s, s.job_in[slot]):
            return False
    return True


@compiled
def slowdown_without(s, jobs, m, job, gpu, evicted):
    """Return the slowdown of a job on a GPU that another job has left, if it fits there."""
    others = s.num_jobs_on[gpu] - 1
    type_slowdown = m.node_slowdown[s.gpu_node[gpu]]
    if others == 0:
        return type_slowdown
    return (
        colocation_slowdown(
            m.demand[gpu] - gpu_utilization(jobs, evicted) + gpu_utilization(jobs, job), others
        )
        * type_slowdown
    )


@compiled
def may_be_evicted(s, m, job, other):
    """Return whether an active job may be paused for another: longer to go, has run for `settled`, of its tenant."""
    return m.evictable_s[other] > m.own_left_s and other != job and may_be_displaced_for(s, other, job)


@compiled
def note_opening(s, jobs, m, job, gpu):
    """Note when a GPU has a seat for a job without a pause, which job to pause for a seat now, and the slowdown then.

    The victim is the job with the longest time left among those whose pause opens a seat.
    """
    if m.is_repeated[gpu]:
        m.opens_s[gpu] = m.opens_s[gpu - 1]
        m.victim_on[gpu] = m.victim_on[gpu - 1]
        m.slowdown_after[gpu] = m.slowdown_after[gpu - 1]
        return
    m.opens_s[gpu] = 0.0 if m.slowdown[gpu] < np.inf else np.inf
    m.victim_on[gpu] = NOBODY
    m.slowdown_after[gpu] = np.inf
    if m.slowdown[gpu] < np.inf or m.is_blocked[gpu] or not m.can_hold[s.gpu_node[gpu]]:
        return
    last_end = -np.inf
    first_end = np.inf
    max_left = 0.0
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        other = s.job_in[slot]
        if other == NOBODY:
            continue
        last_end = max(last_end, m.left_s[other])
        if not fits_without(s, jobs, m, job, gpu, other):
            continue
        first_end = min(first_end, m.left_s[other])
        if m.left_s[other] > max_left and may_be_evicted(s, m, job, other):
            max_left = m.left_s[other]
            m.victim_on[gpu] = other
            m.slowdown_after[gpu] = slowdown_without(s, jobs, m, job, gpu, other)
    if last_end > -np.inf:
        m.opens_s[gpu] = min(last_end, first_end)


@compiled
def pause_opens_seat(s, jobs, m, job, other):
    """Return whether the pause of another job would open a seat for a job on some GPU."""
    slot = s.first_slot[other]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        able = can_hold(s, jobs, job, s.gpu_node[gpu]) and not m.is_blocked[gpu]
        if able and not m.is_repeated[gpu] and fits_without(s, jobs, m, job, gpu, other):
            return True
        slot = s.next_slot[slot]
    return False


# Gangs across nodes.


@compiled
def may_span(s, jobs, m, job):
    """Return whether a job could use more GPUs than a node has, and is placed on one node as it asks."""
    if m.spanning == 0 or m.typed or jobs[job].servers > 0:
        return False
    return jobs[job].num_gpus <= max_gpus_on_a_node(s, jobs, job) < min(jobs[job].max_workers, MAX_NAMED_GPUS)


@compiled
def is_spanning(s, jobs, m, job):
    """Return whether a job is on more nodes than in the shape it asks for."""
    return s.span[job] > 1 and may_span(s, jobs, m, job)


@compiled
def span_slowdown(m, job):
    """Return the slowdown of a job across nodes: as measured, else the first guess."""
    return m.measured_span_slowdown[job] if m.measured_span_slowdown[job] > 0 else 1 + SPAN_LOSS / m.spanning


@compiled
def measure_span(s, jobs, m, job):
    """Measure the slowdown of a job across nodes by its progress while it is alone there."""
    if s.phase[job] != RUNNING or m.shared_slowdown[job] > 1:
        m.span_since[job] = -1
    elif m.span_since[job] < s.phase_began[job]:
        m.span_since[job], m.span_attained[job] = s.clock, attained_now(s, job)
    elif s.clock - m.span_since[job] >= SPAN_WATCH_S:
        attained = attained_now(s, job) - m.span_attained[job]
        if attained > 0:
            taken = (s.clock - m.span_since[job]) / attained
            m.measured_span_slowdown[job] = taken / relative_time(jobs, job, s.workers[job], s.servers[job])


@compiled
def choose_two_nodes(s, jobs, m, job, workers):
    """Choose a job's GPUs, empty GPUs on its node, then those of the emptiest other node; return their number."""
    home = s.gpu_node[s.first_slot[job] // MAX_SHARE]
    count = choose_on_node(s, m, job, home, 0, workers)
    other, max_empty = NOBODY, 0
    for node in range(s.num_nodes):
        able = node != home and can_hold(s, jobs, job, node)
        if able and m.num_empty[node] > max_empty:
            other, max_empty = node, m.num_empty[node]
    return count if other == NOBODY else choose_on_node(s, m, job, other, count, workers)


@compiled
def choose_on_node(s, m, job, node, count, max_count):
    """Choose a job's own GPUs of a node, then empty ones, up to `max_count` in all; return the number chosen."""
    for own in (True, False):
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            has = count_on(s, gpu, job) > 0
            if count < max_count and has == own and (own or m.is_empty[gpu]):
                m.chosen[count] = gpu
                count += 1
    return count


@compiled
def choose_own_node(s, m, job):
    """Choose a job's own GPUs on the node where it has most of them; return their number."""
    home, max_own = 0, 0
    for node in range(s.num_nodes):
        own = 0
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            own += count_on(s, gpu, job) > 0
        if own > max_own:
            home, max_own = node, own
    return choose_on_node(s, m, job, home, 0, max_own)
