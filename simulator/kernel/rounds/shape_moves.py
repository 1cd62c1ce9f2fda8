"""The moves of a round of shapes, one after another, each of which is to be made before the next is asked for.

Running jobs that got nothing are paused, those whose shape or GPUs have changed are restarted, and queued ones start;
no other job is touched. CPU jobs start where they fit.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events, legality
from gpu_cluster_gym.simulator.kernel.cluster.decided import MOVE, PAUSE, START, WAIT, carry_out
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.legality import note_wait
from gpu_cluster_gym.simulator.kernel.rounds.glances import find_anything, next_on_cores
from gpu_cluster_gym.simulator.kernel.rounds.shape_memory import PROFILE, STEPS, Form, cores_for
from gpu_cluster_gym.simulator.kernel.rounds.shape_plan import (
    GLANCED,
    LOOKED,
    ON_CORES,
    PAUSES,
    PLANNING,
    RESTARTS,
    STARTS,
    begin_walk,
    glance,
    has_nothing_to_give,
    list_unfitted,
    note_looks,
    nothing_new,
    plan,
)
from gpu_cluster_gym.simulator.kernel.rounds.shape_room import ROUNDING
from gpu_cluster_gym.simulator.kernel.rounds.shape_steps import note_shapes


@compiled
def load_grant(jobs, m, job):
    """Write down a grant as an action carries it, which leaves out what is as asked."""
    workers, servers, gpus = m.grant_workers[job], m.grant_servers[job], m.grant_gpus[job]
    m.move_job, m.num_gpus, m.node = job, gpus, m.grant_node[job]
    for k in range(gpus):
        m.gpus[k] = m.granted[m.grant_first[job] + k]
    meant = gpus if gpus > 0 else jobs[job].num_gpus
    m.workers = 0 if workers == meant else workers
    m.servers = -1 if servers == jobs[job].servers else servers


@compiled
def has_cores(s, jobs, m, job):
    """Tell whether the cores for the start that is written down are there now, or it waits for GPUs anyway."""
    gpus = m.gpus[: m.num_gpus]
    if not s.cpu_limited:
        return True
    for gpu in gpus:
        if s.first_owner[gpu] != NOBODY:
            return True
    workers, servers = np.int64(m.grant_workers[job]), np.int64(m.grant_servers[job])
    each = cores_for(jobs, job, Form(workers, servers, len(gpus) == 0, m.grant_apart[job] > 0))
    for gpu in gpus:
        node, count = s.gpu_node[gpu], 0
        for other in gpus:
            count += s.gpu_node[other] == node
        if s.unreserved_cores[node] + ROUNDING < (each - 1) * count:
            return False
    return True


@compiled
def may_begin(s, jobs, m, job):
    """Tell whether a job may start, or for a running one go on, with what has been written down."""
    seat = legality.Seat(m.gpus[: m.num_gpus], 0.0, m.node, m.workers, m.servers)
    if m.may_move[job]:
        return legality.why_no_move(s, jobs, job, seat) == 0
    return legality.why_no_start(s, jobs, job, seat) == 0


@compiled
def next_pause(m):
    """Find the next job that may be moved and was granted nothing; tell whether there is one."""
    while m.at < m.num_movable:
        job = m.movable[m.at]
        m.at += 1
        if not m.is_granted[job]:
            m.victim = job
            return True
    m.at, m.stage = 0, RESTARTS
    return False


@compiled
def next_restart(s, jobs, m):
    """Find the first restart whose GPUs no job holds that is yet to be restarted; return what is to be done, or WAIT.

    Where jobs are to have each other's GPUs the last in order is paused.
    """
    if m.num_moving == 0:
        m.stage = STARTS
        return WAIT
    ready = 0
    while ready < m.num_moving:
        load_grant(jobs, m, m.moving[ready])
        if may_begin(s, jobs, m, m.moving[ready]):
            break
        ready += 1
    m.num_moving -= 1
    if ready > m.num_moving:
        m.victim = m.moving[m.num_moving]
        return PAUSE
    for k in range(ready, m.num_moving):
        m.moving[k] = m.moving[k + 1]
    return MOVE


@compiled
def next_start(s, jobs, m):
    """Find the next queued job that may start with what it was granted; tell whether there is one."""
    while m.at < m.num_order:
        job = m.order[m.at]
        m.at += 1
        if m.may_move[job] or not m.is_granted[job]:
            continue
        load_grant(jobs, m, job)
        if has_cores(s, jobs, m, job) and may_begin(s, jobs, m, job):
            return True
    m.at, m.stage = 0, ON_CORES
    return False


@compiled
def next_by_rule(s, jobs, m):
    """Find the next start by the placement rule: of CPU jobs, or of any where nothing else would happen."""
    m.workers, m.servers = 0, -1
    if next_on_cores(s, jobs, m):
        return True
    m.stage = LOOKED
    return find_anything(s, jobs, m)


@compiled
def begin_instant(s, jobs, m):
    """Find out what there is to do at a new instant."""
    m.instant = s.instant
    if nothing_new(s, m):
        m.stage = GLANCED
        return
    if not begin_walk(s, jobs, m):
        m.stage = LOOKED
        return
    if m.way == STEPS:
        note_shapes(s, m)
    m.stage = PLANNING


@compiled
def planned(s, jobs, m):
    """Make a plan; tell whether all profiles that it needs have been fitted."""
    if list_unfitted(s, jobs, m) > 0:
        return False
    futile = not m.is_round and m.num_movable == 0 and has_nothing_to_give(s, jobs, m)
    m.stage = plan(s, jobs, m, futile)
    return True


@compiled
def decide(s, jobs, m):
    """Return what is to be done next, which is written down; PROFILE where the profiles of some jobs are to be fitted.

    wait_s: seconds to wait, nan till the next event.
    """
    if m.instant != s.instant:
        begin_instant(s, jobs, m)
    if m.stage == PLANNING and not planned(s, jobs, m):
        return PROFILE
    if m.stage == PAUSES and next_pause(m):
        return PAUSE
    if m.stage == RESTARTS:
        found = next_restart(s, jobs, m)
        if found != WAIT:
            return found
    if m.stage == STARTS and next_start(s, jobs, m):
        return START
    if m.stage == ON_CORES and next_by_rule(s, jobs, m):
        return START
    if m.stage == LOOKED:
        note_looks(s, m)
        m.stage = GLANCED
    glance(s, jobs, m)
    return WAIT


@entry
def next_move(states, e, memory, k, jobs):
    """Return what is to be done next; see `decide`."""
    return decide(states[e], jobs, memory[k])


@entry
def run(states, e, memory, k, jobs):
    """Carry all moves out, from where the memory is on; return PROFILE where profiles are missing, WAIT at the end.

    Jobs are left then where time cannot go on.
    """
    s, m = states[e], memory[k]
    is_asked = m.instant == s.instant  # and profiles were missing at this instant
    while is_asked or (s.num_done < s.num_jobs and events.advance(s, jobs)):
        is_asked = False
        what = decide(s, jobs, m)
        while what != WAIT and what != PROFILE:
            carry_out(s, jobs, m, what)
            what = decide(s, jobs, m)
        if what == PROFILE or not note_wait(s, jobs, m.wait_s):
            return what
    return WAIT
