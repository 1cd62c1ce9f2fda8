"""Legality of actions, lists of the jobs that a policy may act on, and the invariants of every state.

Functions that return the number of a reason return 0 for a legal action; `simulator/source.py` has the
messages.
"""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.actions import must_wait_for, reserves
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    CHARGED,
    CLOSED,
    DONE,
    DOWN,
    EVICTED,
    FUTURE,
    HELD,
    LOADING,
    MAX_SHARE,
    MIN_CORES,
    NOBODY,
    PAUSING,
    PHASES,
    QUEUED,
    ROUNDING,
    RUNNING,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import available_cores
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import may_use, place
from gpu_cluster_gym.simulator.kernel.cluster.speed import (
    cores_asked,
    cores_of_servers,
    is_rigid,
    is_shape,
    resolved_shape,
)
from gpu_cluster_gym.simulator.kernel.cluster.tenants import claims_bar, may_take_these, wrong_counts


class Seat(NamedTuple):
    """A placement as the kernel reads it.

    gpus: sorted GPU indices, int32.
    cores: per GPU; 0 for those that the job asks for in that shape, or fewer if they are not available. Without
    core allocation a job has what it asks for in any case.
    node: node of a job without GPUs, else -1.
    workers: 0 if left open.
    servers: -1 if left open.
    """

    gpus: np.ndarray
    cores: float
    node: int
    workers: int
    servers: int


@compiled
def barred(s, jobs, job, gpu, claim):
    """Return 0 if a queued job may be given a GPU, or claim it, else the number of the reason."""
    if gpu < 0 or gpu >= s.num_gpus or s.reserved_for[gpu] != NOBODY:
        return 4
    if s.num_jobs_on[gpu] >= (2 if claim else s.max_share) and not must_wait_for(s, gpu):
        return 4
    return why_not_on(s, jobs, job, s.gpu_node[gpu])


@compiled
def why_not_on(s, jobs, job, node):
    """Return 0 if the GPUs of a node can hold a job, else the number of the reason."""
    if s.node_memory[node] < jobs[job].gpu_memory_gib:
        return 5
    return 0 if may_use(s, jobs, job, node) else 12


@entry
def legal_start(states, e, jobs, job, seat, claim):
    """Return 0 if a queued job may start in a seat, or claim it, else the number of the reason."""
    return why_no_start_or_claim(states[e], jobs, job, seat, claim)


@compiled
def why_no_start(s, jobs, job, seat):
    """Return 0 if a queued job may start in a seat without a claim, else the number of the reason."""
    return why_no_start_or_claim(s, jobs, job, seat, False)


@compiled
def why_no_start_or_claim(s, jobs, job, seat, claim):
    """Return 0 if a queued job may start in a seat, or claim it, else the number of the reason."""
    if s.phase[job] != QUEUED:
        return 1
    if s.last_action_instant[job] == s.instant:
        return 2
    gpus, cores, node = seat.gpus, seat.cores, seat.node
    workers, servers = resolved_shape(jobs, job, len(gpus), seat.workers, seat.servers)
    reason = wrong_shape(s, jobs, job, len(gpus), cores, node, workers, servers)
    if reason > 0:
        return reason
    if len(gpus) == 0:
        wanted = cores if cores > 0 else cores_asked(jobs, job, 0, workers, servers)
        return 8 if wanted > s.unreserved_cores[node] + ROUNDING else 0
    for k in range(len(gpus)):
        reason = barred(s, jobs, job, gpus[k], claim)
        if reason > 0:
            return reason
    if named_twice(gpus):
        return 6
    if not may_take_these(s, jobs, job, gpus):
        return 11
    # A reservation without a claim needs all its GPUs free or held by pausing jobs only; cores are checked when they
    # are released.
    if reserves(s, gpus, claim):
        for gpu in gpus:
            if not claim and s.num_jobs_on[gpu] > 0 and not must_wait_for(s, gpu):
                return 4
    elif s.cpu_limited:
        least = MIN_CORES + cores_of_servers(servers, workers, len(gpus))
        if max(cores, least) > available_cores(s, gpus) + ROUNDING:
            return 8
    return 0


@compiled
def wrong_shape(s, jobs, job, count, cores, node, workers, servers):
    """Return 0 if a job can run with these GPUs, cores, workers and servers, else the number of the reason."""
    row = jobs[job]
    if not is_shape(jobs, job, count, workers, servers):
        return 3 if is_rigid(jobs, job) else 9
    if count == 0:
        if node < 0 or node >= s.num_nodes or s.closed[node]:
            return 7
        if not may_use(s, jobs, job, node):
            return 12
        asked = cores_asked(jobs, job, 0, workers, servers)
        # Workers without GPUs need exactly the cores of their shape; CPU jobs at least MIN_CORES.
        too_few = s.cpu_limited and 0 < cores < (MIN_CORES if row.num_gpus == 0 else asked)
        return 8 if cores < 0 or too_few or cores > asked + ROUNDING else 0
    least = MIN_CORES + cores_of_servers(servers, workers, count)
    return 8 if cores < 0 or (s.cpu_limited and 0 < cores < least - ROUNDING) else 0


@compiled
def named_twice(gpus):
    """Return whether a GPU occurs twice."""
    for k in range(len(gpus)):
        for other in range(k):
            if gpus[other] == gpus[k]:
                return True
    return False


@entry
def legal_move(states, e, jobs, job, seat):
    """Return 0 if a running job may resume in another seat, else the number of the reason."""
    return why_no_move(states[e], jobs, job, seat)


@compiled
def why_no_move(s, jobs, job, seat):
    """Return 0 if a running job may resume in another seat, else the number of the reason."""
    if s.phase[job] != RUNNING or jobs[job].num_gpus == 0:
        return 10
    if s.last_action_instant[job] == s.instant:
        return 2
    gpus, cores, node = seat.gpus, seat.cores, seat.node
    workers, servers = resolved_shape(jobs, job, len(gpus), seat.workers, seat.servers)
    reason = wrong_shape(s, jobs, job, len(gpus), cores, node, workers, servers)
    if reason > 0:
        return reason
    for gpu in gpus:
        if gpu < 0 or gpu >= s.num_gpus or s.reserved_for[gpu] != NOBODY:
            return 4
        reason = why_not_on(s, jobs, job, s.gpu_node[gpu])
        if reason > 0:
            return reason
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            other = s.job_in[slot]
            # Its own GPUs and GPUs of pausing jobs will be released.
            if other != NOBODY and other != job and s.phase[other] != PAUSING:
                return 4
    if named_twice(gpus):
        return 6
    return 0 if may_take_these(s, jobs, job, gpus) else 11


@entry
def legal_resize(states, e, jobs, job, cores):
    """Return whether a running job may have this number of cores, per GPU or in total if it has no GPU."""
    return may_resize(states[e], jobs, job, cores)


@compiled
def may_resize(s, jobs, job, cores):
    """Return whether a running job may have this number of cores; see `legal_resize`."""
    least = MIN_CORES + cores_of_servers(s.servers[job], s.workers[job], s.width[job])
    if s.phase[job] != RUNNING or not s.cpu_limited or not cores >= least - ROUNDING:
        return False
    more = cores - s.core_count[job]
    if s.node_of[job] != NOBODY:
        if jobs[job].num_gpus > 0:
            return False  # workers without GPUs have a fixed number of cores
        return (
            cores <= jobs[job].cores_each + ROUNDING and more <= s.unreserved_cores[s.node_of[job]] + ROUNDING
        )
    slot = s.first_slot[job]
    while slot != NOBODY:
        node = s.gpu_node[slot // MAX_SHARE]
        count = 0
        other = s.first_slot[job]
        while other != NOBODY:
            count += s.gpu_node[other // MAX_SHARE] == node
            other = s.next_slot[other]
        # The node of each GPU must provide the additional cores for all GPUs that the job holds there.
        if more * count > s.unreserved_cores[node] + ROUNDING:
            return False
        slot = s.next_slot[slot]
    return True


@compiled
def wrong_gpus(s, jobs, held, free):
    """Count violations on GPUs; count the GPUs of each job into `held` and the free GPUs of each node into `free`."""
    wrong = 0
    for gpu in range(s.num_gpus):
        memory = s.node_memory[s.gpu_node[gpu]]
        count = 0
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            job = s.job_in[slot]
            if job != NOBODY:
                held[job] += 1
                count += 1
                wrong += not may_use(s, jobs, job, s.gpu_node[gpu])
                memory -= jobs[job].gpu_memory_gib * (s.charged[job] == CHARGED)
        if s.reserved_for[gpu] >= 0:
            wrong += not may_use(s, jobs, s.reserved_for[gpu], s.gpu_node[gpu])
        if count == 0 and s.reserved_for[gpu] == NOBODY:
            free[s.gpu_node[gpu]] += 1
        wrong += count != s.num_jobs_on[gpu] or count > s.max_share
        wrong += (count == 0) != (s.first_owner[gpu] == NOBODY)
        wrong += s.free_memory[gpu] < -1e-6 or abs(memory - s.free_memory[gpu]) > 1e-6
    return wrong


@allocating
def wrong_nodes(s, free):
    """Count violations of the counters and cores of nodes."""
    wrong = 0
    cores = s.node_cores[: s.num_nodes].copy()
    empty = np.zeros(s.num_nodes)
    for gpu in range(s.num_gpus):
        node = s.gpu_node[gpu]
        empty[node] += s.num_jobs_on[gpu] == 0
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            if s.job_in[slot] != NOBODY:
                cores[node] -= s.core_count[s.job_in[slot]]
        wrong += s.reserved_for[gpu] == CLOSED and not s.closed[node]
        wrong += s.reserved_for[gpu] != CLOSED and s.closed[node]
        wrong += s.closed[node] == DOWN and s.num_jobs_on[gpu] > 0
    for job in range(s.num_arrived):
        if s.node_of[job] != NOBODY:
            cores[s.node_of[job]] -= s.core_count[job]
    for node in range(s.num_nodes):
        wrong += free[node] != s.free[node]
        wrong += cores[node] < -1e-6 or abs(cores[node] - s.free_cores[node]) > 1e-6
        wrong += abs(cores[node] - empty[node] - s.unreserved_cores[node]) > 1e-6
        wrong += s.cpu_limited and s.unreserved_cores[node] < -1e-6
    return wrong


@compiled
def min_cores(s, jobs, job):
    """Return the minimum cores of an active job, per GPU or in total if it has none."""
    if jobs[job].num_gpus == 0:
        return min(MIN_CORES, jobs[job].cores_each)
    if s.width[job] == 0:
        return cores_asked(jobs, job, 0, s.workers[job], s.servers[job])
    return MIN_CORES + cores_of_servers(s.servers[job], s.workers[job], s.width[job])


@entry
def check(states, e, jobs):
    """Count violations of the invariants: GPUs, memory, cores, constraints, free counts, phases; 0 in a sound state."""
    return count_violations(states[e], jobs)


@allocating
def count_violations(s, jobs):
    """Count violations of the invariants; see `check`."""
    held = np.zeros(s.num_jobs, np.int64)
    free = np.zeros(s.num_nodes, np.int64)
    wrong = wrong_gpus(s, jobs, held, free) + wrong_nodes(s, free)
    wrong += free.sum() != s.num_free
    counts = np.zeros(len(PHASES), np.int64)
    for job in range(s.num_jobs):
        counts[s.phase[job]] += 1
        active = s.phase[job] == LOADING or s.phase[job] == RUNNING or s.phase[job] == PAUSING
        wrong += held[job] != (s.width[job] if active else 0)
        wrong += active and not is_shape(jobs, job, s.width[job], s.workers[job], s.servers[job])
        wrong += active and (s.node_of[job] != NOBODY) != (s.width[job] == 0)
        wrong += s.node_of[job] != NOBODY and not may_use(s, jobs, job, s.node_of[job])
        wrong += s.phase[job] != FUTURE and (s.phase[job] == HELD) != (s.unmet[job] > 0)
        wrong += active and s.cpu_limited and s.core_count[job] < min_cores(s, jobs, job) - 1e-6
        wrong += s.attained_s[job] > jobs[job].duration_s * (1 + 1e-12)
    wrong += wrong_counts(s)
    wrong += counts[QUEUED] != s.num_queued
    wrong += s.num_ready != 0
    wrong += counts[HELD] != s.num_held
    wrong += counts[DONE] != s.num_done
    wrong += counts[FUTURE] != s.num_jobs - s.num_arrived
    return wrong


@compiled
def copy_queue(s, out):
    """Copy the queued jobs in the order of the record; return their number."""
    count = 0
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            out[count] = s.queue[at]
            count += 1
    return count


@allocating
def list_queued(s, out):
    """List the queued jobs in ascending order; return their number."""
    count = copy_queue(s, out)
    out[:count].sort()
    return count


@entry
def queued(states, e, out):
    """List the queued jobs in ascending order; return their number."""
    return list_queued(states[e], out)


@allocating
def list_queued_or_running(s, out):
    """List the queued and the running jobs in ascending order; return their number."""
    count = copy_queue(s, out)
    for k in range(s.num_active):
        if s.phase[s.events[k]] == RUNNING:
            out[count] = s.events[k]
            count += 1
    out[:count].sort()
    return count


@entry
def queued_or_running(states, e, out):
    """List the queued and the running jobs in ascending order; return their number."""
    return list_queued_or_running(states[e], out)


@entry
def active(states, e, phase, out):
    """List the active jobs in a phase in ascending order; return their number."""
    s = states[e]
    count = 0
    for k in range(s.num_active):
        if s.phase[s.events[k]] == phase:
            out[count] = s.events[k]
            count += 1
    out[:count].sort()
    return count


@entry
def preemptible(states, e, out):
    """List the running jobs that were not started at this instant in ascending order; return their number."""
    s = states[e]
    count = 0
    for k in range(s.num_active):
        if may_pause(s, s.events[k]):
            out[count] = s.events[k]
            count += 1
    out[:count].sort()
    return count


@compiled
def first_startable(s, jobs, request_class, evicted):
    """Return the offset in `queue` of the first job of a class that fits and may start now, or NOBODY.

    One placement stands for all jobs of the class that reclaim has paused (`evicted`), which may not borrow, and one
    for all others.
    """
    begin = s.queue_start[request_class]
    for at in range(begin, begin + s.queue_size[request_class]):
        job = s.queue[at]
        if (s.evicted[job] == EVICTED) == evicted and s.last_action_instant[job] != s.instant:
            return at if place(s, jobs, job) else NOBODY
    return NOBODY


@compiled
def may_start(s, jobs):
    """Return whether a queued job fits where the placement rule puts it, and may start now."""
    for request_class in range(s.num_classes):
        if first_startable(s, jobs, request_class, False) != NOBODY:
            return True
        if s.num_evicted > 0 and first_startable(s, jobs, request_class, True) != NOBODY:
            return True
    return False


@compiled
def list_startable(s, jobs, out):
    """List the queued jobs that fit and may start now; return their number."""
    count = 0
    for request_class in range(s.num_classes):
        end = s.queue_start[request_class] + s.queue_size[request_class]
        for evicted in range(2 if s.num_evicted > 0 else 1):
            at = first_startable(s, jobs, request_class, evicted == 1)
            while at != NOBODY and at < end:
                job = s.queue[at]
                if (s.evicted[job] == EVICTED) == (evicted == 1) and s.last_action_instant[job] != s.instant:
                    out[count] = job
                    count += 1
                at += 1
    return count


@compiled
def is_queued(s, job):
    """Return whether a number is that of a queued job."""
    return 0 <= job < s.num_arrived and s.phase[job] == QUEUED


@entry
def keep_queued(states, e, some, others, out):
    """List those of some jobs that are queued; return their number, or NOBODY if not all that are queued are listed.

    others: jobs that may be queued without being listed.
    """
    s = states[e]
    count, unlisted = 0, 0
    for job in some:
        if is_queued(s, job):
            out[count] = job
            count += 1
    for job in others:
        unlisted += is_queued(s, job)
    return count if count + unlisted == s.num_queued else NOBODY


@entry
def may_any_start(states, e, jobs):
    """Return whether a queued job fits where the placement rule puts it, and may start now."""
    return may_start(states[e], jobs)


@compiled
def waits_for_gpus(s, jobs):
    """Return whether a queued job asks for GPUs while another job runs."""
    waits, runs = False, False
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] > 0 and jobs[s.queue[s.queue_start[request_class]]].num_gpus > 0:
            waits = True
    for k in range(s.num_active):
        runs |= s.phase[s.events[k]] == RUNNING
    return waits and runs


@compiled
def has_to_start(s, jobs):
    """Return whether the policy may not wait: nothing is pending, a job could start, and no claims bar others."""
    return events.next_event(s, jobs) == np.inf and not claims_bar(s) and may_start(s, jobs)


@entry
def must_start(states, e, jobs):
    """Return whether the policy may not wait; see `has_to_start`."""
    return has_to_start(states[e], jobs)


@compiled
def note_wait(s, jobs, seconds):
    """Record that the policy waits for at most `seconds` (NaN: without limit); return whether that is legal.

    If nothing is pending, the next instant follows at the current time: claims are void then, and jobs that were paused
    at this instant may start.
    """
    if has_to_start(s, jobs):
        return False
    if np.isnan(seconds):
        is_pending = events.next_event(s, jobs) < np.inf
        seconds = np.inf if is_pending else 0.0
    s.wake = s.clock + seconds
    return True


@entry
def wait(states, e, jobs, seconds):
    """Record that the policy waits; see `note_wait`."""
    return note_wait(states[e], jobs, seconds)


@entry
def first_unknown(jobs, arrived):
    """Return the position of the first job in a list that has not arrived; the length of the list if all have."""
    for k in range(len(jobs)):
        if jobs[k] < 0 or jobs[k] >= arrived:
            return k
    return len(jobs)
