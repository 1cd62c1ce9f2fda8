"""Which running jobs to pause for another: whether what it wins is worth what they lose. All times are estimates."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import TIME_MARGIN_S
from gpu_cluster_gym.simulator.kernel.rankings.room import cheapest, cheapest_in
from gpu_cluster_gym.simulator.kernel.rule.places import list_gpus, num_places
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import MOST_GPUS, copy
from gpu_cluster_gym.simulator.kernel.rule.seats import (
    look_for,
    may_be_evicted,
    may_make_room,
    must_be_alone,
    open_gpu,
)
from gpu_cluster_gym.simulator.kernel.rule.type_speeds import left_anew, slow_on
from gpu_cluster_gym.simulator.kernel.rule.ways import find_ways


@compiled
def soonest(m, count, wanted):
    """Return when so many GPUs of a place have a seat for the job that was looked for."""
    for k in range(count):
        opens, at = m.opens_s[m.among[k]], min(k, wanted)
        while at > 0 and m.opens_s[m.ranked[at - 1]] > opens:
            if at < wanted:
                m.ranked[at] = m.ranked[at - 1]
            at -= 1
        if at < wanted:
            m.ranked[at] = m.among[k]
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
def unaided(s, jobs, m, job):
    """Return the seconds until a job would end, and begin, that starts in its cheapest shape when others end."""
    best = 0
    for way in range(m.num_ways):
        if m.pace[way] * (1 + m.price_now * m.way_workers[way]) < m.pace[best] * (
            1 + m.price_now * m.way_workers[best]
        ):
            best = way
    ends, begins = np.inf, np.inf
    for place in range(num_places(s, jobs, m, job)):
        count = list_gpus(s, m, place)
        if count >= m.way_workers[best]:
            slow = slowest_among(s, jobs, m, job, count)
            opens = soonest(m, count, m.way_workers[best])
            begins = min(begins, opens)
            ends = min(ends, opens + m.pace[best] * slow * m.left_s[job])
    return ends, begins


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


@compiled
def sum_up_offers(m, num_offers):
    """Return how many GPUs the jobs offered would free in all, and one at most, and the longest that one has to go."""
    gpus, widest, longest = 0, 0, 0.0
    for at in range(num_offers):
        gpus += m.offers_gpus[at]
        widest = max(widest, m.offers_gpus[at])
        longest = max(longest, m.left_s[m.offered[at]])
    return gpus, widest, longest


@compiled
def cheapest_on(s, jobs, m, wanted, num_offers, mine):
    """Note the cheapest of the jobs offered that free so many GPUs, by the GPU-seconds of pauses and loads.

    Where others wait too, by what is lost by each, less what its hold counts of the job's wait. Return their number,
    and the seconds that they would hold GPUs, in the mean over the GPUs that each would free. There are so many GPUs.
    """
    cost, left = m.offers_cost[:num_offers], m.offers_left_s[:num_offers]
    for at in range(num_offers):
        job, gpus = m.offered[at], m.offers_gpus[at]
        cost[at] = cost_of_pause(s, jobs, m, job, mine, min(gpus, wanted) / wanted)
        left[at] = m.left_s[job]
    offered, gpus = m.offered[:num_offers], m.offers_gpus[:num_offers]
    if wanted <= MOST_GPUS:
        count = cheapest_in(wanted, offered, gpus, cost, left, m.best_sets, m.sets)
        copy(m.sets[wanted], m.victims, count)
    else:
        count = cheapest(wanted, offered, gpus, cost, left, m.victims)[0]
    held, freed = 0.0, 0
    for k in range(count):
        for at in range(num_offers):
            if m.offered[at] == m.victims[k]:
                held += left[at] * m.offers_gpus[at]
                freed += m.offers_gpus[at]
    return count, held / max(freed, 1)


@compiled
def cost_of_pause(s, jobs, m, victim, mine, share):
    """Return what speaks against a victim, which would free a share of what a job needs that takes `mine` seconds."""
    area = (jobs[victim].pause_s + jobs[victim].load_s) * s.width[victim]
    counted = hold_counted(m)
    if counted == 0:
        return area
    lost = mine + jobs[victim].load_s + (m.num_order - 1) * area / s.num_gpus
    return m.caution * lost - counted * share * m.left_s[victim]


@compiled
def hold_counted(m):
    """Return how far a queued job is taken to wait for as long as its victims would hold their GPUs.

    Of those that wait, all but one take what opens before.
    """
    return m.backlog * (1.0 - 1.0 / m.num_order) if m.num_order > 1 else 0.0


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
def may_displace_any(s, jobs, m, job):
    """Tell whether some running job may be paused for another that then has room on its GPUs."""
    m.alone = must_be_alone(s, job)
    for k in range(s.num_active):
        other = s.events[k]
        if may_be_evicted(m, job, other) and may_make_room(s, jobs, m, job, other):
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
def find_openings(s, jobs, m, job):
    """Write the ways in which a job can run, and of each GPU when it has a seat for it, with a pause or without."""
    find_ways(s, jobs, m, job)
    look_for(s, jobs, m, job, -1)
    for gpu in range(s.num_gpus):
        open_gpu(s, jobs, m, job, gpu)


@compiled
def most_won(m, alone, fewest, longest):
    """Return more than a job can win that takes `alone` seconds, by so many pauses at least.

    None of the victims has longer to go than `longest`; each loses what the job takes at least.
    """
    held = hold_counted(m) * max(longest - m.begins_s, 0.0)
    return m.ends_s + held - (1.0 + m.caution * fewest) * alone + (1.0 + m.caution) * TIME_MARGIN_S


@compiled
def won_there(s, jobs, m, job, way, wanted, count, num_offers):
    """Return what a job wins in a way by the cheapest pauses for so many GPUs of a place, how many, and its slowdown.

    The victims and the GPUs are noted. count: GPUs of the place.
    """
    workers, pace = m.way_workers[way], m.pace[way]
    num_victims, held = cheapest_on(s, jobs, m, wanted, num_offers, pace * m.anew_s)
    if num_victims == 0:
        return -np.inf, 0, 0.0
    slow = choose_gpus(m, m.among[:count], workers, num_victims)
    own_pause = jobs[job].pause_s if s.phase[job] == RUNNING else 0.0
    mine = max(longest_pause(jobs, m, num_victims), own_pause) + pace * slow * m.anew_s
    gain = m.ends_s - mine - m.caution * loss_s(s, jobs, m, num_victims, max(m.num_order, 1), mine)
    if held > m.begins_s:
        gain += hold_counted(m) * (held - m.begins_s)
    return gain, num_victims, slow


@compiled
def best_displacement(s, jobs, m, job, ends, least):
    """Find the jobs to pause for one that has no seat; return the seconds won, or `least` where none wins more.

    The rule is Xion's (`baselines.xion`): what the job gains, by starting after the pause and not when another ends,
    less `caution` times what others lose: each victim until the job has ended, and its load; all that wait, the
    overhead. But where others wait too, what ends next is theirs: then the job waits, by `backlog`, for as long as its
    victims would go on. A running job gains over going on where it is. The victims and the GPUs are noted: those of
    the first way, and then of the first place, of equals.
    ends: s until it would end if it waits; infinite if that is still to be found.
    """
    m.anew_s = left_anew(s, jobs, m, job)
    if not may_displace_any(s, jobs, m, job):
        return least
    find_openings(s, jobs, m, job)
    m.ends_s, m.begins_s = ends, ends - m.left_s[job]
    if s.phase[job] == RUNNING:
        m.ends_s, m.begins_s = m.left_s[job], np.inf
    elif ends == np.inf:
        m.ends_s, m.begins_s = unaided(s, jobs, m, job)
    best_way = 0
    for place in range(num_places(s, jobs, m, job)):
        count = list_gpus(s, m, place)
        free, offers = count_open(m, count), list_offers(m, count)
        gpus, widest, longest = sum_up_offers(m, offers)
        for way in range(m.num_ways):
            wanted, alone = m.way_workers[way] - free, m.pace[way] * m.anew_s
            if m.way_workers[way] > count or not 0 < wanted <= gpus:
                continue
            if most_won(m, alone, (wanted - 1) // widest + 1, longest) < least:
                continue
            gain, num_victims, slow = won_there(s, jobs, m, job, way, wanted, count, offers)
            if gain > least or (gain == least and way < best_way):
                least, best_way = gain, way
                note_displacement(m, m.way_workers[way], m.way_servers[way], num_victims, slow)
    return least


@compiled
def note_displacement(m, workers, servers, num_victims, slow):
    """Note the GPUs and the victims just found, the servers that the job has then, and the slowdown there."""
    m.num_wanted = workers
    m.wanted_servers = servers
    copy(m.chosen, m.wanted, m.num_wanted)
    m.num_evicted = num_victims
    copy(m.victims, m.to_evict, num_victims)
    m.wanted_slowdown = slow
