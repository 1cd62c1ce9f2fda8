"""What is worth doing now: where a job starts, which to pause for it, and which to move to GPUs no other needs.

Time on GPUs has a price, seconds that others wait for each second of a GPU, which grows with the queue: a job is given
as many workers as make its own time and what it costs others least. All times are estimates.
"""

import numpy as np

from simulator.kernel._compile import allocating, compiled
from simulator.kernel.knapsack import cheapest
from simulator.kernel.layout import NOBODY, RUNNING
from simulator.kernel.machines import count_on
from simulator.kernel.rule_memory import copy
from simulator.kernel.seats import (
    EPS,
    harm_s,
    look_for,
    may_be_evicted,
    open_gpu,
    rank_gpus,
    relief_s,
)
from simulator.kernel.trust import left_now
from simulator.kernel.ways import find_ways, pace_with


@compiled
def fill_placement(m, gpus):
    """Note these GPUs, in ascending order, as those of a placement."""
    m.num_gpus = len(gpus)
    for k in range(len(gpus)):
        at = k
        while at > 0 and m.gpus[at - 1] > gpus[k]:
            m.gpus[at] = m.gpus[at - 1]
            at -= 1
        m.gpus[at] = gpus[k]


@compiled
def count_empty(s, m, node):
    """Return how many GPUs of a node are free for anybody."""
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        count += m.is_empty[gpu]
    return count


@compiled
def cost_there(s, jobs, m, job, node, way, empty, least):
    """Return what a job costs itself and others in a way on the GPUs of a node ranked first, over its own time.

    Infinite where it would be too slow. empty: GPUs there that are free. What it does to others is left out where that
    cannot bring the cost below `least`.
    """
    workers, pace = m.workers[way], m.pace[way]
    if workers > s.node_gpus[node]:
        return np.inf
    slow = m.slowdown[m.ranked[workers - 1]]
    if pace * slow > m.most_slow:
        return np.inf
    owned = min(workers, empty)
    cost = pace * slow * (1 + m.price_now * (owned + m.shared_price * (workers - owned)))
    if owned < workers and cost <= least:
        left = max(m.left_s[job], 1.0)
        cost += m.harm * harm_s(s, jobs, m, job, m.ranked[:workers], slow) / left
    return cost


@compiled
def finds_cores(s, m, node, way, empty, cores):
    """Tell whether a node has so many cores for each worker; one is kept for each GPU that is free."""
    workers = m.workers[way]
    return cores <= 1 or s.unreserved_cores[node] + min(workers, empty) + EPS >= cores * workers


@compiled
def best_seats(s, jobs, m, job, cores):
    """Find the seats with the least cost to a job and to others; tell whether some are good enough.

    They are noted as a placement. cores: those it must find for each worker, if more than one.
    """
    if not look_for(s, jobs, m, job):
        return False
    find_ways(s, jobs, m, job)
    least, least_empty = np.inf, 0
    for node in range(s.num_nodes):
        if not m.has_seat[node]:
            continue
        rank_gpus(s, m, node)
        empty = count_empty(s, m, node)
        for way in range(m.num_ways):
            if not finds_cores(s, m, node, way, empty, cores):
                continue
            cost = cost_there(s, jobs, m, job, node, way, empty, least)
            if cost < least or (cost == least < np.inf and empty < least_empty):
                least, least_empty = cost, empty
                fill_placement(m, m.ranked[: m.workers[way]])
    return least < np.inf


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
def ends_unaided(s, m, job):
    """Return the seconds until a job would end that starts, in its cheapest shape, when others end."""
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
    return wait + m.pace[best] * m.left_s[job]


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
def cheapest_on(s, jobs, m, wanted, num_offers):
    """Note the cheapest of the jobs offered that free so many GPUs, by the GPU-seconds of pauses and loads.

    Return their number, 0 where none do.
    """
    cost, left = np.empty(num_offers), np.empty(num_offers)
    for at in range(num_offers):
        job = m.offered[at]
        cost[at] = (jobs[job].pause_s + jobs[job].load_s) * s.width[job]
        left[at] = m.left_s[job]
    return cheapest(wanted, m.offered[:num_offers], m.offers_gpus, cost, left, m.victims)[0]


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
    overhead. The victims and the GPUs are noted.
    """
    if not may_displace_any(s, m, job):
        return least
    find_ways(s, jobs, m, job)
    look_for(s, jobs, m, job)
    for gpu in range(s.num_gpus):
        open_gpu(s, jobs, m, job, gpu)
    ends = ends_unaided(s, m, job)
    for way in range(m.num_ways):
        workers, pace = m.workers[way], m.pace[way]
        for node in range(s.num_nodes):
            free = 0
            for k in range(s.node_gpus[node]):
                free += m.slowdown[s.node_first[node] + k] < np.inf
            if workers > s.node_gpus[node] or workers <= free:
                continue
            num_victims = cheapest_on(s, jobs, m, workers - free, list_offers(s, m, node))
            if num_victims == 0:
                continue
            slow = choose_gpus(s, m, node, workers, num_victims)
            mine = longest_pause(jobs, m, num_victims) + pace * slow * m.left_s[job]
            gain = ends - mine - m.caution * loss_s(s, jobs, m, num_victims, waiting, mine)
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


@compiled
def its_place(s, m, job, node, workers, able):
    """List so many GPUs of a node that are empty or a running job's alone; tell whether there are so many.

    They must not be those it has. able: whether the node can hold it.
    """
    if not able:
        return False
    count = 0
    kept = 0
    for own in (True, False):
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            if count == workers:
                break
            is_its = count_on(s, gpu, job) > 0
            if (own and is_its and s.num_jobs_on[gpu] == 1) or (not own and m.is_empty[gpu]):
                m.chosen[count] = gpu
                count += 1
                kept += is_its
    return count == workers and not (kept == workers == s.width[job])


@compiled
def may_move(s, jobs, m, job):
    """Tell whether a job runs on GPUs, and has done so long enough to move."""
    return (
        s.phase[job] == RUNNING
        and s.last_action_instant[job] != s.instant
        and s.width[job] > 0
        and s.clock - s.phase_began[job] >= m.settled
    )


@compiled
def best_move_of(s, jobs, m, job, least):
    """Find the empty GPUs, with its own or instead of them, that a running job wins most by; return the seconds won.

    `least` where none wins more, else the GPUs are noted as a placement. What is won is less `growth` times the
    restart; the jobs that it leaves behind win too.
    """
    find_ways(s, jobs, m, job)
    width, remaining = s.width[job], left_now(s, jobs, m, job)
    relief = relief_s(s, m, job)
    now = m.left_s[job] + remaining * pace_with(m, width) * m.crowd[job] * m.price_now * width
    restart = m.growth * (jobs[job].pause_s + jobs[job].load_s)
    for way in range(m.num_ways):
        workers = m.workers[way]
        gain = now - remaining * m.pace[way] * (1 + m.price_now * workers) - restart + m.relief * relief
        if workers < width or gain <= least:
            continue
        for node in range(s.num_nodes):
            able = s.node_memory[node] >= jobs[job].gpu_memory_gib
            if workers <= s.node_gpus[node] and its_place(s, m, job, node, workers, able):
                least = gain
                fill_placement(m, m.chosen[:workers])
                break
    return least


@compiled
def is_any_empty(s, m):
    """Tell whether a GPU is free for anybody."""
    for gpu in range(s.num_gpus):
        if m.is_empty[gpu]:
            return True
    return False


@compiled
def worth_moving(s, jobs, m):
    """Return the running job that gains most by having empty GPUs, with its own or instead of them, or NOBODY.

    The GPUs are noted as a placement; the running jobs have been listed.
    """
    best = NOBODY
    most = 0.0
    if not is_any_empty(s, m):
        return best
    for at in range(m.num_running):
        job = m.running[at]
        if may_move(s, jobs, m, job):
            gain = best_move_of(s, jobs, m, job, most)
            if gain > most:
                best, most = job, gain
    return best
