"""Room for a job that does not fit: which jobs to pause for it, and which GPUs it then gets.

A gang that some node could hold stays on one; a larger one takes whole nodes of the largest size and the rest of its
GPUs on one more, as the placement rules do where nodes are alike. Room is exact on one node; a gang on several takes
the best node for each part. Only what a view shows is read: profiles and estimates, no truth.
"""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, MAX_SHARE, NOBODY, PAUSING, SERVER_CORES
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold
from gpu_cluster_gym.simulator.kernel.cluster.queues import loading_time, remaining_now

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


# FROM simulator/kernel/cluster/knapsack.py
# Which jobs to pause so that enough GPUs come free, at the least cost.


COST, SIZE, LEFT = range(
    3
)  # of a set of jobs: what it costs, how many they are, and what they have left in sum


@compiled
def is_less(best, k, cost, size, left):
    """Tell whether what costs so much, has so many jobs, and most left, is better than the k-th of the best sets."""
    if cost != best[k, COST]:
        return cost < best[k, COST]
    if size != best[k, SIZE]:
        return size < best[k, SIZE]
    return left > best[k, LEFT]


@compiled
def cheapest_in(wanted, offered, offers_gpus, own_cost, own_left, best, sets):
    """Find the cheapest of all sets of the jobs offered that free so many GPUs; return its number, 0 if there is none.

    A knapsack: `best[k]` and the first `best[k, SIZE]` of `sets[k]` are the best set that frees k GPUs, the last one at
    least so many. The best of several costs least, has fewest jobs, and most left in sum.
    """
    for k in range(wanted + 1):
        best[k, COST], best[k, SIZE], best[k, LEFT] = np.inf, 0.0, 0.0
    best[0, COST] = 0.0
    for at in range(len(offered)):
        for freed in range(wanted - 1, -1, -1):
            if best[freed, COST] == np.inf:
                continue
            total, size = min(freed + offers_gpus[at], wanted), int(best[freed, SIZE])
            cost, left = best[freed, COST] + own_cost[at], best[freed, LEFT] + own_left[at]
            if is_less(best, total, cost, size + 1.0, left):
                best[total, COST], best[total, SIZE], best[total, LEFT] = cost, size + 1.0, left
                for k in range(size):
                    sets[total, k] = sets[freed, k]
                sets[total, size] = offered[at]
    return int(best[wanted, SIZE])


@allocating
def cheapest(wanted, offered, offers_gpus, own_cost, own_left, victims):
    """Find the cheapest of all sets of the jobs offered that free so many GPUs; return their number, cost and rest.

    They are noted in `victims`; their number is 0 where none does. Jobs are offered the last first, each with the GPUs
    it would free, its cost and what it has left.
    """
    best, sets = np.empty((wanted + 1, 3)), np.empty((wanted + 1, wanted + 1), np.int32)
    count = cheapest_in(wanted, offered, offers_gpus, own_cost, own_left, best, sets)
    for k in range(count):
        victims[k] = sets[wanted, k]
    return count, best[wanted, COST], best[wanted, LEFT]


# FROM simulator/kernel/rankings/pausing_for.py
# What a policy asks before it pauses jobs for another: which it could, which cost least, how long it waits else.


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
