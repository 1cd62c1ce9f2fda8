"""What a policy asks before it pauses jobs for another: which it could, which cost least, how long it waits else."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, MAX_SHARE, NOBODY, PAUSING, SERVER_CORES
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold
from gpu_cluster_gym.simulator.kernel.cluster.queues import loading_time, remaining_now
from gpu_cluster_gym.simulator.kernel.rankings.room import (
    EPS,
    Pool,
    find_room,
    held_on,
    holding_nodes,
    is_free,
    is_offered,
    largest_of,
)


@compiled
def cores_of_servers_now(s, job):
    """Return the cores beside each GPU that a queued job asks for its parameter servers."""
    gpus = s.width[job]
    return SERVER_CORES * s.servers[job] / gpus if gpus > 0 and gpus == s.workers[job] else 0.0


@allocating
def cores_to_serve(s, each):
    """Return the unreserved cores of each node; infinite where none are needed, or all are there."""
    if each > 0 and s.cpu_limited:
        return s.unreserved_cores[: s.num_nodes].copy()
    return np.full(s.num_nodes, np.inf)


@allocating
def offered_of(s, candidates):
    """Return of each job that has arrived whether it is among some."""
    offered = np.zeros(s.num_arrived, np.bool_)
    for job in candidates:
        offered[job] = True
    return offered


@entry
def room_for(states, e, jobs, job, candidates, cost, gpus):
    """Find the candidates whose pauses cost least in sum and make room for a job; return how many, and the least GiB.

    cost: of pausing each job. The number is -1 where there is no room. Victims are written into `victims` of the
    record, the GPUs into `gpus`.
    """
    s = states[e]
    left = np.zeros(s.num_arrived)
    for candidate in candidates:
        left[candidate] = remaining_now(s, jobs, candidate)
    each = cores_of_servers_now(s, job)
    pool = Pool(offered_of(s, candidates), cost, left, cores_to_serve(s, each), False)
    able = holding_nodes(s, jobs, job)
    return find_room(s, pool, able, jobs[job].num_gpus, each, s.victims, gpus)


@compiled
def is_displaceable(s, jobs, job):
    """Tell whether a job's pause would free GPUs now: it runs since before, and shares none."""
    return may_pause(s, job) and jobs[job].num_gpus > 0 and is_alone(s, job)


@entry
def displaceable(states, e, jobs, out):
    """List the jobs whose pause would free GPUs now: they run since before, and share none; return their number."""
    s = states[e]
    count = 0
    for k in range(s.num_active):
        job = s.events[k]
        if is_displaceable(s, jobs, job):
            out[count] = job
            count += 1
    out[:count].sort()
    return count


@compiled
def ends_in(s, jobs, job):
    """Return the seconds until an active job gives its GPUs up, by its estimate."""
    if s.phase[job] == PAUSING:
        return s.phase_began[job] + jobs[job].pause_s - s.clock
    left = remaining_now(s, jobs, job)
    if s.phase[job] == LOADING:
        left += s.phase_began[job] + s.loading_s[job] - s.clock
    return left


@compiled
def effort_of(s, jobs, job):
    """Return the seconds that a job would hold GPUs from its start to its end."""
    return remaining_now(s, jobs, job) + loading_time(s, jobs, job)


@allocating
def free_in(s, jobs):
    """Return the seconds until each GPU is free; a reserved one is when its next job ends."""
    free_s, latest = np.zeros(s.num_gpus), np.full(s.num_arrived, -np.inf)
    for gpu in range(s.num_gpus):
        if s.first_owner[gpu] != NOBODY:
            free_s[gpu] = ends_in(s, jobs, s.first_owner[gpu])
        if s.reserved_for[gpu] >= 0:
            latest[s.reserved_for[gpu]] = max(latest[s.reserved_for[gpu]], free_s[gpu])
    for gpu in range(s.num_gpus):
        if s.reserved_for[gpu] >= 0:
            free_s[gpu] = latest[s.reserved_for[gpu]] + effort_of(s, jobs, s.reserved_for[gpu])
    return free_s


@entry
def by_effort(states, e, jobs, some, out):
    """Write some jobs in the order of these seconds, equal ones as they come."""
    key = np.empty(len(some))
    for k in range(len(some)):
        key[k] = effort_of(states[e], jobs, some[k])
    out[:] = some[np.argsort(key, kind="mergesort")]


@compiled
def comes_before(seconds, job, least, first):
    """Tell whether a job of some effort comes before another: it needs less, or the same and has been there longer."""
    return seconds < least or (seconds == least and job < first)


@entry
def all_cost(states, e, jobs):
    """Tell whether it takes time to pause and load each job whose pause would free GPUs now."""
    s = states[e]
    for k in range(s.num_active):
        job = s.events[k]
        if is_displaceable(s, jobs, job) and jobs[job].pause_s + jobs[job].load_s == 0:
            return False
    return True


@compiled
def are_free_by(free_s, wanted, until):
    """Tell whether so many GPUs are free before a time."""
    count = 0
    for seconds in free_s:
        count += seconds < until
    return count >= wanted


@allocating
def wait_of(s, jobs, job):
    """Return the seconds until a job could start by the estimates, if no other is started or paused; or infinity."""
    free_s, able = free_in(s, jobs), holding_nodes(s, jobs, job)
    largest = largest_of(s, able)
    latest = 0.0
    missing = jobs[job].num_gpus
    while missing > 0:
        part = min(missing, largest)
        best, least = NOBODY, np.inf
        for node in range(s.num_nodes):
            if not able[node] or s.node_gpus[node] < part:
                continue
            here = free_s[s.node_first[node] : s.node_first[node] + s.node_gpus[node]]
            if best == NOBODY or are_free_by(here, part, least):
                best, least = node, np.sort(here)[part - 1]
        if best == NOBODY:
            return np.inf
        able[best] = False
        latest = max(latest, least)
        missing -= part
    return latest


@entry
def wait_for_room(states, e, jobs, job):
    """Return the seconds until a job could start; see `wait_of`."""
    return wait_of(states[e], jobs, job)


@entry
def first_blocked(states, e, jobs, some):
    """Return which of some jobs with GPUs comes first by effort, its effort, and how long it waits for room, s.

    NOBODY if there is none, or one that comes before it has GPUs kept.
    """
    s = states[e]
    first, least = NOBODY, np.inf
    for job in some:
        if jobs[job].num_gpus > 0:
            seconds = effort_of(s, jobs, job)
            if first == NOBODY or comes_before(seconds, job, least, first):
                first, least = job, seconds
    if first == NOBODY:
        return NOBODY, least, np.inf
    for gpu in range(s.num_gpus):
        job = s.reserved_for[gpu]
        if job >= 0 and comes_before(effort_of(s, jobs, job), job, least, first):
            return NOBODY, least, np.inf
    return first, least, wait_of(s, jobs, first)


@entry
def room_by_one(states, e, jobs, order, candidates, gpus):
    """Find the first job for which the pause of one other makes room on one node; return it and the other, or NOBODY.

    The first candidate that will do is taken. The GPUs are written, the candidate's first.
    """
    s = states[e]
    pool = Pool(offered_of(s, candidates), np.zeros(1), np.zeros(1), cores_to_serve(s, 1.0), False)
    s.exhausted[: s.num_classes] = 0
    for job in order:
        request_class, each = jobs[job].request_class, cores_of_servers_now(s, job)
        if s.last_action_instant[job] == s.instant or s.exhausted[request_class]:
            continue
        for victim in candidates:
            node = node_freed(s, jobs, pool, job, victim, each)
            if node != NOBODY:
                take_with(s, pool, node, victim, gpus)
                return job, victim
        s.exhausted[request_class] = each == 0  # its cores are not part of what a class asks for
    return NOBODY, NOBODY


@compiled
def node_freed(s, jobs, pool, job, victim, each):
    """Return the first node on which a job fits, with so many cores for servers beside each GPU, once another pauses.

    NOBODY if there is none.
    """
    first, end = 0, s.num_nodes
    if s.span[victim] == 1:
        first = s.gpu_node[s.first_slot[victim] // MAX_SHARE]
        end = first + 1
    for node in range(first, end):
        if can_hold(s, jobs, job, node) and frees(s, pool, node, victim, jobs[job].num_gpus, each):
            return node
    return NOBODY


@compiled
def frees(s, pool, node, victim, wanted, each):
    """Tell whether a job's pause leaves so many GPUs of a node free, with so many cores for servers beside each."""
    held = held_on(s, pool, node, victim)
    if held == 0 or held + s.free[node] < wanted:
        return False
    gained = held * (s.core_count[victim] - 1)
    return each == 0 or pool.cores[node] + gained + EPS >= each * wanted


@compiled
def take_with(s, pool, node, victim, gpus):
    """Write the GPUs of a node that a job holds, then the free ones."""
    count = 0
    for freed in (True, False):
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            own = s.first_owner[gpu] == victim and is_offered(s, pool, gpu)
            if own if freed else is_free(s, gpu):
                gpus[count] = gpu
                count += 1
