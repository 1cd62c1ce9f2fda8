"""Grants of shapes: which GPUs, or which node's cores, each job of an order gets that none before it was given.

A job that has what it is to have keeps it. Else it comes on the node where it disturbs fewest others, and among those
where least is left, its own GPUs first. Jobs with parameter servers, which are as fast wherever their workers are, and
those larger than any node are spread where one node has no room.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, OPEN
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold, largest_node
from gpu_cluster_gym.simulator.kernel.rounds.shape_memory import (
    FIRST,
    MOST_REFUSED,
    NEITHER,
    cores_for,
    cores_now,
    form_now,
    gpus_of,
    is_same,
    nth_form,
)
from gpu_cluster_gym.simulator.kernel.rounds.shape_room import AWAITED, FREE, HELD, ROUNDING, place_of
from gpu_cluster_gym.simulator.kernel.union.job_shapes import iteration_seconds


@compiled
def list_own(s, m, job):
    """List the GPUs that a job holds before any other, in ascending order."""
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
def find_own(s, m, job):
    """Find what a running job has, if nobody has been given any of it and its cores are still there."""
    m.num_found, m.found_node = m.num_own, s.node_of[job]
    for k in range(m.num_own):
        m.found[k] = m.own[k]
        if m.taken[m.own[k]]:
            return False
    return has_cores_left(s, m, cores_now(s, job))


@compiled
def has_cores_left(s, m, each):
    """Tell whether the nodes of what has been found have so many cores for each GPU, or as a whole without."""
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
def count_there(s, m, at):
    """Return how many of the GPUs that have been found, from one on, are on the same node."""
    end = at
    while end < m.num_found and s.gpu_node[m.found[end]] == s.gpu_node[m.found[at]]:
        end += 1
    return end - at


@compiled
def find_cores(s, m, cores):
    """Find the open node with most cores left, if they are enough."""
    m.num_found, m.found_node = 0, NOBODY
    for node in range(s.num_nodes):
        if s.closed[node] != OPEN or m.cores_left[node] < cores:
            continue
        if m.found_node == NOBODY or m.cores_left[node] > m.cores_left[m.found_node]:
            m.found_node = node
    return m.found_node != NOBODY


@compiled
def own_open_on(s, m, node, job):
    """Return how many GPUs of a node a job would take of its own."""
    own = 0
    if m.may_move[job]:
        for k in range(s.node_first[node], s.node_first[node] + m.num_open[node]):
            own += s.first_owner[m.open[k]] == job
    return own


@compiled
def disturbed(s, m, job, node, wanted):
    """Return how many jobs would lose GPUs of a node to a job, and how many GPUs it would wait for."""
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
    """Put the GPUs that have been found in ascending order."""
    for k in range(1, m.num_found):
        gpu, at = m.found[k], k
        while at > 0 and m.found[at - 1] > gpu:
            m.found[at] = m.found[at - 1]
            at -= 1
        m.found[at] = gpu


@compiled
def find_on_one_node(s, jobs, m, job, wanted, each):
    """Find GPUs of the node where fewest jobs lose any, then least is waited for, then least is left."""
    best, least = NOBODY, (np.int64(0), np.int64(0), np.int64(0))
    for node in range(s.num_nodes):
        there = np.int64(m.num_open[node])
        if there < wanted or not can_hold(s, jobs, job, node):
            continue
        if m.cores_left[node] + ROUNDING < wanted * (each - 1):
            continue
        victims, awaited = disturbed(s, m, job, node, wanted)
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
    """Return all open GPUs of nodes that can hold a job: its own, then by kind, by whose, by free GPUs of the node."""
    keys, count = np.empty(m.num_left, np.int64), 0
    for node in range(s.num_nodes):
        if not can_hold(s, jobs, job, node):
            continue
        for k in range(s.node_first[node], s.node_first[node] + m.num_open[node]):
            gpu = m.open[k]
            key = 0 if s.first_owner[gpu] == job else np.int64(m.kind[gpu])
            key = key * (m.num_order + 1) + m.num_order - place_of(s, m, gpu)
            key = key * (s.num_gpus + 1) + s.num_gpus - m.num_free[node]
            keys[count] = key * s.num_gpus + gpu
            count += 1
    keys = keys[:count]
    keys.sort()
    return keys % s.num_gpus


@allocating
def find_spread(s, jobs, m, job, wanted, each):
    """Find GPUs of several nodes, of those with most free ones first, as far as there are cores."""
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
def is_refused(jobs, m, job, gpus, each, may_spread):
    """Tell whether a job that asks for no more has found no room in this pass, in which room only becomes less."""
    for k in range(m.num_refused):
        if m.refused_gpus[k] > gpus or m.refused_cores[k] > each:
            continue
        if m.refused_gib[k] <= jobs[job].gpu_memory_gib and m.refused_spread[k] >= may_spread:
            return True
    return False


@compiled
def note_refused(jobs, m, job, gpus, each, may_spread):
    """Note that a job found no room in this pass."""
    at = m.num_refused
    if at < MOST_REFUSED:
        m.refused_gpus[at], m.refused_cores[at] = gpus, each
        m.refused_gib[at], m.refused_spread[at] = jobs[job].gpu_memory_gib, may_spread
        m.num_refused += 1


@compiled
def find_gpus(s, jobs, m, job, gpus, each, may_spread):
    """Find so many GPUs for a job, with so many cores for each; tell whether there are any."""
    if m.num_left < gpus or is_refused(jobs, m, job, gpus, each, may_spread):
        return False
    if find_on_one_node(s, jobs, m, job, gpus, each):
        return True
    if may_spread and find_spread(s, jobs, m, job, gpus, each):
        return True
    note_refused(jobs, m, job, gpus, each, may_spread)
    return False


@compiled
def find(s, jobs, m, job, form):
    """Find what a job could have a shape on; tell whether there is anything."""
    if m.may_move[job] and is_same(form, form_now(s, job)) and find_own(s, m, job):
        return True
    each, gpus = cores_for(jobs, job, form), gpus_of(form)
    if form.on_cpu:
        return find_cores(s, m, each)
    may_spread = form.servers > 0 or gpus > largest_node(s, jobs, job)
    return find_gpus(s, jobs, m, job, gpus, each, may_spread)


@compiled
def is_kept(s, m, job, form):
    """Tell whether what has been found is what a running job has."""
    if not m.may_move[job] or not is_same(form, form_now(s, job)):
        return False
    if m.num_found != m.num_own or m.found_node != s.node_of[job]:
        return False
    for k in range(m.num_own):
        if m.found[k] != m.own[k]:
            return False
    return True


@compiled
def take_gpus(s, m, job):
    """Take the GPUs that have been found off those that may be granted."""
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
def give(s, jobs, m, job, form):
    """Grant a job what has been found for it."""
    m.is_granted[job], m.keeps[job] = 1, is_kept(s, m, job, form)
    m.grant_workers[job], m.grant_servers[job] = form.workers, form.servers
    m.grant_apart[job], m.grant_node[job] = form.apart, m.found_node
    each = cores_now(s, job) if m.keeps[job] else cores_for(jobs, job, form)
    if form.on_cpu:
        m.cores_left[m.found_node] -= each
    at = 0
    while at < m.num_found:
        count = count_there(s, m, at)
        m.cores_left[s.gpu_node[m.found[at]]] -= (each - 1) * count
        at += count
    take_gpus(s, m, job)


@compiled
def try_form(s, jobs, m, job, form):
    """Grant a job a shape if there is room for it; tell whether there is."""
    if find(s, jobs, m, job, form):
        give(s, jobs, m, job, form)
        return True
    return False


@compiled
def try_fewer(s, jobs, m, job, on_cpu):
    """Grant a job the shape that is wished for it, or one with fewer workers; tell whether there is room for any."""
    for fewer in range(m.wish_workers[job] - m.least[job] + 1):
        form = nth_form(m, job, fewer, on_cpu)
        if on_cpu and not iteration_seconds(jobs, job, form.workers, form.servers, 1.0) < m.bearable_s[job]:
            continue
        if not on_cpu and not m.may_move[job] and gpus_of(form) > m.num_left:
            continue
        if try_form(s, jobs, m, job, form):
            return True
    return False


@compiled
def grant(s, jobs, m, job):
    """Give a job the first of its shapes for which there is room, or what it has if that is not given away."""
    m.num_own = 0
    if m.may_move[job]:
        list_own(s, m, job)
    own = m.own_shape[job]
    if own == FIRST and try_form(s, jobs, m, job, form_now(s, job)):
        return
    if try_fewer(s, jobs, m, job, False):
        return
    if m.bearable_s[job] > 0 and try_fewer(s, jobs, m, job, True):
        return
    if (m.may_move[job] or own != NEITHER) and own != FIRST:
        try_form(s, jobs, m, job, form_now(s, job))
