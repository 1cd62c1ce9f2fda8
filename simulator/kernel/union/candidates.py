"""Candidate placements: where a queued job starts, and which running job moves to free GPUs.

Time on GPUs has a price, the seconds that other jobs wait for each second of a GPU, which grows with the queue:

    gpu_price = price x (waiting jobs - 1 + expected) / GPUs
    cost of a placement = relative time x slowdown x (1 + gpu_price x GPUs) + harm x seconds lost by others / time left

in units of the job's own time as requested. A job gets the placement, and hence the number of workers, of least cost. A
GPU in a share slot counts as `shared_price` GPUs. All times are estimates.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import count_on, is_alone
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_take_these, most_gpus
from gpu_cluster_gym.simulator.kernel.union.estimates import left_on_fastest
from gpu_cluster_gym.simulator.kernel.union.job_shapes import (
    MAX_NAMED_GPUS,
    find_shapes,
    may_spread,
    note_node_slowdowns,
    relative_time,
    type_slowdown_on,
)
from gpu_cluster_gym.simulator.kernel.union.seats import (
    choose_own_node,
    choose_two_nodes,
    count_empty,
    find_seats,
    harm_s,
    has_requested_cores,
    has_server_cores,
    is_spanning,
    list_gpus,
    may_span,
    num_places,
    rank_gpus,
    relief_s,
    span_slowdown,
)
from gpu_cluster_gym.simulator.kernel.union.state_cache import is_any_empty, may_move


@compiled
def note_placement(jobs, m, job, gpus, servers):
    """Note these GPUs, in ascending order, and servers as the placement of a job."""
    m.servers = -1 if servers == jobs[job].servers else servers
    m.num_gpus = len(gpus)
    for k in range(len(gpus)):
        at = k
        while at > 0 and m.gpus[at - 1] > gpus[k]:
            m.gpus[at] = m.gpus[at - 1]
            at -= 1
        m.gpus[at] = gpus[k]


@compiled
def placement_cost(s, jobs, m, job, shape, count, bound):
    """Return the cost of a job in a shape on the best-ranked GPUs of a place, relative to its own time.

    Infinite where it would be too slow. count: GPUs of the place. The harm to others is left out if the cost without it
    exceeds `bound` already.
    """
    workers, time = m.shape_workers[shape], m.shape_time[shape]
    if workers > count:
        return np.inf
    slow = m.slowdown[m.ranked[workers - 1]]
    if time * slow > m.most_slow:
        return np.inf
    # Exclusive GPUs at the full price, share slots at a part of it; and the harm to co-located jobs.
    owned = 0
    for k in range(workers):
        owned += m.is_empty[m.ranked[k]]
    cost = time * slow * (1 + m.gpu_price * (owned + m.shared_price * (workers - owned)))
    if owned < workers and cost <= bound:
        left = max(m.left_s[job], 1.0)
        cost += m.harm * harm_s(s, jobs, m, job, m.ranked[:workers], slow) / left
    return cost


@compiled
def find_cheapest_seats(s, jobs, m, job, as_asked):
    """Find the placement of least cost for a queued job; return whether there is one.

    as_asked: whether it must find the cores that it asks for. Whether a node has a seat depends on its own GPUs alone,
    so a node without one is skipped until it changes.
    """
    everywhere = as_asked or may_spread(s, jobs, m, job)
    since = -1 if everywhere else m.no_seat_at_read[job]
    m.no_seat_at_read[job] = m.num_reads
    if since >= m.last_change or not find_seats(s, jobs, m, job, since):
        return False
    most = most_gpus(s, jobs, job)
    find_shapes(s, jobs, m, job)
    best_cost, best_empty = np.inf, 0
    for place in range(num_places(s, jobs, m, job)):
        if place < s.num_nodes and not m.has_seat[place]:
            continue
        count = list_gpus(s, m, place)
        rank_gpus(m, count)
        empty = count_empty(m, count)
        for shape in range(m.num_shapes):
            if m.shape_workers[shape] > most:
                continue
            if as_asked and not has_requested_cores(s, jobs, m, job, shape, count):
                continue
            cost = placement_cost(s, jobs, m, job, shape, count, best_cost)
            if cost < best_cost or (cost == best_cost < np.inf and empty < best_empty):
                best_cost, best_empty = cost, empty
                note_placement(jobs, m, job, m.ranked[: m.shape_workers[shape]], m.shape_servers[shape])
    if best_cost < np.inf or most < s.num_gpus:
        m.no_seat_at_read[job] = 0
    return best_cost < np.inf


@compiled
def choose_for_move(s, jobs, m, job, shape, count):
    """Choose empty GPUs of a place and those that a running job has alone, its own first; return whether they suffice.

    The shape must differ from the current one on the current GPUs. count: GPUs of the place.
    """
    workers, chosen, kept = m.shape_workers[shape], 0, 0
    for own in (True, False):
        for k in range(count):
            if chosen == workers:
                break
            gpu = m.place_gpus[k]
            is_its = count_on(s, gpu, job) > 0
            holds = can_hold(s, jobs, job, s.gpu_node[gpu])
            if holds and ((own and is_its and s.num_jobs_on[gpu] == 1) or (not own and m.is_empty[gpu])):
                m.chosen[chosen] = gpu
                chosen += 1
                kept += is_its
    is_same = kept == workers == s.width[job] and m.shape_servers[shape] == s.servers[job]
    return chosen == workers and not is_same


@compiled
def slowest_type_chosen(s, jobs, m, job, count):
    """Return the slowdown of a job by the slowest type among the chosen GPUs."""
    slow = 0.0
    for k in range(count):
        slow = max(slow, type_slowdown_on(s, jobs, m, job, s.gpu_node[m.chosen[k]]))
    return slow


@compiled
def find_best_move(s, jobs, m, job, best_gain):
    """Find the best move of a running job to empty GPUs, with or without its own; return the gain in seconds.

        gain = cost of staying - cost there - growth x restart + relief x seconds gained by co-located jobs

    `best_gain` as passed if no move gains more; else the placement is noted.
    """
    find_shapes(s, jobs, m, job)
    width, remaining = s.width[job], left_on_fastest(s, jobs, m, job)
    relief = relief_s(s, m, job)
    time = relative_time(jobs, job, s.workers[job], s.servers[job])
    if is_spanning(s, jobs, m, job):
        time *= span_slowdown(m, job)
    # Cost of staying: its time left, and what others wait for its GPUs meanwhile.
    stay = (
        m.left_s[job] + remaining * time * m.shared_slowdown[job] * m.type_slowdown[job] * m.gpu_price * width
    )
    restart = m.growth * (jobs[job].pause_s + jobs[job].load_s)
    for shape in range(m.num_shapes):
        workers = m.shape_workers[shape]
        if workers < width:
            continue
        for place in range(num_places(s, jobs, m, job)):
            # Bound: no GPU type is faster than the fastest.
            at_best = remaining * m.shape_time[shape] * (1 + m.gpu_price * workers)
            if stay - at_best - restart + m.relief * relief <= best_gain:
                break
            count = list_gpus(s, m, place)
            if workers > count or not choose_for_move(s, jobs, m, job, shape, count):
                continue
            if not may_take_these(s, jobs, job, m.chosen[:workers]):
                continue
            slow = slowest_type_chosen(s, jobs, m, job, workers)
            there = remaining * m.shape_time[shape] * slow * (1 + m.gpu_price * workers)
            gain = stay - there - restart + m.relief * relief
            if gain > best_gain and has_server_cores(s, jobs, m, job, shape):
                best_gain = gain
                note_placement(jobs, m, job, m.chosen[:workers], m.shape_servers[shape])
    if m.num_order == 0 and may_span(s, jobs, m, job) and is_alone(s, job):
        best_gain = compare_spanning(s, jobs, m, job, stay - restart, best_gain)
    return best_gain


@compiled
def compare_spanning(s, jobs, m, job, stay, best_gain):
    """Compare a second node for a running job that is alone, or one node if it has two, as `find_best_move` does.

    stay: the cost of staying, less the restart.
    """
    if s.span[job] == 1:
        workers, slow = min(jobs[job].max_workers, MAX_NAMED_GPUS), span_slowdown(m, job)
        if choose_two_nodes(s, jobs, m, job, workers) < workers:
            return best_gain
    else:
        workers, slow = choose_own_node(s, m, job), 1.0
    time = relative_time(jobs, job, workers, jobs[job].servers) * slow
    gain = stay - left_on_fastest(s, jobs, m, job) * time * (1 + m.gpu_price * workers)
    if gain > best_gain and may_take_these(s, jobs, job, m.chosen[:workers]):
        best_gain = gain
        note_placement(jobs, m, job, m.chosen[:workers], jobs[job].servers)
    return best_gain


@compiled
def find_job_to_move(s, jobs, m):
    """Return the running job that gains most by a move to empty GPUs, else NOBODY; note the placement."""
    best = NOBODY
    best_gain = 0.0
    if m.spanning == 0 and not is_any_empty(s, m):
        return best
    for at in range(m.num_running):
        job = m.running[at]
        if may_move(s, jobs, m, job):
            gain = find_best_move(s, jobs, m, job, best_gain)
            if gain > best_gain:
                best, best_gain = job, gain
    return best


# Slow GPU types: whether to run there while the jobs before it have the fast GPUs.


@compiled
def release_time(s, m, ahead):
    """Return the seconds until `ahead` GPUs are free that are not too slow for a job.

    All such GPUs, if there are fewer. The slowdown of the job by GPU type has been noted.
    """
    wait, count = np.inf, 0
    for k in range(s.num_gpus):
        gpu = m.by_release[k]
        if m.node_slowdown[s.gpu_node[gpu]] <= m.most_slow:
            wait = m.released_s[gpu]
            count += 1
            if count == ahead:
                break
    return wait


@compiled
def end_on_fast_gpus(s, jobs, m, job, ahead):
    """Return the seconds until a queued job would end that waits for fast GPUs; -1 if no slow type would end it sooner.

    ahead: GPUs that this job and those before it ask for.
    """
    if s.phase[job] != QUEUED:
        return -1.0
    note_node_slowdowns(s, jobs, m, job)
    min_slowdown = np.inf
    for node in range(s.num_nodes):
        if m.node_slowdown[node] > 1.0:
            min_slowdown = min(min_slowdown, m.node_slowdown[node])
    if min_slowdown == np.inf:
        return -1.0
    ends = release_time(s, m, ahead) + m.left_s[job]
    return ends if min_slowdown * m.left_s[job] <= ends else -1.0


@compiled
def choose_empty(s, m, count, wanted):
    """Choose this number of empty GPUs of a place that can hold the job; return whether there are enough."""
    chosen = 0
    for k in range(count):
        gpu = m.place_gpus[k]
        if chosen < wanted and m.is_empty[gpu] and m.slowdown[gpu] < np.inf:
            m.chosen[chosen] = gpu
            chosen += 1
    return chosen == wanted


@compiled
def finds_slow_start(s, jobs, m, job, ahead):
    """Find the empty GPUs on which a queued job ends soonest; return whether that beats waiting.

    It runs as requested, and moves once fast GPUs are free in w seconds, unless it has finished by then: with l seconds
    left and a slowdown k, it ends after min(k l, w + l - w / k + growth x restart) instead of w + l.
    """
    if not find_seats(s, jobs, m, job, -1):
        return False
    wait, left, wanted = release_time(s, m, ahead), m.left_s[job], jobs[job].num_gpus
    restart = m.growth * (jobs[job].pause_s + jobs[job].load_s)
    best_end = wait + left
    found = False
    for place in range(num_places(s, jobs, m, job)):
        if not choose_empty(s, m, list_gpus(s, m, place), wanted):
            continue
        slow = slowest_type_chosen(s, jobs, m, job, wanted)
        # Either it finishes on the slow GPUs, or it moves after `wait` with wait / slow of its work done.
        ends = min(left * slow, wait + left - wait / slow + restart)
        if ends < best_end:
            best_end, found = ends, True
            note_placement(jobs, m, job, m.chosen[:wanted], jobs[job].servers)
    return (
        found and legality.why_no_start(s, jobs, job, legality.Seat(m.gpus[:wanted], 0.0, NOBODY, 0, -1)) == 0
    )


@compiled
def find_job_for_slow_gpus(s, jobs, m):
    """Return the first claimant that should run on slow GPUs while it waits, else NOBODY; note the placement."""
    ahead = 0
    for at in range(m.num_claimants):
        job = m.claimants[at]
        ahead += jobs[job].num_gpus
        if s.phase[job] == RUNNING or job == m.pending_job or s.last_action_instant[job] == s.instant:
            continue
        if finds_slow_start(s, jobs, m, job, ahead):
            return job
    return NOBODY
