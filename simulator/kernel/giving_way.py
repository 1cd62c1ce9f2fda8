"""Which running jobs give way to a queued one, if that pays: on one node, or on several for a job larger than any.

All times are estimates.
"""

import numpy as np

from simulator.kernel._compile import allocating, compiled
from simulator.kernel.knapsack import cheapest
from simulator.kernel.layout import NOBODY
from simulator.kernel.machines import is_alone
from simulator.kernel.pausing_for import cores_of_servers_now, cores_to_serve
from simulator.kernel.room import Pool, find_room, holding_nodes
from simulator.kernel.rule_memory import copy
from simulator.kernel.seats import look_for, may_be_evicted, open_gpu
from simulator.kernel.ways import find_ways


@compiled
def soonest(s, m, node, wanted):
    """Return when so many GPUs of a node have a seat for the job that was looked for."""
    count = s.node_gpus[node]
    for k in range(count):
        gpu = s.node_first[node] + k
        at = k
        while at > 0 and m.opens_s[m.ranked[at - 1]] > m.opens_s[gpu]:
            m.ranked[at] = m.ranked[at - 1]
            at -= 1
        m.ranked[at] = gpu
    return m.opens_s[m.ranked[wanted - 1]]


@compiled
def unaided(s, m, job):
    """Return the seconds until a job would start, in its cheapest shape, when others end, and those it would take."""
    best = 0
    for way in range(m.num_ways):
        if m.pace[way] * (1 + m.price_now * m.workers[way]) < m.pace[best] * (
            1 + m.price_now * m.workers[best]
        ):
            best = way
    wait = np.inf
    for node in range(s.num_nodes):
        if s.node_gpus[node] >= m.workers[best]:
            wait = min(wait, soonest(s, m, node, m.workers[best]))
    return wait, m.pace[best] * m.left_s[job]


@compiled
def list_offers(s, m, node):
    """List the jobs that could be evicted from a node, the last first, and from how many GPUs; return their number."""
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        job = m.evicted[gpu]
        if job == NOBODY:
            continue
        at = 0
        while at < count and m.offered[at] > job:
            at += 1
        if at < count and m.offered[at] == job:
            m.offers_gpus[at] += 1
            continue
        for later in range(count, at, -1):
            m.offered[later] = m.offered[later - 1]
            m.offers_gpus[later] = m.offers_gpus[later - 1]
        m.offered[at] = job
        m.offers_gpus[at] = 1
        count += 1
    return count


@allocating
def cheapest_on(s, jobs, m, wanted, num_offers, waiting, mine):
    """Note the cheapest of the jobs offered that free so many GPUs, by the GPU-seconds of pauses and loads.

    Where others wait too, by what is lost by each, less what its hold counts of the job's wait. Return their number,
    0 where none do, and the seconds that they would hold GPUs, in the mean over the GPUs that each would free.
    """
    cost, left = np.empty(num_offers), np.empty(num_offers)
    for at in range(num_offers):
        job, gpus = m.offered[at], m.offers_gpus[at]
        cost[at] = cost_of_pause(s, jobs, m, job, waiting, mine, min(gpus, wanted) / max(wanted, 1))
        left[at] = m.left_s[job]
    count = cheapest(wanted, m.offered[:num_offers], m.offers_gpus, cost, left, m.victims)[0]
    held, freed = 0.0, 0
    for k in range(count):
        for at in range(num_offers):
            if m.offered[at] == m.victims[k]:
                held += left[at] * m.offers_gpus[at]
                freed += m.offers_gpus[at]
    return count, held / max(freed, 1)


@compiled
def cost_of_pause(s, jobs, m, victim, waiting, mine, share):
    """Return what speaks against a victim, which would free a share of what a job needs that takes `mine` seconds."""
    area = (jobs[victim].pause_s + jobs[victim].load_s) * s.width[victim]
    counted = hold_counted(m, waiting)
    if counted == 0:
        return area
    lost = mine + jobs[victim].load_s + (waiting - 1) * area / s.num_gpus
    return m.caution * lost - counted * share * m.left_s[victim]


@compiled
def hold_counted(m, waiting):
    """Return how far a job is taken to wait for as long as its victims would hold their GPUs.

    Of so many that wait, all but one take what opens before.
    """
    return m.backlog * (1.0 - 1.0 / waiting) if waiting > 1 else 0.0


@compiled
def choose_gpus(s, m, node, workers, num_victims):
    """List the GPUs of a node that a job would have, those with a seat first; return its slowdown there."""
    count = 0
    slow = 0.0
    for only_open in (True, False):
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            is_open = m.slowdown[gpu] < np.inf
            if count == workers or is_open != only_open:
                continue
            freed = False
            for k in range(num_victims):
                freed |= m.evicted[gpu] == m.victims[k]
            if is_open or freed:
                m.chosen[count] = gpu
                count += 1
                slow = max(slow, m.slowdown[gpu] if is_open else m.slow_after[gpu])
    return slow


@compiled
def loss_s(s, jobs, m, num_victims, waiting, mine):
    """Return what others lose where a job takes the place of victims until `mine` seconds from now."""
    lost = 0.0
    area = 0.0
    for k in range(num_victims):
        victim = m.victims[k]
        lost += mine + jobs[victim].load_s
        area += (jobs[victim].pause_s + jobs[victim].load_s) * s.width[victim]
    return lost + (waiting - 1) * area / s.num_gpus


@compiled
def longest_pause(jobs, m, num_victims):
    """Return the seconds until the last victim has paused."""
    pause = 0.0
    for k in range(num_victims):
        pause = max(pause, jobs[m.victims[k]].pause_s)
    return pause


@compiled
def may_displace_any(s, m, job):
    """Tell whether some running job may be paused for another."""
    for k in range(s.num_active):
        if may_be_evicted(s, m, job, s.events[k]):
            return True
    return False


@compiled
def best_displacement(s, jobs, m, job, waiting, least):
    """Find the jobs to pause for one that has no seat; return the seconds won, or `least` where none wins more.

    The rule is Xion's (`baselines.xion`): what the job gains, by starting after the pause and not when another ends,
    less `caution` times what others lose: each victim until the job has ended, and its load; all that wait, the
    overhead. But where others wait too, what ends next is theirs: then the job waits, by `backlog`, for as long as its
    victims would go on. The victims and the GPUs are noted.
    """
    if not may_displace_any(s, m, job):
        return least
    find_ways(s, jobs, m, job)
    look_for(s, jobs, m, job)
    for gpu in range(s.num_gpus):
        open_gpu(s, jobs, m, job, gpu)
    wait, work = unaided(s, m, job)
    counted = hold_counted(m, waiting)
    for way in range(m.num_ways):
        workers, pace = m.workers[way], m.pace[way]
        for node in range(s.num_nodes):
            free = 0
            for k in range(s.node_gpus[node]):
                free += m.slowdown[s.node_first[node] + k] < np.inf
            if workers > s.node_gpus[node] or workers <= free:
                continue
            alone = pace * m.left_s[job]
            offers = list_offers(s, m, node)
            num_victims, held = cheapest_on(s, jobs, m, workers - free, offers, waiting, alone)
            if num_victims == 0:
                continue
            slow = choose_gpus(s, m, node, workers, num_victims)
            mine = longest_pause(jobs, m, num_victims) + pace * slow * m.left_s[job]
            gain = wait + work - mine - m.caution * loss_s(s, jobs, m, num_victims, waiting, mine)
            if counted > 0 and held > wait:
                gain += counted * (held - wait)
            if gain > least:
                least = gain
                note_displacement(m, workers, num_victims, slow)
    return least


@compiled
def note_displacement(m, workers, num_victims, slow):
    """Note the GPUs and the victims just found, and the slowdown there."""
    m.num_wanted = workers
    copy(m.chosen, m.wanted, workers)
    m.num_evicted = num_victims
    copy(m.victims, m.to_evict, num_victims)
    m.wanted_slowdown = slow


@allocating
def find_room_beyond(s, jobs, m, job, waiting):
    """Find the jobs to pause for one that is larger than any node, if that pays; tell whether it does.

    As on one node, but that the wait is no less than by `backlog`: when so many GPUs come free is not told. The victims
    and the GPUs are noted.
    """
    counted = hold_counted(m, waiting)
    if counted == 0 or not may_displace_any(s, m, job):
        return False
    offered, cost = np.zeros(s.num_arrived, np.bool_), np.zeros(s.num_arrived)
    for k in range(s.num_active):
        other = s.events[k]
        offered[other] = may_be_evicted(s, m, job, other) and is_alone(s, other)
        share = min(s.width[other] / jobs[job].num_gpus, 1.0)
        cost[other] = cost_of_pause(s, jobs, m, other, waiting, m.left_s[job], share)
    each = cores_of_servers_now(s, job)
    pool = Pool(offered, cost, m.left_s, cores_to_serve(s, each), False)
    able = holding_nodes(s, jobs, job)
    count = find_room(s, pool, able, jobs[job].num_gpus, each, m.victims, m.chosen)[0]
    if count <= 0:
        return False
    note_displacement(m, jobs[job].num_gpus, count, 1.0)
    held, freed = 0.0, 0
    for k in range(count):
        held += m.left_s[m.victims[k]] * s.width[m.victims[k]]
        freed += s.width[m.victims[k]]
    pause = longest_pause(jobs, m, count)
    lost = loss_s(s, jobs, m, count, waiting, pause + m.left_s[job])
    return counted * held / freed - pause > m.caution * lost
