"""Grants of shapes: the GPUs, or the CPU cores of a node, that each job of an order gets after all jobs before it.

A job that already has what it requests keeps it. Otherwise it is placed on the node where it displaces the fewest
others, and among those where least is left, its own GPUs first. Jobs with parameter servers, which are as fast wherever
their workers are, and jobs larger than any node are spread where one node has no space.

Of the GPUs of a node, free ones are granted first, then those that pauses in flight will free, then those of the jobs
that come last; only GPUs that no other job shares and that are reserved for none.
"""

from typing import Any, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    LOADING,
    MAX_SHARE,
    NOBODY,
    OPEN,
    PAUSING,
    RESERVED,
    RUNNING,
    SERVER_CORES,
    WORKER_CORES,
)
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold, holding_groups, largest_node, may_use
from gpu_cluster_gym.simulator.kernel.cluster.plan import Fields
from gpu_cluster_gym.simulator.kernel.union.job_shapes import iteration_seconds

ROUNDING = 1e-6  # of sums of cores
MAX_REFUSED = 16  # refused requests that are remembered, each smaller in some way than those before it
NOT_OPEN, FREE, AWAITED, HELD = range(4)  # whether a GPU may be granted, and where it comes from
NOT_LISTED, FIRST, LAST = range(3)  # place of a job's current shape among those that it requests

FIELDS: Fields = (
    # requests: the shapes that would do for a job, the best first
    ("request_workers", "i4", ("jobs",)),  # of the first; each further shape has one less
    ("request_servers", "i4", ("jobs",)),
    ("min_workers", "i4", ("jobs",)),  # of the last
    (
        "max_iteration_s",
        "f8",
        ("jobs",),
    ),  # longest iteration for which CPU workers are requested; 0 for no CPU workers
    ("own_shape", "i1", ("jobs",)),  # NOT_LISTED, FIRST or LAST
    (
        "servers_on_gpus",
        "i1",
    ),  # whether parameter servers have GPUs of their own, or cores of their workers' nodes
    # the order in which jobs are granted shapes, and jobs that may be displaced
    ("num_order", "i8"),
    ("order", "i4", ("jobs",)),
    ("place", "i4", ("jobs",)),  # of each job in this order
    ("may_move", "i1", ("jobs",)),
    # GPUs and cores that can still be granted
    ("kind", "i1", ("gpus",)),  # NOT_OPEN, FREE, AWAITED or HELD
    ("open", "i4", ("gpus",)),  # GPUs that may be granted, by node, in the order in which they are taken
    ("num_open", "i4", ("nodes",)),
    ("num_free", "i4", ("nodes",)),
    ("taken", "i1", ("gpus",)),
    ("num_left", "i8"),  # GPUs
    ("cores_left", "f8", ("nodes",)),  # beyond one for each GPU
    ("spread_left", "f8", ("nodes",)),  # scratch: the same, of a job that is spread
    ("marked", "i8", ("jobs",)),  # scratch: jobs that have been counted as displaced
    ("mark", "i8"),
    ("num_own", "i8"),
    ("own", "i4", ("gpus",)),  # GPUs that the job in question holds
    ("num_found", "i8"),
    ("found", "i4", ("gpus",)),
    ("found_node", "i8"),
    # requests that found no space in this pass: GPUs, cores for each, GiB, and whether they might be spread
    ("num_refused", "i8"),
    ("refused_gpus", "i4", (MAX_REFUSED,)),
    ("refused_cores", "f8", (MAX_REFUSED,)),
    ("refused_groups", "i8", (MAX_REFUSED,)),  # those that can hold the job, as bits
    ("refused_spread", "i1", (MAX_REFUSED,)),
    # grants
    ("is_granted", "i1", ("jobs",)),
    ("keeps", "i1", ("jobs",)),  # whether the grant is what the job has
    ("grant_workers", "i4", ("jobs",)),
    ("grant_servers", "i4", ("jobs",)),
    ("grant_apart", "i1", ("jobs",)),
    ("grant_node", "i4", ("jobs",)),
    ("grant_first", "i4", ("jobs",)),  # of its GPUs in `granted`
    ("grant_gpus", "i4", ("jobs",)),  # their number
    ("num_granted", "i8"),
    ("granted", "i4", ("gpus",)),
)


# Shapes.


class Shape(NamedTuple):
    """Shape of a job: numbers of workers and servers, whether workers are on CPU cores, whether servers have GPUs."""

    workers: Any
    servers: Any
    on_cpu: Any
    apart: Any


@compiled
def gpus_of(shape):
    """Return the number of GPUs of a shape."""
    if shape.on_cpu:
        return 0
    return shape.workers + shape.servers if shape.apart else shape.workers


@compiled
def is_same(a, b):
    """Return whether two shapes are the same."""
    alike = a.workers == b.workers and a.servers == b.servers
    return alike and a.on_cpu == b.on_cpu and a.apart == b.apart


@compiled
def is_coming(s, job):
    """Return whether a job waits for the GPUs of its next shape."""
    return s.phase[job] == RESERVED or s.moves[job] > 0


@compiled
def gpus_now(s, job):
    """Return the number of GPUs that an active job has, or will have; 0 for others."""
    if s.phase[job] < RESERVED or s.phase[job] > PAUSING:
        return 0
    return np.int64(s.next_width[job]) if is_coming(s, job) else np.int64(s.width[job])


@compiled
def shape_now(s, job):
    """Return the shape of a job that runs, or waits for GPUs."""
    gpus = gpus_now(s, job)
    if is_coming(s, job):
        workers, servers = np.int64(s.next_workers[job]), np.int64(s.next_servers[job])
    else:
        workers, servers = np.int64(s.workers[job]), np.int64(s.servers[job])
    return Shape(workers, servers, gpus == 0, gpus > workers)


@compiled
def nth_request(m, job, fewer, on_cpu):
    """Return the requested shape of a job with some workers fewer than the first."""
    servers = np.int64(m.request_servers[job])
    apart = m.servers_on_gpus > 0 and servers > 0 and not on_cpu
    return Shape(np.int64(m.request_workers[job]) - fewer, servers, on_cpu, apart)


@compiled
def first_request(s, m, job):
    """Return the shape that a job requests before any other."""
    if m.own_shape[job] == FIRST:
        return shape_now(s, job)
    return nth_request(m, job, 0, False)


@compiled
def feeding_cores(jobs, job):
    """Return the cores that a job requests for each GPU, without those of its servers."""
    return max(jobs[job].cores_each - SERVER_CORES * jobs[job].servers / max(jobs[job].num_gpus, 1), 1.0)


@compiled
def cores_for(jobs, job, shape):
    """Return the cores that a job requests in a shape: for each GPU, or as a whole on CPU workers."""
    if shape.on_cpu:
        return WORKER_CORES * shape.workers + SERVER_CORES * shape.servers
    if shape.apart:
        return feeding_cores(jobs, job)
    return feeding_cores(jobs, job) + SERVER_CORES * shape.servers / shape.workers


@compiled
def cores_now(s, job):
    """Return the cores that an active job holds for each GPU, or as a whole."""
    return s.core_count[job] if LOADING <= s.phase[job] <= PAUSING else 0.0


# What can be granted.


@compiled
def kind_of(s, m, gpu):
    """Return whether a GPU may be granted, and where it comes from."""
    job = s.first_owner[gpu]
    if s.reserved_for[gpu] != NOBODY or s.num_jobs_on[gpu] > 1:
        return NOT_OPEN
    if job == NOBODY:
        return FREE
    if m.may_move[job]:
        return HELD
    return AWAITED if s.phase[job] == PAUSING else NOT_OPEN


@compiled
def place_of(s, m, gpu):
    """Return the place in the order of the job that would lose a GPU; one behind the last if there is none."""
    return m.place[s.first_owner[gpu]] if m.kind[gpu] == HELD else m.num_order


@compiled
def is_taken_before(s, m, a, b):
    """Return whether one GPU of a node is taken before another."""
    if m.kind[a] != m.kind[b]:
        return m.kind[a] < m.kind[b]
    first, second = place_of(s, m, a), place_of(s, m, b)
    return a < b if first == second else first > second


@compiled
def open_node(s, m, node):
    """List the GPUs of a node that may be granted, in the order in which they are taken."""
    begin, count = s.node_first[node], 0
    m.num_free[node] = 0
    for gpu in range(begin, begin + s.node_gpus[node]):
        m.taken[gpu] = 0
        m.kind[gpu] = kind_of(s, m, gpu)
        if m.kind[gpu] == NOT_OPEN:
            continue
        m.num_free[node] += m.kind[gpu] == FREE
        at = count
        while at > 0 and is_taken_before(s, m, gpu, m.open[begin + at - 1]):
            m.open[begin + at] = m.open[begin + at - 1]
            at -= 1
        m.open[begin + at] = gpu
        count += 1
    m.num_open[node] = count
    m.num_left += count


@compiled
def stays(s, m, job):
    """Return whether an active job keeps what it has."""
    return (s.phase[job] == LOADING or s.phase[job] == RUNNING) and not m.may_move[job]


@compiled
def count_cores_left(s, jobs, m):
    """Count the cores of each node beyond one for each GPU, less those of jobs that stay and of reservations."""
    for node in range(s.num_nodes):
        m.cores_left[node] = s.node_cores[node] - s.node_gpus[node] if s.cpu_limited else np.inf
    if not s.cpu_limited:
        return
    for gpu in range(s.num_gpus):
        job = s.first_owner[gpu]
        if job != NOBODY and stays(s, m, job):
            m.cores_left[s.gpu_node[gpu]] -= cores_now(s, job) - 1
    for k in range(m.num_present):
        job = m.present[k]
        if s.node_of[job] != NOBODY and stays(s, m, job):
            m.cores_left[s.node_of[job]] -= cores_now(s, job)
    for gpu in range(s.num_gpus):
        job = s.reserved_for[gpu]
        if job >= 0:
            m.cores_left[s.gpu_node[gpu]] -= cores_for(jobs, job, shape_now(s, job)) - 1


@compiled
def open_room(s, jobs, m):
    """Count what can be granted, before any job of the order is granted anything."""
    for k in range(m.num_present):
        m.is_granted[m.present[k]] = m.keeps[m.present[k]] = 0
        m.place[m.present[k]] = m.num_order
    for k in range(m.num_order):
        m.place[m.order[k]] = k
    m.num_left = m.num_granted = m.num_refused = 0
    for node in range(s.num_nodes):
        open_node(s, m, node)
    count_cores_left(s, jobs, m)


# The search for one job: its own GPUs, those of one node, or of several.


@compiled
def list_own(s, m, job):
    """List the GPUs of which a job is the first owner, in ascending order."""
    m.num_own = 0
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        slot = s.next_slot[slot]
        if s.first_owner[gpu] != job:
            continue
        at = m.num_own
        while at > 0 and m.own[at - 1] > gpu:
            m.own[at] = m.own[at - 1]
            at -= 1
        m.own[at] = gpu
        m.num_own += 1


@compiled
def count_there(s, m, at):
    """Return the number of found GPUs, from the one at a place on, that are on the same node."""
    end = at
    while end < m.num_found and s.gpu_node[m.found[end]] == s.gpu_node[m.found[at]]:
        end += 1
    return end - at


@compiled
def has_cores_left(s, m, each):
    """Return whether the nodes of the found GPUs have `each` cores for each, or the found node `each` as a whole."""
    if m.found_node != NOBODY and m.num_found == 0:
        return m.cores_left[m.found_node] + ROUNDING >= each
    at = 0
    while at < m.num_found:
        node, count = s.gpu_node[m.found[at]], count_there(s, m, at)
        if m.cores_left[node] + ROUNDING < (each - 1) * count:
            return False
        at += count
    return True


@compiled
def find_own(s, m, job):
    """Find what a running job has, if no other job was granted any of it and its cores are left."""
    m.num_found, m.found_node = m.num_own, s.node_of[job]
    for k in range(m.num_own):
        m.found[k] = m.own[k]
        if m.taken[m.own[k]]:
            return False
    return has_cores_left(s, m, cores_now(s, job))


@compiled
def find_cores(s, jobs, m, job, cores):
    """Find the open node with most cores left of those that a job may use, if they suffice."""
    m.num_found, m.found_node = 0, NOBODY
    for node in range(s.num_nodes):
        if s.closed[node] != OPEN or m.cores_left[node] < cores or not may_use(s, jobs, job, node):
            continue
        if m.found_node == NOBODY or m.cores_left[node] > m.cores_left[m.found_node]:
            m.found_node = node
    return m.found_node != NOBODY


@compiled
def own_open_on(s, m, node, job):
    """Return the number of a job's own GPUs that it could be granted on a node."""
    own = 0
    if m.may_move[job]:
        for k in range(s.node_first[node], s.node_first[node] + m.num_open[node]):
            own += s.first_owner[m.open[k]] == job
    return own


@compiled
def displaced(s, m, job, node, wanted):
    """Return the number of jobs that would lose GPUs of a node to a job, and of GPUs that it would wait for."""
    missing = wanted - own_open_on(s, m, node, job)
    victims, awaited = np.int64(0), np.int64(0)
    m.mark += 1
    for k in range(s.node_first[node], s.node_first[node] + m.num_open[node]):
        if missing <= 0:
            break
        gpu, other = m.open[k], s.first_owner[m.open[k]]
        if other == job:
            continue
        missing -= 1
        awaited += m.kind[gpu] == AWAITED
        if m.kind[gpu] == HELD and m.marked[other] != m.mark:
            m.marked[other] = m.mark
            victims += 1
    return victims, awaited


@compiled
def sort_found(m):
    """Sort the found GPUs in ascending order."""
    for k in range(1, m.num_found):
        gpu, at = m.found[k], k
        while at > 0 and m.found[at - 1] > gpu:
            m.found[at] = m.found[at - 1]
            at -= 1
        m.found[at] = gpu


@compiled
def find_on_one_node(s, jobs, m, job, wanted, each):
    """Find GPUs of the node where fewest jobs lose any, then fewest GPUs are waited for, then fewest are open."""
    best, least = NOBODY, (np.int64(0), np.int64(0), np.int64(0))
    for node in range(s.num_nodes):
        there = np.int64(m.num_open[node])
        if there < wanted or not can_hold(s, jobs, job, node):
            continue
        if m.cores_left[node] + ROUNDING < wanted * (each - 1):
            continue
        victims, awaited = displaced(s, m, job, node, wanted)
        if best == NOBODY or (victims, awaited, there) < least:
            best, least = node, (victims, awaited, there)
    m.num_found, m.found_node = 0, NOBODY
    if best == NOBODY:
        return False
    for own in (True, False):
        for k in range(s.node_first[best], s.node_first[best] + m.num_open[best]):
            if m.num_found < wanted and (s.first_owner[m.open[k]] == job) == own:
                m.found[m.num_found] = m.open[k]
                m.num_found += 1
    sort_found(m)
    return True


@allocating
def spread_order(s, jobs, m, job):
    """Return the open GPUs of nodes that can hold a job: its own, then by kind, owner, and free GPUs of the node.

    The four criteria are the digits of one number, so that a single sort suffices.
    """
    keys, count = np.empty(m.num_left, np.int64), 0
    for node in range(s.num_nodes):
        if not can_hold(s, jobs, job, node):
            continue
        for k in range(s.node_first[node], s.node_first[node] + m.num_open[node]):
            gpu = m.open[k]
            key = 0 if s.first_owner[gpu] == job else np.int64(m.kind[gpu])
            key = key * (m.num_order + 1) + m.num_order - place_of(s, m, gpu)  # owners that come last first
            key = key * (s.num_gpus + 1) + s.num_gpus - m.num_free[node]  # nodes with most free GPUs first
            keys[count] = key * s.num_gpus + gpu
            count += 1
    keys = keys[:count]
    keys.sort()
    return keys % s.num_gpus


@allocating
def find_spread(s, jobs, m, job, wanted, each):
    """Find GPUs of several nodes, those with most free GPUs first, as far as there are cores."""
    m.num_found = 0
    for node in range(s.num_nodes):
        m.spread_left[node] = m.cores_left[node]
    for gpu in spread_order(s, jobs, m, job):
        node = s.gpu_node[gpu]
        if m.num_found < wanted and m.spread_left[node] + ROUNDING >= each - 1:
            m.spread_left[node] -= each - 1
            m.found[m.num_found] = gpu
            m.num_found += 1
    sort_found(m)
    return m.num_found == wanted


@compiled
def is_refused(s, jobs, m, job, gpus, each, may_spread):
    """Return whether a request of no more in any way found no space in this pass, in which space only becomes less."""
    groups = holding_groups(s, jobs, job)
    for k in range(m.num_refused):
        if m.refused_gpus[k] > gpus or m.refused_cores[k] > each:
            continue
        if groups & ~m.refused_groups[k] == 0 and m.refused_spread[k] >= may_spread:
            return True
    return False


@compiled
def note_refused(s, jobs, m, job, gpus, each, may_spread):
    """Note that a request found no space in this pass."""
    at = m.num_refused
    if at < MAX_REFUSED:
        m.refused_gpus[at], m.refused_cores[at] = gpus, each
        m.refused_groups[at], m.refused_spread[at] = holding_groups(s, jobs, job), may_spread
        m.num_refused += 1


@compiled
def find_gpus(s, jobs, m, job, gpus, each, may_spread):
    """Find a number of GPUs for a job, with some cores for each; return whether there are any."""
    if m.num_left < gpus or is_refused(s, jobs, m, job, gpus, each, may_spread):
        return False
    if find_on_one_node(s, jobs, m, job, gpus, each):
        return True
    if may_spread and find_spread(s, jobs, m, job, gpus, each):
        return True
    note_refused(s, jobs, m, job, gpus, each, may_spread)
    return False


@compiled
def find(s, jobs, m, job, shape):
    """Find GPUs, or a node's cores, for a job in a shape; return whether there are any."""
    if m.may_move[job] and is_same(shape, shape_now(s, job)) and find_own(s, m, job):
        return True
    each, gpus = cores_for(jobs, job, shape), gpus_of(shape)
    if shape.on_cpu:
        return find_cores(s, jobs, m, job, each)
    may_spread = shape.servers > 0 or gpus > largest_node(s, jobs, job)
    return find_gpus(s, jobs, m, job, gpus, each, may_spread)


# Grants.


@compiled
def is_kept(s, m, job, shape):
    """Return whether what has been found is what a running job has."""
    if not m.may_move[job] or not is_same(shape, shape_now(s, job)):
        return False
    if m.num_found != m.num_own or m.found_node != s.node_of[job]:
        return False
    for k in range(m.num_own):
        if m.found[k] != m.own[k]:
            return False
    return True


@compiled
def take_gpus(s, m, job):
    """Move the found GPUs from those that may be granted to those of a job."""
    m.grant_first[job], m.grant_gpus[job] = m.num_granted, m.num_found
    for k in range(m.num_found):
        m.taken[m.found[k]] = 1
        m.granted[m.num_granted + k] = m.found[k]
    m.num_granted += m.num_found
    at = 0
    while at < m.num_found:
        node, left = s.gpu_node[m.found[at]], 0
        begin = s.node_first[node]
        m.num_left -= m.num_open[node]
        for k in range(begin, begin + m.num_open[node]):
            if m.taken[m.open[k]]:
                m.num_free[node] -= m.kind[m.open[k]] == FREE
                continue
            m.open[begin + left] = m.open[k]
            left += 1
        m.num_open[node] = left
        m.num_left += left
        at += count_there(s, m, at)


@compiled
def give(s, jobs, m, job, shape):
    """Grant a job what has been found for it."""
    m.is_granted[job], m.keeps[job] = 1, is_kept(s, m, job, shape)
    m.grant_workers[job], m.grant_servers[job] = shape.workers, shape.servers
    m.grant_apart[job], m.grant_node[job] = shape.apart, m.found_node
    each = cores_now(s, job) if m.keeps[job] else cores_for(jobs, job, shape)
    if shape.on_cpu:
        m.cores_left[m.found_node] -= each
    at = 0
    while at < m.num_found:
        count = count_there(s, m, at)
        m.cores_left[s.gpu_node[m.found[at]]] -= (each - 1) * count
        at += count
    take_gpus(s, m, job)


@compiled
def try_shape(s, jobs, m, job, shape):
    """Grant a job a shape if there is space for it; return whether there is."""
    if find(s, jobs, m, job, shape):
        give(s, jobs, m, job, shape)
        return True
    return False


@compiled
def try_requests(s, jobs, m, job, on_cpu):
    """Grant a job the first of its requested shapes for which there is space; return whether there is one."""
    for fewer in range(m.request_workers[job] - m.min_workers[job] + 1):
        shape = nth_request(m, job, fewer, on_cpu)
        if (
            on_cpu
            and not iteration_seconds(jobs, job, shape.workers, shape.servers, 1.0) < m.max_iteration_s[job]
        ):
            continue
        if not on_cpu and not m.may_move[job] and gpus_of(shape) > m.num_left:
            continue
        if try_shape(s, jobs, m, job, shape):
            return True
    return False


@compiled
def grant(s, jobs, m, job):
    """Grant a job the first of its shapes for which there is space, or what it has if no other job was granted that."""
    m.num_own = 0
    if m.may_move[job]:
        list_own(s, m, job)
    own = m.own_shape[job]
    if own == FIRST and try_shape(s, jobs, m, job, shape_now(s, job)):
        return
    if try_requests(s, jobs, m, job, False):
        return
    if m.max_iteration_s[job] > 0 and try_requests(s, jobs, m, job, True):
        return
    if (m.may_move[job] or own != NOT_LISTED) and own != FIRST:
        try_shape(s, jobs, m, job, shape_now(s, job))
