"""What is worth doing now: where a job starts, and which to move to GPUs no other needs.

Time on GPUs has a price, seconds that others wait for each second of a GPU, which grows with the queue: a job is given
as many workers as make its own time and what it costs others least. All times are estimates.
"""

import numpy as np

from simulator.kernel._compile import compiled
from simulator.kernel.layout import NOBODY, RUNNING
from simulator.kernel.machines import count_on
from simulator.kernel.seats import (
    EPS,
    harm_s,
    look_for,
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
