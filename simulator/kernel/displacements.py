"""Which running jobs to pause for another: whether what it wins is worth what they lose. All times are estimates."""

import numpy as np

from simulator.kernel._compile import allocating, compiled
from simulator.kernel.core_memory import PAUSE, propose
from simulator.kernel.knapsack import cheapest
from simulator.kernel.layout import MAX_SHARE, NOBODY, PAUSING, RUNNING
from simulator.kernel.places import list_gpus, num_places
from simulator.kernel.rule_memory import copy
from simulator.kernel.seats import look_for, may_be_evicted, open_gpu
from simulator.kernel.slow_types import later_end
from simulator.kernel.type_speeds import left_anew, slow_on
from simulator.kernel.ways import find_ways

TRIED = 8  # jobs, of those that could gain by pauses, for which these are looked for; our choice


@compiled
def soonest(m, count, wanted):
    """Return when so many GPUs of a place have a seat for the job that was looked for."""
    for k in range(count):
        gpu = m.among[k]
        at = k
        while at > 0 and m.opens_s[m.ranked[at - 1]] > m.opens_s[gpu]:
            m.ranked[at] = m.ranked[at - 1]
            at -= 1
        m.ranked[at] = gpu
    return m.opens_s[m.ranked[wanted - 1]]


@compiled
def slowest_among(s, jobs, m, job, count):
    """Return the slowdown of a job by the type of the slowest GPUs of a place."""
    slow = 1.0
    if m.typed:
        for k in range(count):
            slow = max(slow, slow_on(s, jobs, m, job, s.gpu_node[m.among[k]]))
    return slow


@compiled
def ends_unaided(s, jobs, m, job):
    """Return the seconds until a job would end that starts, in its cheapest shape, when others end."""
    best = 0
    for way in range(m.num_ways):
        if m.pace[way] * (1 + m.price_now * m.workers[way]) < m.pace[best] * (
            1 + m.price_now * m.workers[best]
        ):
            best = way
    ends = np.inf
    for place in range(num_places(s, jobs, m, job)):
        count = list_gpus(s, m, place)
        if count >= m.workers[best]:
            slow = slowest_among(s, jobs, m, job, count)
            ends = min(ends, soonest(m, count, m.workers[best]) + m.pace[best] * slow * m.left_s[job])
    return ends


@compiled
def list_offers(m, count):
    """List the jobs that could be evicted from a place, the last first, and from how many GPUs; return their number."""
    listed = 0
    for k in range(count):
        job = m.evicted[m.among[k]]
        if job == NOBODY:
            continue
        at = 0
        while at < listed and m.offered[at] > job:
            at += 1
        if at < listed and m.offered[at] == job:
            m.offers_gpus[at] += 1
            continue
        for later in range(listed, at, -1):
            m.offered[later] = m.offered[later - 1]
            m.offers_gpus[later] = m.offers_gpus[later - 1]
        m.offered[at] = job
        m.offers_gpus[at] = 1
        listed += 1
    return listed


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
def choose_gpus(m, among, workers, num_victims):
    """List the GPUs of a place that a job would have, those with a seat first; return its slowdown there."""
    count = 0
    slow = 0.0
    for only_open in (True, False):
        for gpu in among:
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
def count_open(m, count):
    """Return how many GPUs of a place have a seat for the job that was looked for."""
    free = 0
    for k in range(count):
        free += m.slowdown[m.among[k]] < np.inf
    return free


@compiled
def best_displacement(s, jobs, m, job, ends, least):
    """Find the jobs to pause for one that has no seat; return the seconds won, or `least` where none wins more.

    The rule is Xion's (`baselines.xion`): what the job gains, by starting after the pause and not when another ends,
    less `caution` times what others lose: each victim until the job has ended, and its load; all that wait, the
    overhead. The victims and the GPUs are noted. A running job gains over going on where it is.
    ends: s until it would end if it waits; infinite if that is still to be found.
    """
    m.anew_s = left_anew(s, jobs, m, job)
    if not may_displace_any(s, m, job):
        return least
    find_ways(s, jobs, m, job)
    look_for(s, jobs, m, job)
    for gpu in range(s.num_gpus):
        open_gpu(s, jobs, m, job, gpu)
    runs = s.phase[job] == RUNNING
    if runs:
        ends = m.left_s[job]
    elif ends == np.inf:
        ends = ends_unaided(s, jobs, m, job)
    for way in range(m.num_ways):
        workers, pace = m.workers[way], m.pace[way]
        for place in range(num_places(s, jobs, m, job)):
            count = list_gpus(s, m, place)
            free = count_open(m, count)
            if workers > count or workers <= free:
                continue
            num_victims = cheapest_on(s, jobs, m, workers - free, list_offers(m, count))
            if num_victims == 0:
                continue
            slow = choose_gpus(m, m.among[:count], workers, num_victims)
            mine = max(longest_pause(jobs, m, num_victims), runs * jobs[job].pause_s) + pace * slow * m.anew_s
            gain = ends - mine - m.caution * loss_s(s, jobs, m, num_victims, max(m.num_order, 1), mine)
            if gain > least:
                least = gain
                note_displacement(m, way, num_victims, slow)
    return least


@compiled
def note_displacement(m, way, num_victims, slow):
    """Note the GPUs and the victims just found, and the slowdown there."""
    m.num_wanted = m.workers[way]
    m.wanted_servers = m.way_servers[way]
    copy(m.chosen, m.wanted, m.num_wanted)
    m.num_evicted = num_victims
    copy(m.victims, m.to_evict, num_victims)
    m.wanted_slowdown = slow


@compiled
def displace(s, jobs, m):
    """Propose the pauses by which the first in order gets seats, if that pays; tell whether it does.

    Where types of GPUs differ, jobs behind the first may take slow GPUs that others hold.
    """
    if m.preemption == 0 or m.kept_for != NOBODY:
        return False
    ahead, tried = 0, 0
    for at in range(m.num_standing if m.typed else min(m.num_standing, 1)):
        job = m.standing[at]
        ahead += jobs[job].num_gpus
        ends = later_end(s, jobs, m, job, ahead) if at > 0 else np.inf
        if s.last_action_instant[job] == s.instant or ends < 0.0:
            continue
        if best_displacement(s, jobs, m, job, ends, 0.0) > 0.0:
            m.is_choice = 1
            displace_for(m, job, m.wanted[: m.num_wanted], m.wanted_servers, m.to_evict[: m.num_evicted])
            return True
        tried += 1
        if tried == TRIED:
            break
    return False


@compiled
def is_still_held(s, m):
    """Tell whether a GPU that is kept is held by a job that pauses."""
    for k in range(m.num_kept):
        gpu = m.kept_gpus[k]
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            if s.job_in[slot] != NOBODY and s.phase[s.job_in[slot]] == PAUSING:
                return True
    return False


@compiled
def takes_kept(s, jobs, m, job):
    """Tell whether the GPUs that were kept for a job have a seat, and memory, for it now."""
    for k in range(m.num_kept):
        gpu = m.kept_gpus[k]
        if s.num_jobs_on[gpu] >= s.max_share:
            return False
        if s.num_jobs_on[gpu] > 0 and m.room_gib[gpu] < jobs[job].profiled_memory_gib:
            return False
    return True


@compiled
def displace_for(m, job, gpus, servers, victims):
    """Propose the pauses of victims, and keep GPUs for a job, which is to have so many servers."""
    m.kept_for = job
    m.kept_servers = servers
    m.num_kept = len(gpus)
    copy(gpus, m.kept_gpus, len(gpus))
    for victim in victims:
        propose(m, PAUSE, victim, 0.0)
