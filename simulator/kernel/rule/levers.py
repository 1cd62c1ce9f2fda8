"""What the rule over moves finds worth doing next: a start, pauses for one, a move, cores, a throttle.

What is decided in one go (pauses for a job, cores given up for a start) is put on a list of moves, which
`simulator.kernel.rule.rule_over_moves` makes one after another.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.decided import MOVE, START, propose
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.placement import place
from gpu_cluster_gym.simulator.kernel.cores.sharing import (
    WHOLE,
    change_cores,
    divide,
    start_beside_reserves,
    throttle_one,
)
from gpu_cluster_gym.simulator.kernel.rule.giving_way import displace, is_still_held, takes_kept
from gpu_cluster_gym.simulator.kernel.rule.offers import (
    best_move_of,
    best_seats,
    fill_placement,
    is_any_empty,
    worth_moving,
)
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import copy
from gpu_cluster_gym.simulator.kernel.rule.rule_sight import divides, look
from gpu_cluster_gym.simulator.kernel.rule.slow_types import find_slow_start
from gpu_cluster_gym.simulator.kernel.rule.ways import EPS, is_beyond_a_node


@compiled
def drop_moves(m):
    """Forget the moves that have been decided on."""
    m.num_moves = 0
    m.next_move = 0
    m.servers = -1
    m.is_choice = 0
    m.is_placed = 0


@compiled
def is_barred(s, m, job):
    """Tell whether a queued job may not be tried now: it has been at this instant, or was paused or failed at it."""
    return m.refused_at[job] == s.instant or s.last_action_instant[job] == s.instant


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
    """Propose the start, or the move, of the job whose GPUs were being freed, if they are; tell whether it does."""
    job = m.kept_for
    if job == NOBODY or is_still_held(s, m):
        return False
    m.kept_for = NOBODY
    if takes_kept(s, jobs, m, job):
        fill_placement(jobs, m, job, m.kept_gpus[: m.num_kept], m.kept_servers)
        m.num_kept = 0
        if s.phase[job] == RUNNING:
            propose_move(s, jobs, m, job)
        else:
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
    m.is_placed = 1
    propose(m, START, job, 0.0)


@compiled
def needs_as_asked(s, jobs, m, job):
    """Tell whether a job must find the cores that it asks for, since nobody divides them for it."""
    return s.cpu_limited and (not divides(s, m) or jobs[job].servers > 0)


@compiled
def propose_move(s, jobs, m, job):
    """Propose that a running job goes on with the GPUs noted."""
    m.node = NOBODY
    propose(m, MOVE, job, m.new_cores if divides(s, m) and jobs[job].servers == 0 else 0.0)


@compiled
def start_one(s, jobs, m):
    """Propose the start, or the move to other GPUs, of the first in order that finds seats; tell whether one does."""
    if start_kept(s, jobs, m):
        return True
    for at in range(m.num_takers):
        job = m.takers[at]
        if job == m.kept_for or is_barred(s, m, job):
            continue
        if s.phase[job] == RUNNING:
            if is_any_empty(s, m) and best_move_of(s, jobs, m, job, 0.0) > 0.0:
                m.is_choice = 1
                propose_move(s, jobs, m, job)
                return True
            continue
        if best_seats(s, jobs, m, job, needs_as_asked(s, jobs, m, job)):
            m.is_choice = 1
            sit(s, jobs, m, job)
            return True
        if m.kept_for == NOBODY and is_beyond_a_node(s, jobs, m, job) and place(s, jobs, job):
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
def start_slowly(s, jobs, m):
    """Propose the start of the first in order that had better run on slow GPUs meanwhile; tell whether one does."""
    job = find_slow_start(s, jobs, m) if m.typed and is_any_empty(s, m) else NOBODY
    if job == NOBODY:
        return False
    m.is_choice = 1
    sit(s, jobs, m, job)
    return True


@compiled
def move_one(s, jobs, m):
    """Propose to give empty GPUs for which no job waits to the job that gains most by them; tell whether one does."""
    if m.sizing == 0 or m.num_order > 0:
        return False
    job = worth_moving(s, jobs, m)
    if job == NOBODY:
        return False
    m.is_choice = 1
    propose_move(s, jobs, m, job)
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
    if start_on_cores(s, jobs, m) or start_one(s, jobs, m):
        return True
    searches = m.serves or not m.is_searched
    if searches and displace(s, jobs, m):
        return True
    if start_slowly(s, jobs, m):
        return True
    if searches and move_one(s, jobs, m):
        return True
    m.is_searched = 1
    return feed(s, jobs, m) or start_anything(s, jobs, m)
