"""Search for GPUs for a job that does not fit: which jobs to pause at minimum cost, and how long it waits otherwise.

A gang that some node could hold stays on one node. A larger gang takes whole nodes of the largest size and the
rest of its GPUs on one more, as the placement rules do. The search is exact on one node; a gang on several
nodes takes the best node for each part. Only what a view shows is read: profiles and estimates.
"""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    LOADING,
    MAX_SHARE,
    NO_BORROWING,
    NOBODY,
    PAUSING,
    RESTARTING,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone, is_free
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold
from gpu_cluster_gym.simulator.kernel.cluster.queues import loading_time, remaining_now
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_be_displaced_for, most_gpus, rest_of_quota

EPS = 1e-6  # tolerance for sums of cores
COST, SIZE, LEFT = range(3)  # of a set of jobs: total cost, number of jobs, total tie-breaker


class Pool(NamedTuple):
    """Resources that could be freed for a job.

    offered: whether each job may be paused, bool.
    cost: of pausing each job.
    left: tie-breaker of each job; among equal sets the one with the largest sum is taken.
    cores: cores of each node available without a pause; infinity if they do not matter.
    awaits: whether GPUs that pauses in flight will free may be taken.
    most: maximum number of GPUs to take that are held neither by the pool nor by the tenant's pausing jobs.
    tenant: whose GPUs these are to be.
    """

    offered: np.ndarray
    cost: np.ndarray
    left: np.ndarray
    cores: np.ndarray
    awaits: bool
    most: int
    tenant: int


@compiled
def is_coming(s, gpu):
    """Return whether a pause in flight will free a GPU that is not reserved."""
    job = s.first_owner[gpu]
    return (
        job != NOBODY
        and s.phase[job] == PAUSING
        and s.reserved_for[gpu] == NOBODY
        and s.num_jobs_on[gpu] <= 1
    )


@compiled
def is_own(s, pool, gpu):
    """Return whether a pause in flight of a job of the pool's tenant will free a GPU."""
    return is_coming(s, gpu) and s.tenant[s.first_owner[gpu]] == pool.tenant


@compiled
def is_offered(s, pool, gpu):
    """Return whether pausing a job of the pool would free a GPU."""
    job = s.first_owner[gpu]
    return job != NOBODY and s.reserved_for[gpu] == NOBODY and pool.offered[job]


@compiled
def held_on(s, pool, node, job):
    """Return the number of GPUs of a node that a job would free."""
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        count += s.first_owner[gpu] == job and is_offered(s, pool, gpu)
    return count


@compiled
def is_among(jobs, count, job):
    """Return whether a job is among the first `count` of a list."""
    for k in range(count):
        if jobs[k] == job:
            return True
    return False


@allocating
def list_offers(s, pool, node, victims, num_victims):
    """Return the jobs of the pool on a node, except victims, in descending order, and the GPUs that each would free."""
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
    """Return the cores of a node that are available once these victims are paused."""
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
    """Return for each node whether its GPUs have enough memory for a job."""
    able = np.zeros(s.num_nodes, np.bool_)
    for node in range(s.num_nodes):
        able[node] = can_hold(s, jobs, job, node)
    return able


@allocating
def part_on(s, pool, node, wanted, victims, num_victims, spare):
    """Append the cheapest further victims that free `wanted` GPUs of a node, of which `spare` may be anybody's.

    Returns their number, cost, tie-breaker, and the number of GPUs that are not free yet; infinite cost if
    impossible.
    """
    there, free, own = 0, 0, 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        free += is_free(s, gpu)
        there += is_free(s, gpu) or (pool.awaits and is_coming(s, gpu))
        own += pool.awaits and is_own(s, pool, gpu)
    there = min(there - own, spare) + own
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
def take_gpus(s, pool, node, wanted, victims, gpus, spare):
    """Write GPUs of a node: free ones, those that come free, then those of each victim.

    Return their number, and how many of the `spare` ones are left.
    """
    count = 0
    first, end = s.node_first[node], s.node_first[node] + s.node_gpus[node]
    for gpu in range(first, end):
        if count < wanted and spare > 0 and is_free(s, gpu):
            gpus[count] = gpu
            count += 1
            spare -= 1
    for gpu in range(first, end):
        if count < wanted and pool.awaits and is_coming(s, gpu):
            own = is_own(s, pool, gpu)
            if own or spare > 0:
                gpus[count] = gpu
                count += 1
                spare -= not own
    for victim in victims:
        for gpu in range(first, end):
            if count < wanted and s.first_owner[gpu] == victim and is_offered(s, pool, gpu):
                gpus[count] = gpu
                count += 1
    return count, spare


@allocating
def best_node(s, pool, able, wanted, each, victims, num_victims, spare):
    """Find the node on which `wanted` GPUs with `each` cores per GPU cost least, `spare` of them anybody's.

    Ties: fewest victims, then the largest tie-breaker, fewest GPUs to wait for, lowest index. Returns the node,
    or NOBODY, and the number of victims including the new ones, which are appended to the list.
    """
    best, count = NOBODY, 0
    least = (np.inf, 0, 0.0, 0)
    found = victims.copy()
    for node in range(s.num_nodes):
        if not able[node] or s.node_gpus[node] < wanted:
            continue
        size, cost, left, awaited = part_on(s, pool, node, wanted, found, num_victims, spare)
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
    """Find `wanted` GPUs on these nodes and victims to pause; return the number of victims and the minimum GiB per GPU.

    each: cores that every GPU must find. The number is -1 if there is no solution. `able` is overwritten.
    """
    memory = np.inf
    num_victims, count = 0, 0
    largest = largest_of(s, able)
    spare = pool.most
    while count < wanted:
        part = min(wanted - count, largest)
        node, num_victims = best_node(s, pool, able, part, each, victims, num_victims, spare)
        if node == NOBODY:
            return -1, memory
        able[node] = False
        taken, spare = take_gpus(s, pool, node, part, victims[:num_victims], gpus[count:], spare)
        count += taken
        memory = min(memory, s.node_memory[node])
    return num_victims, memory


@compiled
def is_less(best, k, cost, size, left):
    """Return whether a set with this cost, size and tie-breaker is better than the k-th of the best sets."""
    if cost != best[k, COST]:
        return cost < best[k, COST]
    if size != best[k, SIZE]:
        return size < best[k, SIZE]
    return left > best[k, LEFT]


@compiled
def cheapest_in(wanted, offered, offers_gpus, own_cost, own_left, best, sets):
    """Find the cheapest set of the offered jobs that frees at least `wanted` GPUs; return its size, 0 if there is none.

    A knapsack by dynamic programming: `best[k]` and the first `best[k, SIZE]` elements of `sets[k]` are the
    best set that frees k GPUs, for the last k at least that many. Among equal costs the smallest set wins, then
    the largest tie-breaker.
    """
    for k in range(wanted + 1):
        best[k, COST], best[k, SIZE], best[k, LEFT] = np.inf, 0.0, 0.0
    best[0, COST] = 0.0
    for at in range(len(offered)):
        # Descending, so that each job is used once.
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
    """Find the cheapest set of offered jobs that frees at least `wanted` GPUs; return its size, cost and tie-breaker.

    The set is written to `victims`; its size is 0 if there is none. Jobs are offered in descending order, each
    with the GPUs that it would free, its cost and its tie-breaker.
    """
    best, sets = np.empty((wanted + 1, 3)), np.empty((wanted + 1, wanted + 1), np.int32)
    count = cheapest_in(wanted, offered, offers_gpus, own_cost, own_left, best, sets)
    for k in range(count):
        victims[k] = sets[wanted, k]
    return count, best[wanted, COST], best[wanted, LEFT]


@allocating
def cores_to_serve(s, each):
    """Return the unreserved cores of each node; infinity if none are needed, or cores are not limited."""
    if each > 0 and s.cpu_limited:
        return s.unreserved_cores[: s.num_nodes].copy()
    return np.full(s.num_nodes, np.inf)


@allocating
def offered_of(s, candidates, job):
    """Return for each arrived job whether it is among the candidates, and may be paused for a job (NOBODY: any)."""
    offered = np.zeros(s.num_arrived, np.bool_)
    for candidate in candidates:
        offered[candidate] = job == NOBODY or may_be_displaced_for(s, candidate, job)
    return offered


@compiled
def is_displaceable(s, jobs, job):
    """Return whether pausing a job would free GPUs now: it has run since before this instant, and shares none."""
    return may_pause(s, job) and jobs[job].num_gpus > 0 and is_alone(s, job)


@entry
def displaceable(states, e, jobs, out):
    """List the jobs whose pause would free GPUs now in ascending order; return their number."""
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
    """Return the seconds until an active job releases its GPUs, by its estimate."""
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
    """Return the seconds until each GPU is free; a reserved GPU is free when its next job ends."""
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
def efforts(states, e, jobs, some, out):
    """Write the effort of each of some jobs."""
    for k in range(len(some)):
        out[k] = effort_of(states[e], jobs, some[k])


@entry
def by_effort(states, e, jobs, some, out):
    """Sort some jobs by effort, stable."""
    key = np.empty(len(some))
    for k in range(len(some)):
        key[k] = effort_of(states[e], jobs, some[k])
    out[:] = some[np.argsort(key, kind="mergesort")]


@compiled
def comes_before(seconds, job, least, first):
    """Return whether a job precedes another: less effort, or equal effort and a lower index."""
    return seconds < least or (seconds == least and job < first)


@compiled
def all_cost(s, jobs):
    """Return whether pausing and loading takes time for each job whose pause would free GPUs now."""
    for k in range(s.num_active):
        job = s.events[k]
        if is_displaceable(s, jobs, job) and jobs[job].pause_s + jobs[job].load_s == 0:
            return False
    return True


@compiled
def are_free_by(free_s, wanted, until):
    """Return whether `wanted` GPUs are free before a time."""
    count = 0
    for seconds in free_s:
        count += seconds < until
    return count >= wanted


@allocating
def wait_of(s, jobs, job):
    """Return the estimated seconds until a job could start if no other job were started or paused; or infinity."""
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
    return max(latest, wait_for_quota(s, jobs, job))


@allocating
def wait_for_quota(s, jobs, job):
    """Return the estimated seconds until a job is within its tenant's quota; 0 with borrowing."""
    excess = jobs[job].num_gpus - most_gpus(s, jobs, job)
    if excess <= 0 or s.num_tenants == 0 or s.borrowing != NO_BORROWING:
        return 0.0
    ends, gpus = np.empty(s.num_active), np.empty(s.num_active, np.int64)
    count = 0
    for k in range(s.num_active):
        other = s.events[k]
        if s.tenant[other] == s.tenant[job] and s.width[other] > 0 and s.phase[other] != RESTARTING:
            ends[count], gpus[count] = ends_in(s, jobs, other), s.width[other]
            count += 1
    for at in np.argsort(ends[:count]):
        excess -= gpus[at]
        if excess <= 0:
            return ends[at]
    return np.inf


@entry
def wait_for_room(states, e, jobs, job):
    """Return the seconds until a job could start; see `wait_of`."""
    return wait_of(states[e], jobs, job)


@compiled
def first_blocked(s, jobs, some):
    """Return the GPU job with the least effort among some jobs, and its effort.

    Jobs that were paused at this instant do not count. Returns NOBODY if there is none, or if a job with less effort
    has GPUs reserved.
    """
    first, least = NOBODY, np.inf
    for job in some:
        if jobs[job].num_gpus > 0 and s.last_action_instant[job] != s.instant:
            seconds = effort_of(s, jobs, job)
            if first == NOBODY or comes_before(seconds, job, least, first):
                first, least = job, seconds
    if first == NOBODY:
        return NOBODY, least
    for gpu in range(s.num_gpus):
        job = s.reserved_for[gpu]
        if (
            job >= 0
            and s.tenant[job] == s.tenant[first]
            and comes_before(effort_of(s, jobs, job), job, least, first)
        ):
            return NOBODY, least
    return first, least


@entry
def displacement(states, e, jobs, some, cost, least_run_s, least_gain_s, gpus):
    """Find the first job of some that waits for GPUs, and the jobs to pause for it at minimum cost.

    cost: of pausing each job. least_run_s: for which a job to pause has run. least_gain_s: if pauses take time, the
    search ends unless the job's wait for natural ends exceeds its effort by more than this.
    Returns the job (`first_blocked`), its effort, its wait (NaN unless it was needed), the number of jobs to pause, -1
    for no solution, and the minimum GiB of the GPUs. The jobs to pause are written to the record's `victims`, the GPUs
    to `gpus`.
    """
    s = states[e]
    job, effort = first_blocked(s, jobs, some)
    wait = np.nan
    if job == NOBODY:
        return NOBODY, effort, wait, -1, np.inf
    if all_cost(s, jobs):
        wait = wait_of(s, jobs, job)
        if wait - effort <= least_gain_s:
            return job, effort, wait, -1, np.inf
    count, memory = cheapest_room(s, jobs, job, effort, cost, least_run_s, gpus)
    for k in range(count):
        victim = s.victims[k]
        if np.isnan(wait) and jobs[victim].pause_s + jobs[victim].load_s > 0:
            wait = wait_of(s, jobs, job)
    return job, effort, wait, count, memory


@allocating
def cheapest_room(s, jobs, job, effort, cost, least_run_s, gpus):
    """Find jobs with more remaining time than a job's effort whose pauses free GPUs for it; see `displacement`."""
    offered, left = np.zeros(s.num_arrived, np.bool_), np.zeros(s.num_arrived)
    found = False
    for k in range(s.num_active):
        other = s.events[k]
        if not is_displaceable(s, jobs, other) or s.clock - s.phase_began[other] < least_run_s:
            continue
        left[other] = remaining_now(s, jobs, other)
        if left[other] > effort:
            offered[other], found = may_be_displaced_for(s, other, job), True
    if not found:
        return -1, np.inf
    each = cores_of_servers(s.servers[job], s.workers[job], s.width[job])
    most, cores = most_gpus(s, jobs, job), cores_to_serve(s, each)
    pool = Pool(offered, cost, left, cores, False, most, s.tenant[job])
    return find_room(s, pool, holding_nodes(s, jobs, job), jobs[job].num_gpus, each, s.victims, gpus)


@entry
def room_by_one(states, e, jobs, order, candidates, gpus):
    """Find the first job that fits on one node if a single other job is paused; return both, or NOBODY.

    The first suitable candidate is taken. The GPUs are written, the candidate's first.
    """
    s = states[e]
    offered, cores = offered_of(s, candidates, NOBODY), cores_to_serve(s, 1.0)
    pool = Pool(offered, np.zeros(1), np.zeros(1), cores, False, s.num_gpus, NOBODY)
    s.exhausted[: s.num_classes] = 0
    for job in order:
        request_class, each = (
            jobs[job].request_class,
            cores_of_servers(s.servers[job], s.workers[job], s.width[job]),
        )
        if s.last_action_instant[job] == s.instant or s.exhausted[request_class]:
            continue
        for victim in candidates:
            if not may_be_displaced_for(s, victim, job):
                continue
            node = node_freed(s, jobs, pool, job, victim, each)
            if node != NOBODY:
                take_with(s, pool, node, victim, gpus)
                return job, victim
        s.exhausted[request_class] = each == 0  # cores of servers are not part of a request class
    return NOBODY, NOBODY


@compiled
def node_freed(s, jobs, pool, job, victim, each):
    """Return the first node on which a job fits once the victim is paused, or NOBODY.

    each: cores per GPU for the job's parameter servers.
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
    """Return whether pausing a victim leaves `wanted` GPUs of a node free, with `each` cores per GPU for servers."""
    held = held_on(s, pool, node, victim)
    if held == 0 or held + s.free[node] < wanted:
        return False
    # The victim is of the job's own tenant.
    if s.num_tenants > 0 and wanted - held > rest_of_quota(s, s.tenant[victim]):
        return False
    gained = held * (s.core_count[victim] - 1)
    return each == 0 or pool.cores[node] + gained + EPS >= each * wanted


@compiled
def take_with(s, pool, node, victim, gpus):
    """Write the GPUs of a node that the victim holds, then the free ones."""
    count = 0
    for freed in (True, False):
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            own = s.first_owner[gpu] == victim and is_offered(s, pool, gpu)
            if own if freed else is_free(s, gpu):
                gpus[count] = gpu
                count += 1
