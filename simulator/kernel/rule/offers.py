"""What is worth doing now: where a job starts, and which to move to GPUs that no other needs.

Time on GPUs has a price, seconds that others wait for each second of a GPU, which grows with the queue: a job is given
as many workers as make its own time and what it costs others least. All times are estimates.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import count_on, is_alone
from gpu_cluster_gym.simulator.kernel.rule.places import (
    can_serve,
    count_empty,
    finds_cores,
    list_gpus,
    num_places,
)
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import MOST_GPUS
from gpu_cluster_gym.simulator.kernel.rule.seats import harm_s, look_for, rank_gpus, relief_s
from gpu_cluster_gym.simulator.kernel.rule.spanning import (
    choose_across,
    choose_home,
    is_across,
    may_span,
    slow_across,
)
from gpu_cluster_gym.simulator.kernel.rule.type_speeds import left_at_best, slow_on
from gpu_cluster_gym.simulator.kernel.rule.ways import find_ways, may_spread, pace_of


@compiled
def fill_placement(jobs, m, job, gpus, servers):
    """Note these GPUs, in ascending order, and servers as those of a placement of a job."""
    m.servers = -1 if servers == jobs[job].servers else servers
    m.num_gpus = len(gpus)
    for k in range(len(gpus)):
        at = k
        while at > 0 and m.gpus[at - 1] > gpus[k]:
            m.gpus[at] = m.gpus[at - 1]
            at -= 1
        m.gpus[at] = gpus[k]


@compiled
def cost_there(s, jobs, m, job, way, count, least):
    """Return what a job costs itself and others in a way on the GPUs of a place ranked first, over its own time.

    Infinite where it would be too slow. count: GPUs of the place. What it does to others is left out where that cannot
    bring the cost below `least`.
    """
    workers, pace = m.way_workers[way], m.pace[way]
    if workers > count:
        return np.inf
    slow = m.slowdown[m.ranked[workers - 1]]
    if pace * slow > m.most_slow:
        return np.inf
    owned = 0
    for k in range(workers):
        owned += m.is_empty[m.ranked[k]]
    cost = pace * slow * (1 + m.price_now * (owned + m.shared_price * (workers - owned)))
    if owned < workers and cost <= least:
        left = max(m.left_s[job], 1.0)
        cost += m.harm * harm_s(s, jobs, m, job, m.ranked[:workers], slow) / left
    return cost


@compiled
def best_seats(s, jobs, m, job, as_asked):
    """Find the seats with the least cost to a job and to others; tell whether some are good enough.

    They are noted as a placement. as_asked: whether it must find the cores that it asks for. Whether some are depends
    on what is on the GPUs of their node alone: a node that was of no use is not looked at again before that changes.
    """
    everywhere = as_asked or may_spread(s, jobs, m, job)
    since = -1 if everywhere else m.seatless_at[job]
    m.seatless_at[job] = m.readings
    if since >= m.read_last or not look_for(s, jobs, m, job, since):
        return False
    find_ways(s, jobs, m, job)
    least, least_empty = np.inf, 0
    for place in range(num_places(s, jobs, m, job)):
        if place < s.num_nodes and not m.has_seat[place]:
            continue
        count = list_gpus(s, m, place)
        rank_gpus(m, count)
        empty = count_empty(m, count)
        for way in range(m.num_ways):
            if as_asked and not finds_cores(s, jobs, m, job, way, count):
                continue
            cost = cost_there(s, jobs, m, job, way, count, least)
            if cost < least or (cost == least < np.inf and empty < least_empty):
                least, least_empty = cost, empty
                fill_placement(jobs, m, job, m.ranked[: m.way_workers[way]], m.way_servers[way])
    if least < np.inf:
        m.seatless_at[job] = 0
    return least < np.inf


@compiled
def its_place(s, jobs, m, job, way, count):
    """Choose GPUs of a place that are empty or a running job's alone, its own first; tell whether there are enough.

    The shape must not be the one that it has on those it has. count: GPUs of the place.
    """
    workers, chosen, kept = m.way_workers[way], 0, 0
    for own in (True, False):
        for k in range(count):
            if chosen == workers:
                break
            gpu = m.among[k]
            is_its = count_on(s, gpu, job) > 0
            holds = s.node_memory[s.gpu_node[gpu]] >= jobs[job].gpu_memory_gib
            if holds and ((own and is_its and s.num_jobs_on[gpu] == 1) or (not own and m.is_empty[gpu])):
                m.chosen[chosen] = gpu
                chosen += 1
                kept += is_its
    is_same = kept == workers == s.width[job] and m.way_servers[way] == s.servers[job]
    return chosen == workers and not is_same


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
def slowest_chosen(s, jobs, m, job, count):
    """Return the slowdown of a job by the type of the slowest of the GPUs chosen."""
    slow = 0.0
    for k in range(count):
        slow = max(slow, slow_on(s, jobs, m, job, s.gpu_node[m.chosen[k]]))
    return slow


@compiled
def best_move_of(s, jobs, m, job, least):
    """Find the empty GPUs, with its own or instead of them, that a running job wins most by; return the seconds won.

    `least` where none wins more, else the GPUs are noted as a placement. What is won is less `growth` times the
    restart; the jobs that it leaves behind win too.
    """
    find_ways(s, jobs, m, job)
    width, remaining = s.width[job], left_at_best(s, jobs, m, job)
    relief = relief_s(s, m, job)
    pace = pace_of(jobs, job, s.workers[job], s.servers[job])
    if is_across(s, jobs, m, job):
        pace *= slow_across(m, job)
    now = m.left_s[job] + remaining * pace * m.crowd[job] * m.type_slow[job] * m.price_now * width
    restart = m.growth * (jobs[job].pause_s + jobs[job].load_s)
    for way in range(m.num_ways):
        workers = m.way_workers[way]
        if workers < width:
            continue
        for place in range(num_places(s, jobs, m, job)):
            at_best = remaining * m.pace[way] * (1 + m.price_now * workers)
            if now - at_best - restart + m.relief * relief <= least:
                break
            count = list_gpus(s, m, place)
            if workers > count or not its_place(s, jobs, m, job, way, count):
                continue
            slow = slowest_chosen(s, jobs, m, job, workers)
            there = remaining * m.pace[way] * slow * (1 + m.price_now * workers)
            gain = now - there - restart + m.relief * relief
            if gain > least and can_serve(s, jobs, m, job, way):
                least = gain
                fill_placement(jobs, m, job, m.chosen[:workers], m.way_servers[way])
    if m.num_order == 0 and may_span(s, jobs, m, job) and is_alone(s, job):
        least = best_span(s, jobs, m, job, now - restart, least)
    return least


@compiled
def best_span(s, jobs, m, job, now, least):
    """Compare a second node for a running job that is alone, or one where it has two, as `best_move_of` does.

    now: what it would cost to go on, less the restart.
    """
    if s.span[job] == 1:
        workers, slow = min(jobs[job].max_workers, MOST_GPUS), slow_across(m, job)
        if choose_across(s, jobs, m, job, workers) < workers:
            return least
    else:
        workers, slow = choose_home(s, m, job), 1.0
    pace = pace_of(jobs, job, workers, jobs[job].servers) * slow
    gain = now - left_at_best(s, jobs, m, job) * pace * (1 + m.price_now * workers)
    if gain > least:
        least = gain
        fill_placement(jobs, m, job, m.chosen[:workers], jobs[job].servers)
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
    """Return the running job that gains most by empty GPUs, with its own or instead of them, or by fewer, or NOBODY.

    The GPUs are noted as a placement; the running jobs have been listed.
    """
    best = NOBODY
    most = 0.0
    if m.spanning == 0 and not is_any_empty(s, m):
        return best
    for at in range(m.num_running):
        job = m.running[at]
        if may_move(s, jobs, m, job):
            gain = best_move_of(s, jobs, m, job, most)
            if gain > most:
                best, most = job, gain
    return best
