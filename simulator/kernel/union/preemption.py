"""Preemption: which running jobs to pause for another, if the job gains more than they lose.

The rule is that of Xion (`baselines.xion`). A displacement gains

    time until the job ends without a pause - time until it ends with it - caution x loss of others
    loss of others = sum over victims (time until the job ends + load) + (waiting jobs - 1) x overhead

where the overhead is the GPU-seconds of pauses and loads, over all GPUs. If other jobs wait too, the next free GPUs are
theirs; then the job is taken to wait, to the degree `backlog`, for as long as its victims would hold their GPUs. All
times are estimates.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, PAUSING, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import TIME_MARGIN_S
from gpu_cluster_gym.simulator.kernel.cluster.plan import PAUSE, propose
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers
from gpu_cluster_gym.simulator.kernel.cluster.tenants import most_gpus
from gpu_cluster_gym.simulator.kernel.rankings.room import (
    Pool,
    cheapest,
    cheapest_in,
    cores_to_serve,
    find_room,
    holding_nodes,
)
from gpu_cluster_gym.simulator.kernel.union.candidates import end_on_fast_gpus
from gpu_cluster_gym.simulator.kernel.union.estimates import left_from_start
from gpu_cluster_gym.simulator.kernel.union.job_shapes import (
    MAX_NAMED_GPUS,
    exceeds_any_node,
    find_shapes,
    type_slowdown_on,
)
from gpu_cluster_gym.simulator.kernel.union.seats import (
    find_seats,
    list_gpus,
    may_be_evicted,
    must_be_exclusive,
    note_opening,
    num_places,
    pause_opens_seat,
)
from gpu_cluster_gym.simulator.kernel.union.weights import copy_entries

MAX_TRIED = 8  # claimants for which pauses are searched, if GPU types differ; our choice


@compiled
def soonest_opening(m, count, wanted):
    """Return the seconds until this number of GPUs of the listed place have a seat for the job."""
    for k in range(count):
        opens, at = m.opens_s[m.place_gpus[k]], min(k, wanted)
        # Keep the soonest openings only, in order.
        while at > 0 and m.opens_s[m.ranked[at - 1]] > opens:
            if at < wanted:
                m.ranked[at] = m.ranked[at - 1]
            at -= 1
        if at < wanted:
            m.ranked[at] = m.place_gpus[k]
    return m.opens_s[m.ranked[wanted - 1]]


@compiled
def slowest_type_listed(s, jobs, m, job, count):
    """Return the slowdown of a job by the slowest GPU type of the listed place."""
    slow = 1.0
    if m.typed:
        for k in range(count):
            slow = max(slow, type_slowdown_on(s, jobs, m, job, s.gpu_node[m.place_gpus[k]]))
    return slow


@compiled
def end_without_pauses(s, jobs, m, job):
    """Return the seconds until a job would end, and start, without pauses, in its cheapest shape."""
    best = 0
    for shape in range(m.num_shapes):
        if m.shape_time[shape] * (1 + m.gpu_price * m.shape_workers[shape]) < m.shape_time[best] * (
            1 + m.gpu_price * m.shape_workers[best]
        ):
            best = shape
    end, start = np.inf, np.inf
    for place in range(num_places(s, jobs, m, job)):
        count = list_gpus(s, m, place)
        if count >= m.shape_workers[best]:
            slow = slowest_type_listed(s, jobs, m, job, count)
            opens = soonest_opening(m, count, m.shape_workers[best])
            start = min(start, opens)
            end = min(end, opens + m.shape_time[best] * slow * m.left_s[job])
    return end, start


@compiled
def list_candidates(m, count):
    """List the possible victims on a place, the last job first, and the GPUs that each frees; return their number."""
    listed = 0
    for k in range(count):
        job = m.victim_on[m.place_gpus[k]]
        if job == NOBODY:
            continue
        at = 0
        while at < listed and m.candidates[at] > job:
            at += 1
        if at < listed and m.candidates[at] == job:
            m.candidate_gpus[at] += 1
            continue
        for later in range(listed, at, -1):
            m.candidates[later] = m.candidates[later - 1]
            m.candidate_gpus[later] = m.candidate_gpus[later - 1]
        m.candidates[at] = job
        m.candidate_gpus[at] = 1
        listed += 1
    return listed


@compiled
def choose_victims(s, jobs, m, wanted, num_candidates, own_s):
    """Choose the cheapest victims that free this number of GPUs: a knapsack by `victim_cost`.

    Return their number, and the seconds for which they would hold their GPUs, averaged over these. There are enough.
    """
    cost, left_s = m.candidate_cost[:num_candidates], m.candidate_left_s[:num_candidates]
    for at in range(num_candidates):
        job, gpus = m.candidates[at], m.candidate_gpus[at]
        cost[at] = victim_cost(s, jobs, m, job, own_s, min(gpus, wanted) / wanted)
        left_s[at] = m.left_s[job]
    jobs_offered, gpus = m.candidates[:num_candidates], m.candidate_gpus[:num_candidates]
    if wanted <= MAX_NAMED_GPUS:
        count = cheapest_in(wanted, jobs_offered, gpus, cost, left_s, m.best_sets, m.sets)
        copy_entries(m.sets[wanted], m.victims, count)
    else:
        count = cheapest(wanted, jobs_offered, gpus, cost, left_s, m.victims)[0]
    held_gpu_s, freed = 0.0, 0
    for k in range(count):
        for at in range(num_candidates):
            if m.candidates[at] == m.victims[k]:
                held_gpu_s += left_s[at] * m.candidate_gpus[at]
                freed += m.candidate_gpus[at]
    return count, held_gpu_s / max(freed, 1)


@compiled
def victim_cost(s, jobs, m, victim, own_s, share):
    """Return the cost of a victim that frees a share of the GPUs that a job needs for `own_s` seconds.

    GPU-seconds of its pause and load if no other job waits; else its part of the loss, less its part of the wait saved.
    """
    overhead = (jobs[victim].pause_s + jobs[victim].load_s) * s.width[victim]
    weight = hold_weight(m)
    if weight == 0:
        return overhead
    lost = own_s + jobs[victim].load_s + (m.num_order - 1) * overhead / s.num_gpus
    return m.caution * lost - weight * share * m.left_s[victim]


@compiled
def hold_weight(m):
    """Return the degree to which a queued job is taken to wait for as long as its victims would hold their GPUs.

    Of n waiting jobs all but one take what opens earlier: backlog x (1 - 1 / n).
    """
    return m.backlog * (1.0 - 1.0 / m.num_order) if m.num_order > 1 else 0.0


@compiled
def choose_freed_gpus(s, m, place_gpus, workers, num_victims):
    """Choose the GPUs of a place that a job would get, those with a seat first; return its slowdown there.

    With tenants those of the victims come first, since the others count against the quota.
    """
    count = 0
    slow = 0.0
    for with_seat in (s.num_tenants == 0, s.num_tenants > 0):
        for gpu in place_gpus:
            has_seat = m.slowdown[gpu] < np.inf
            if count == workers or has_seat != with_seat:
                continue
            freed = False
            for k in range(num_victims):
                freed |= m.victim_on[gpu] == m.victims[k]
            if has_seat or freed:
                m.chosen[count] = gpu
                count += 1
                slow = max(slow, m.slowdown[gpu] if has_seat else m.slowdown_after[gpu])
    return slow


@compiled
def loss_of_others(s, jobs, m, num_victims, waiting, own_s):
    """Return the seconds that others lose if a job takes the place of the victims until `own_s` seconds from now."""
    loss = 0.0
    overhead = 0.0
    for k in range(num_victims):
        victim = m.victims[k]
        loss += own_s + jobs[victim].load_s
        overhead += (jobs[victim].pause_s + jobs[victim].load_s) * s.width[victim]
    return loss + (waiting - 1) * overhead / s.num_gpus


@compiled
def longest_pause(jobs, m, num_victims):
    """Return the seconds until the last victim has paused."""
    pause = 0.0
    for k in range(num_victims):
        pause = max(pause, jobs[m.victims[k]].pause_s)
    return pause


@compiled
def can_displace_any(s, jobs, m, job):
    """Return whether some running job may be paused and its GPUs then have a seat for a job."""
    m.exclusive = must_be_exclusive(s, job)
    for k in range(s.num_active):
        other = s.events[k]
        if may_be_evicted(s, m, job, other) and pause_opens_seat(s, jobs, m, job, other):
            return True
    return False


@compiled
def gain_bound(m, alone, min_victims, max_left):
    """Return an upper bound of the gain of a job that takes `alone` seconds by itself and needs `min_victims` pauses.

    No victim has longer to go than `max_left`; each loses at least the time that the job takes.
    """
    held_s = hold_weight(m) * max(max_left - m.unaided_start_s, 0.0)
    return (
        m.unaided_end_s + held_s - (1.0 + m.caution * min_victims) * alone + (1.0 + m.caution) * TIME_MARGIN_S
    )


@compiled
def displacement_gain(s, jobs, m, job, shape, wanted, count, num_candidates):
    """Return the gain of a job in a shape by the cheapest victims on a place, their number, and its slowdown there.

    wanted: GPUs to free. count: GPUs of the place. The victims and the GPUs are noted.
    """
    workers, time = m.shape_workers[shape], m.shape_time[shape]
    num_victims, held_s = choose_victims(s, jobs, m, wanted, num_candidates, time * m.own_left_s)
    if num_victims == 0:
        return -np.inf, 0, 0.0
    slow = choose_freed_gpus(s, m, m.place_gpus[:count], workers, num_victims)
    own_pause = jobs[job].pause_s if s.phase[job] == RUNNING else 0.0
    own_s = max(longest_pause(jobs, m, num_victims), own_pause) + time * slow * m.own_left_s
    gain = (
        m.unaided_end_s
        - own_s
        - m.caution * loss_of_others(s, jobs, m, num_victims, max(m.num_order, 1), own_s)
    )
    if held_s > m.unaided_start_s:
        gain += hold_weight(m) * (held_s - m.unaided_start_s)
    return gain, num_victims, slow


@compiled
def find_best_displacement(s, jobs, m, job, ends, best_gain):
    """Find the best displacement for a job without a seat; return its gain in seconds.

    `best_gain` as passed if none gains more. A running job gains relative to staying where it is. Of equal gains the
    first shape, then the first place counts.

    ends: seconds until the job would end if it waits; infinite to compute it here.
    """
    m.own_left_s = left_from_start(s, jobs, m, job)
    if not can_displace_any(s, jobs, m, job):
        return best_gain
    find_shapes(s, jobs, m, job)
    find_seats(s, jobs, m, job, -1)
    for gpu in range(s.num_gpus):
        note_opening(s, jobs, m, job, gpu)
    m.unaided_end_s, m.unaided_start_s = ends, ends - m.left_s[job]
    if s.phase[job] == RUNNING:
        m.unaided_end_s, m.unaided_start_s = m.left_s[job], np.inf
    elif ends == np.inf:
        m.unaided_end_s, m.unaided_start_s = end_without_pauses(s, jobs, m, job)
    best_shape = 0
    most_seats = most_gpus(s, jobs, job)
    for place in range(num_places(s, jobs, m, job)):
        count = list_gpus(s, m, place)
        num_seats = 0
        for k in range(count):
            num_seats += m.slowdown[m.place_gpus[k]] < np.inf
        num_seats = min(num_seats, most_seats)
        num_candidates = list_candidates(m, count)
        num_freed, max_freed, max_left = 0, 0, 0.0
        for k in range(num_candidates):
            num_freed += m.candidate_gpus[k]
            max_freed = max(max_freed, m.candidate_gpus[k])
            max_left = max(max_left, m.left_s[m.candidates[k]])
        for shape in range(m.num_shapes):
            wanted, alone = m.shape_workers[shape] - num_seats, m.shape_time[shape] * m.own_left_s
            if m.shape_workers[shape] > count or not 0 < wanted <= num_freed:
                continue
            # Skip a shape that cannot win with the fewest pauses and the longest waits.
            if gain_bound(m, alone, (wanted - 1) // max_freed + 1, max_left) < best_gain:
                continue
            gain, num_victims, slow = displacement_gain(s, jobs, m, job, shape, wanted, count, num_candidates)
            if gain > best_gain or (gain == best_gain and shape < best_shape):
                best_gain, best_shape = gain, shape
                note_displacement(m, m.shape_workers[shape], m.shape_servers[shape], num_victims, slow)
    return best_gain


@compiled
def note_displacement(m, workers, servers, num_victims, slow):
    """Note the chosen GPUs, victims and servers, and the slowdown there, as the best displacement so far."""
    m.num_best_gpus = workers
    m.best_servers = servers
    copy_entries(m.chosen, m.best_gpus, m.num_best_gpus)
    m.num_best_victims = num_victims
    copy_entries(m.victims, m.best_victims, num_victims)
    m.best_slowdown = slow


# Decisions.


@allocating
def find_multi_node_displacement(s, jobs, m, job):
    """Find victims for a queued job that exceeds any node, as it asks; return the gain in seconds, or 0.

    As on one node, except that only `backlog` counts as its wait: when this many GPUs would become free is unknown.
    """
    weight = hold_weight(m)
    m.own_left_s = m.left_s[job]
    if weight == 0:
        return 0.0
    wanted = jobs[job].num_gpus
    offered, cost = np.zeros(s.num_arrived, np.bool_), np.zeros(s.num_arrived)
    for k in range(s.num_active):
        other = s.events[k]
        offered[other] = may_be_evicted(s, m, job, other) and is_alone(s, other)
        cost[other] = victim_cost(s, jobs, m, other, m.left_s[job], min(s.width[other] / wanted, 1.0))
    each = cores_of_servers(s.servers[job], s.workers[job], s.width[job])
    pool = Pool(
        offered, cost, m.left_s, cores_to_serve(s, each), False, most_gpus(s, jobs, job), s.tenant[job]
    )
    count = find_room(s, pool, holding_nodes(s, jobs, job), wanted, each, m.victims, m.chosen)[0]
    if count <= 0:
        return 0.0
    note_displacement(m, wanted, jobs[job].servers, count, 1.0)
    held_gpu_s, freed = 0.0, 0
    for k in range(count):
        held_gpu_s += m.left_s[m.victims[k]] * s.width[m.victims[k]]
        freed += s.width[m.victims[k]]
    pause = longest_pause(jobs, m, count)
    loss = loss_of_others(s, jobs, m, count, m.num_order, pause + m.left_s[job])
    return max(weight * held_gpu_s / freed - pause - m.caution * loss, 0.0)


@compiled
def propose_displacement(s, jobs, m):
    """Propose the pauses for the first claimant for which they pay; return whether there is one.

    If GPU types differ, claimants behind the first `contenders` may take slow GPUs that others hold.
    """
    if m.preemption == 0 or m.pending_job != NOBODY:
        return False
    ahead, tried = 0, 0
    for at in range(m.num_claimants if m.typed else min(m.num_claimants, int(m.contenders))):
        job = m.claimants[at]
        ahead += jobs[job].num_gpus
        # When the job ends if it waits; infinite to compute it later, -1 if no pauses are considered for it.
        end = end_on_fast_gpus(s, jobs, m, job, ahead) if m.typed and at > 0 else np.inf
        if end < 0.0 and at < m.contenders and s.phase[job] == QUEUED:
            end = np.inf
        if s.last_action_instant[job] == s.instant or end < 0.0:
            continue
        # A job that exceeds any node may start on several nodes, or with as many workers as one node has.
        gain = 0.0
        if s.phase[job] == QUEUED and exceeds_any_node(s, jobs, m, job):
            gain = find_multi_node_displacement(s, jobs, m, job)
        if find_best_displacement(s, jobs, m, job, end, gain) > 0.0:
            m.is_choice = 1
            propose_pauses(
                m, job, m.best_gpus[: m.num_best_gpus], m.best_servers, m.best_victims[: m.num_best_victims]
            )
            return True
        tried += 1
        if tried >= max(MAX_TRIED, m.contenders):
            break
    return False


@compiled
def propose_pauses(m, job, gpus, servers, victims):
    """Propose the pauses of victims, and note the GPUs being freed as pending for a job with this number of servers."""
    m.pending_job = job
    m.pending_servers = servers
    m.num_pending = len(gpus)
    copy_entries(gpus, m.pending_gpus, len(gpus))
    for victim in victims:
        propose(m, PAUSE, victim, 0.0)


@compiled
def is_still_pausing(s, m):
    """Return whether some pending GPU is still held by a pausing job."""
    for k in range(m.num_pending):
        gpu = m.pending_gpus[k]
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            if s.job_in[slot] != NOBODY and s.phase[s.job_in[slot]] == PAUSING:
                return True
    return False


@compiled
def fits_pending(s, jobs, m, job):
    """Return whether the pending GPUs have a slot, and memory, for the pending job."""
    for k in range(m.num_pending):
        gpu = m.pending_gpus[k]
        if s.num_jobs_on[gpu] >= s.max_share:
            return False
        if s.num_jobs_on[gpu] > 0 and m.free_memory_gib[gpu] < jobs[job].profiled_memory_gib:
            return False
    return True
