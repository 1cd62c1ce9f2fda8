"""Next action of `union`: start, preempt, migrate, reallocate cores, throttle.

The levers are tried in a fixed order (`find_next_moves`). What belongs together, such as the pauses for a job or the
cores given up for a start, is proposed as a list of moves, carried out one after another.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events, legality, pausing
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.placement import place
from gpu_cluster_gym.simulator.kernel.cluster.plan import (
    CORES,
    MOVE,
    PAUSE,
    START,
    WAIT,
    carry_out_next,
    propose,
)
from gpu_cluster_gym.simulator.kernel.cores.sharing import (
    LEVELS,
    WHOLE,
    any_throttled,
    change_cores,
    divide,
    start_beside_reserves,
    throttle_one,
)
from gpu_cluster_gym.simulator.kernel.cores.tuning import begin_windows
from gpu_cluster_gym.simulator.kernel.union.candidates import (
    find_best_move,
    find_cheapest_seats,
    find_job_for_slow_gpus,
    find_job_to_move,
    note_placement,
)
from gpu_cluster_gym.simulator.kernel.union.job_shapes import CORE_EPS, exceeds_any_node
from gpu_cluster_gym.simulator.kernel.union.preemption import (
    fits_pending,
    is_still_pausing,
    propose_displacement,
)
from gpu_cluster_gym.simulator.kernel.union.state_cache import divides_cores, is_any_empty, read_state
from gpu_cluster_gym.simulator.kernel.union.weights import copy_entries

RETRY, GIVE_UP = -1, -2  # instead of the kind of a move

# Levers, each of which proposes moves and returns whether it did.


@compiled
def clear_moves(m):
    """Clear the list of moves."""
    m.num_moves = 0
    m.next_move = 0
    m.servers = -1
    m.is_choice = 0
    m.is_placed = 0


@compiled
def propose_start(s, jobs, m, job):
    """Propose the start of a job on the noted GPUs, after the moves by which others give up cores for it.

    Each worker that shares a GPU needs a core, which must come from the running jobs of its node if none is free.
    """
    m.has_divided = 0
    if divides_cores(s, m):
        for k in range(m.num_gpus):
            if s.num_jobs_on[m.gpus[k]] > 0:
                m.lacking[s.gpu_node[m.gpus[k]]] += 1.0
        lack = 0.0
        for node in range(s.num_nodes):
            if s.unreserved_cores[node] + CORE_EPS >= m.lacking[node]:
                m.lacking[node] = 0.0
            lack += m.lacking[node]
        if lack > 0:
            divide(s, jobs, m, WHOLE)
            change_cores(s, m, True, False)
    m.node = NOBODY
    propose(m, START, job, m.new_cores if divides_cores(s, m) and jobs[job].servers == 0 else 0.0)


@compiled
def propose_placed_start(s, jobs, m, job):
    """Propose the start of a job where the scenario's rule has just placed it, with the cores it asks for."""
    m.num_gpus = jobs[job].num_gpus
    copy_entries(s.gpus, m.gpus, m.num_gpus)
    m.node = s.chosen_node[0] if m.num_gpus == 0 else NOBODY
    m.is_placed = 1
    propose(m, START, job, 0.0)


@compiled
def propose_move(s, jobs, m, job):
    """Propose that a running job continues on the noted GPUs."""
    m.node = NOBODY
    propose(m, MOVE, job, m.new_cores if divides_cores(s, m) and jobs[job].servers == 0 else 0.0)


@compiled
def needs_requested_cores(s, jobs, m, job):
    """Return whether a job must find the cores that it asks for, because `union` does not divide cores for it."""
    return s.cpu_limited and (not divides_cores(s, m) or jobs[job].servers > 0)


@compiled
def start_pending(s, jobs, m):
    """Propose the start, or the move, of the pending job once its GPUs are free."""
    job = m.pending_job
    if job == NOBODY or is_still_pausing(s, m):
        return False
    m.pending_job = NOBODY
    if fits_pending(s, jobs, m, job):
        note_placement(jobs, m, job, m.pending_gpus[: m.num_pending], m.pending_servers)
        m.num_pending = 0
        if s.phase[job] == RUNNING:
            propose_move(s, jobs, m, job)
        else:
            propose_start(s, jobs, m, job)
        return True
    m.num_pending = 0
    return False


@compiled
def start_or_grow(s, jobs, m):
    """Propose the start, or the move to more or better GPUs, of the first taker that finds a placement."""
    if start_pending(s, jobs, m):
        return True
    for at in range(m.num_takers):
        job = m.takers[at]
        was_tried = m.refused_at[job] == s.instant or s.last_action_instant[job] == s.instant
        if job == m.pending_job or was_tried:
            continue
        if s.phase[job] == RUNNING:
            if is_any_empty(s, m) and find_best_move(s, jobs, m, job, 0.0) > 0.0:
                m.is_choice = 1
                propose_move(s, jobs, m, job)
                return True
            continue
        if find_cheapest_seats(s, jobs, m, job, needs_requested_cores(s, jobs, m, job)):
            m.is_choice = 1
            propose_start(s, jobs, m, job)
            return True
        if m.pending_job == NOBODY and exceeds_any_node(s, jobs, m, job) and place(s, jobs, job):
            m.is_choice = 1
            propose_placed_start(s, jobs, m, job)
            return True
        m.refused_at[job] = s.instant
    return False


@compiled
def start_cpu_job(s, jobs, m):
    """Propose the start of the first CPU job that finds a node."""
    for at in range(m.num_cpu_jobs):
        job = m.cpu_jobs[at]
        if s.last_action_instant[job] == s.instant:
            continue
        if not divides_cores(s, m):
            if place(s, jobs, job):
                propose_placed_start(s, jobs, m, job)
                return True
            continue
        if start_beside_reserves(s, jobs, m, job):
            return True
    return False


@compiled
def start_on_slow_gpus(s, jobs, m):
    """Propose the start of the first claimant that should run on slow GPUs while it waits."""
    job = find_job_for_slow_gpus(s, jobs, m) if m.typed and is_any_empty(s, m) else NOBODY
    if job == NOBODY:
        return False
    m.is_choice = 1
    propose_start(s, jobs, m, job)
    return True


@compiled
def move_running_job(s, jobs, m):
    """Propose to give empty GPUs for which no job waits to the running job that gains most by them."""
    if m.sizing == 0 or m.num_order > 0:
        return False
    job = find_job_to_move(s, jobs, m)
    if job == NOBODY:
        return False
    m.is_choice = 1
    propose_move(s, jobs, m, job)
    return True


@compiled
def divide_cores(s, jobs, m):
    """Propose a new division of cores, once after each change, and a throttle."""
    if not divides_cores(s, m) or m.has_divided:
        return False
    m.has_divided = 1
    m.lacking[: s.num_nodes] = 0.0
    divide(s, jobs, m, WHOLE)
    change_cores(s, m, False, True)
    if m.num_moves > 0:
        return True
    found = throttle_one(s, jobs, m, 1.0)
    m.has_divided = not found
    return found


@compiled
def start_any(s, jobs, m):
    """Propose the first start that the scenario's rule can place, if nothing would ever happen otherwise."""
    if events.next_event(s, jobs) < np.inf:
        return False
    for at in range(m.num_order):
        job = m.order[at]
        if s.last_action_instant[job] != s.instant and place(s, jobs, job):
            propose_placed_start(s, jobs, m, job)
            return True
    return False


@compiled
def find_next_moves(s, jobs, m):
    """Propose what to do next."""
    clear_moves(m)
    read_state(s, jobs, m)
    if start_cpu_job(s, jobs, m) or start_or_grow(s, jobs, m):
        return True
    # A search that found nothing is not repeated while only cores change, on which only servers depend.
    searches = m.any_servers or not m.is_searched
    if searches and propose_displacement(s, jobs, m):
        return True
    if start_on_slow_gpus(s, jobs, m):
        return True
    if searches and move_running_job(s, jobs, m):
        return True
    m.is_searched = 1
    return divide_cores(s, jobs, m) or start_any(s, jobs, m)


# The loop: one move after another at an instant, then time goes on.


@compiled
def is_legal(s, jobs, m, at):
    """Return whether a move of the list is legal now."""
    kind, job, value = m.move_kind[at], m.move_job[at], m.move_value[at]
    seat = legality.Seat(m.gpus[: m.num_gpus], value, m.node, 0, m.servers)
    if kind == START:
        return legality.why_no_start(s, jobs, job, seat) == 0
    if kind == MOVE:
        return legality.why_no_move(s, jobs, job, seat) == 0
    if kind == PAUSE:
        return pausing.may_pause(s, job)
    if kind == CORES:
        return legality.may_resize(s, jobs, job, value)
    return s.phase[job] == RUNNING and jobs[job].num_gpus == 0 and 1.0 / LEVELS <= value <= 1.0


@compiled
def note_wait_time(s, jobs, m):
    """Note how long to wait: until the next event, or until the end of a measurement window."""
    m.wait_s = np.inf
    if not divides_cores(s, m):
        return
    of_use = begin_windows(s, jobs, m)
    if of_use or any_throttled(s, m):
        m.wait_s = m.window_s


@compiled
def set_wake(s, jobs, m):
    """Set the time at which time stops at the latest."""
    idle = events.next_event(s, jobs) == np.inf
    s.wake = s.clock + (0.0 if idle and m.wait_s == np.inf else m.wait_s)


@compiled
def next_legal_move(s, jobs, m):
    """Return the kind of the next proposed move, and step past it; if it is illegal, withdraw all proposals.

    RETRY after the first illegal start of a job at this instant, GIVE_UP after any other illegal move.
    """
    at = m.next_move
    kind, job = m.move_kind[at], m.move_job[at]
    if is_legal(s, jobs, m, at):
        m.next_move += 1
        return kind
    clear_moves(m)
    retry = kind == START and m.refused_at[job] != s.instant
    m.refused_at[job] = s.instant
    return RETRY if retry else GIVE_UP


@compiled
def decide(s, jobs, m):
    """Return the kind of the next move, or WAIT; its place on the list is `next_move - 1`."""
    if m.instant != s.instant:
        clear_moves(m)
    while m.next_move < m.num_moves or find_next_moves(s, jobs, m):
        kind = next_legal_move(s, jobs, m)
        if kind >= 0:
            return kind
        if kind == GIVE_UP:
            break
    note_wait_time(s, jobs, m)
    return WAIT


@compiled
def act(s, jobs, m):
    """Make all moves of this instant, and set the time until which to wait."""
    kind = decide(s, jobs, m)
    while kind != WAIT:
        carry_out_next(s, jobs, m, kind)
        kind = decide(s, jobs, m)
    set_wake(s, jobs, m)


@compiled
def run_on(s, jobs, m, until, max_instants):
    """Run `union` to the first instant at `until` or later, and do not act there; return whether jobs are left.

    False also if jobs never end, or not within this number of counted instants.
    """
    while s.num_done < s.num_jobs:
        if events.instants_that_count(s) >= max_instants or not events.advance(s, jobs):
            return False
        if s.clock >= until:
            return True
        act(s, jobs, m)
    return False


@entry
def next_move(states, e, memory, k, jobs):
    """Return the kind of the next move, or WAIT; its place on the list is `next_move - 1`."""
    return decide(states[e], jobs, memory[k])


@entry
def run_until(states, e, memory, k, jobs, until):
    """Run `union` from the next instant to a time, or to the end; return False if jobs are left but nothing happens.

    It acts at the first instant at `until` or later too.
    """
    s, m = states[e], memory[k]
    if s.clock < until and run_on(s, jobs, m, until, np.inf):
        act(s, jobs, m)
    return s.num_done == s.num_jobs or s.clock >= until
