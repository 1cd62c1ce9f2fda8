"""What the rule over moves finds worth doing next: a start, pauses for one, a move, cores, a throttle.

What is decided in one go (pauses for a job, cores given up for a start) is put on a list of moves, which
`simulator.kernel.rule_over_moves` makes one after another.
"""

import numpy as np

from simulator.kernel import events
from simulator.kernel._compile import compiled
from simulator.kernel.core_memory import MOVE, PAUSE, START, propose
from simulator.kernel.cores import WHOLE, change_cores, divide, note_wishes, start_beside_reserves
from simulator.kernel.giving_way import best_displacement, find_room_beyond
from simulator.kernel.layout import MAX_SHARE, NOBODY, PAUSING, QUEUED
from simulator.kernel.offers import best_seats, fill_placement, worth_moving
from simulator.kernel.placement import place
from simulator.kernel.rule_memory import copy
from simulator.kernel.seats import EPS, see
from simulator.kernel.throttling import throttle_one
from simulator.kernel.trust import learn_cores
from simulator.kernel.tuning import list_running, watch
from simulator.kernel.ways import duty_of, most_on_a_node

HOUR = 3600.0


@compiled
def drop_moves(m):
    """Forget the moves that have been decided on."""
    m.num_moves = 0
    m.next_move = 0
    m.is_choice = 0


@compiled
def divides(s, m):
    """Tell whether the rule divides cores."""
    return m.cores > 0 and s.cpu_limited


@compiled
def is_barred(s, m, job):
    """Tell whether a queued job may not be tried now: it has been at this instant, or was paused or failed at it."""
    return m.refused_at[job] == s.instant or s.last_action_instant[job] == s.instant


@compiled
def key_of(s, jobs, m, job):
    """Return the key of a queued job, smallest first: what it has to go, times its GPUs to a power, and weights."""
    gpus = jobs[job].num_gpus
    key = m.left_s[job] * gpus**m.exponent if gpus > 1 else m.left_s[job]
    if m.by_duty == 0 and m.by_memory == 0 and m.by_doubt == 0 and m.by_age == 0:
        return key
    weight = m.by_duty * duty_of(jobs, job)
    weight += m.by_memory * jobs[job].profiled_memory_gib / s.level_memory[s.num_levels - 1]
    weight += m.by_doubt * (1 - s.predictable[job])
    weight += m.by_age * np.log1p((s.clock - jobs[job].submit_s) / HOUR)
    return key * np.exp(weight)


@compiled
def insert_by_key(m, listed, count, job):
    """Insert a job into a list that is sorted by (key, job)."""
    at = count
    while at > 0:
        before = listed[at - 1]
        if m.key[before] < m.key[job] or (m.key[before] == m.key[job] and before < job):
            break
        listed[at] = before
        at -= 1
    listed[at] = job


@compiled
def sort_queue(s, jobs, m):
    """List the queued jobs: those with GPUs in order, the others by job.

    The last order is taken to begin with: little has changed since, and what is nearly sorted is sorted quickly.
    """
    m.num_on_cores = 0
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            job = s.queue[at]
            if jobs[job].num_gpus > 0:
                m.key[job] = key_of(s, jobs, m, job)
                m.to_list[job] = 1
            else:
                m.key[job] = 0.0
                insert_by_key(m, m.on_cores, m.num_on_cores, job)
                m.num_on_cores += 1
    before, m.num_order = m.num_order, 0
    for at in range(before):
        list_once(m, m.order[at])
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            list_once(m, s.queue[at])


@compiled
def list_once(m, job):
    """Put a job into the order if it is to be listed and is not yet."""
    if m.to_list[job]:
        m.to_list[job] = 0
        insert_by_key(m, m.order, m.num_order, job)
        m.num_order += 1


@compiled
def look(s, jobs, m):
    """Read the state as it is now."""
    list_running(s, m)
    if divides(s, m) and m.instant != s.instant:
        watch(s, jobs, m)
    if m.instant != s.instant:
        m.instant = s.instant
        m.has_divided = 0
    if m.kept_for != NOBODY and s.phase[m.kept_for] != QUEUED:
        m.kept_for = NOBODY
        m.num_kept = 0
    see(s, jobs, m)
    if divides(s, m):
        learn_cores(s, jobs, m)
        note_wishes(s, jobs, m)
    m.lacking[: s.num_nodes] = 0.0
    sort_queue(s, jobs, m)
    m.price_now = m.price * (max(m.num_order - 1, 0) + m.expected) / s.num_gpus


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
def sit(s, jobs, m, job):
    """Propose the start of a job on the GPUs noted, after what others must give up so that each has a core."""
    m.has_divided = 0
    if divides(s, m):
        for k in range(m.num_gpus):
            if s.num_jobs_on[m.gpus[k]] > 0:
                m.lacking[s.gpu_node[m.gpus[k]]] += 1.0
        lack = 0.0
        for node in range(s.num_nodes):
            if s.unreserved_cores[node] + EPS >= m.lacking[node]:
                m.lacking[node] = 0.0
            lack += m.lacking[node]
        if lack > 0:
            divide(s, jobs, m, WHOLE)
            change_cores(s, m, True, False)
    m.node = NOBODY
    propose(m, START, job, m.new_cores if divides(s, m) and jobs[job].servers == 0 else 0.0)


@compiled
def start_kept(s, jobs, m):
    """Propose the start of the job whose GPUs were being freed, if they are; tell whether it does."""
    job = m.kept_for
    if job == NOBODY or is_still_held(s, m):
        return False
    m.kept_for = NOBODY
    if takes_kept(s, jobs, m, job):
        fill_placement(m, m.kept_gpus[: m.num_kept])
        m.num_kept = 0
        sit(s, jobs, m, job)
        return True
    m.num_kept = 0
    return False


@compiled
def propose_placed(s, jobs, m, job):
    """Propose the start of a job where the scenario's rule has just placed it, with the cores it asks for."""
    m.num_gpus = jobs[job].num_gpus
    copy(s.gpus, m.gpus, m.num_gpus)
    m.node = s.chosen_node[0] if m.num_gpus == 0 else NOBODY
    propose(m, START, job, 0.0)


@compiled
def start_one(s, jobs, m):
    """Propose the start of the first in order that finds seats; tell whether one does."""
    if start_kept(s, jobs, m):
        return True
    for at in range(m.num_order):
        job = m.order[at]
        if job == m.kept_for or is_barred(s, m, job):
            continue
        as_asked = s.cpu_limited and (not divides(s, m) or jobs[job].servers > 0)
        if best_seats(s, jobs, m, job, jobs[job].cores_each if as_asked else 1.0):
            m.is_choice = 1
            sit(s, jobs, m, job)
            return True
        beyond_a_node = jobs[job].num_gpus > most_on_a_node(s, jobs, job)
        if beyond_a_node and m.kept_for == NOBODY and place(s, jobs, job):
            m.is_choice = 1
            propose_placed(s, jobs, m, job)
            return True
        m.refused_at[job] = s.instant
    return False


@compiled
def start_on_cores(s, jobs, m):
    """Propose the start of the first CPU job that finds a node; tell whether one does."""
    for at in range(m.num_on_cores):
        job = m.on_cores[at]
        if s.last_action_instant[job] == s.instant:
            continue
        if not divides(s, m):
            if place(s, jobs, job):
                propose_placed(s, jobs, m, job)
                return True
            continue
        if start_beside_reserves(s, jobs, m, job):
            return True
    return False


@compiled
def displace(s, jobs, m):
    """Propose the pauses by which one of the first in order gets seats, if that pays; tell whether it does."""
    if m.preemption == 0 or m.kept_for != NOBODY:
        return False
    for at in range(min(m.num_order, int(m.contenders))):
        job = m.order[at]
        if s.last_action_instant[job] == s.instant:
            continue
        if jobs[job].num_gpus > most_on_a_node(s, jobs, job):
            pays = find_room_beyond(s, jobs, m, job, m.num_order)
        else:
            pays = best_displacement(s, jobs, m, job, m.num_order, 0.0) > 0.0
        if pays:
            m.is_choice = 1
            displace_for(m, job, m.wanted[: m.num_wanted], m.to_evict[: m.num_evicted])
            return True
    return False


@compiled
def displace_for(m, job, gpus, victims):
    """Propose the pauses of victims, and keep GPUs for a job."""
    m.kept_for = job
    m.num_kept = len(gpus)
    copy(gpus, m.kept_gpus, len(gpus))
    for victim in victims:
        propose(m, PAUSE, victim, 0.0)


@compiled
def move_one(s, jobs, m):
    """Propose to give empty GPUs for which no job waits to the job that gains most by them; tell whether one does."""
    if m.sizing == 0 or m.num_order > 0:
        return False
    job = worth_moving(s, jobs, m)
    if job == NOBODY:
        return False
    m.is_choice = 1
    m.node = NOBODY
    propose(m, MOVE, job, m.new_cores if divides(s, m) and jobs[job].servers == 0 else 0.0)
    return True


@compiled
def feed(s, jobs, m):
    """Propose how cores are divided anew, once after each change, and a throttle; tell whether there is a change."""
    if not divides(s, m) or m.has_divided:
        return False
    m.has_divided = 1
    m.lacking[: s.num_nodes] = 0.0
    divide(s, jobs, m, WHOLE)
    change_cores(s, m, False, True)
    if m.num_moves > 0:
        return True
    found = throttle_one(s, jobs, m)
    m.has_divided = not found
    return found


@compiled
def start_anything(s, jobs, m):
    """Propose the start of the first for which the scenario's rule finds a place, where nothing would happen else."""
    if events.next_event(s, jobs) < np.inf:
        return False
    for at in range(m.num_order):
        job = m.order[at]
        if s.last_action_instant[job] != s.instant and place(s, jobs, job):
            propose_placed(s, jobs, m, job)
            return True
    return False


@compiled
def find_moves(s, jobs, m):
    """Put on the list what to do next; tell whether there is anything."""
    drop_moves(m)
    look(s, jobs, m)
    return (
        start_on_cores(s, jobs, m)
        or start_one(s, jobs, m)
        or displace(s, jobs, m)
        or move_one(s, jobs, m)
        or feed(s, jobs, m)
        or start_anything(s, jobs, m)
    )
