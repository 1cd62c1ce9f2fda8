"""Rounds of shapes: when a plan is made, which jobs it may move, and what it grants.

A policy makes a plan every so often, when a job turns predictable, comes or ends. In between, what fits starts in the
order of a plan and no running job is touched; nor is ever one that has not yet run for a round since it last began. It
looks again every GLANCE_S, counted from the last event; where nothing has happened it does nothing before the round.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, NOBODY, PAUSING, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.rounds.glances import (
    GLANCE_S,
    list_present,
    may_start_now,
    wait_for_event,
    wait_for_glance,
)
from gpu_cluster_gym.simulator.kernel.rounds.shape_grants import grant
from gpu_cluster_gym.simulator.kernel.rounds.shape_memory import (
    STEPS,
    first_form,
    form_now,
    is_same,
    is_unfitted,
)
from gpu_cluster_gym.simulator.kernel.rounds.shape_room import open_room
from gpu_cluster_gym.simulator.kernel.rounds.shape_shares import divide, order_by_shares, wish_shares
from gpu_cluster_gym.simulator.kernel.rounds.shape_steps import (
    is_adjusted,
    may_use_cores,
    order_by_votes,
    take_steps,
    wish_steps,
)

PLANNING, PAUSES, RESTARTS, STARTS, ON_CORES, ANYTHING, LOOKED, GLANCED = range(
    8
)  # what comes next at an instant


@compiled
def looks_the_same(s, m):
    """Tell whether no job, and no node, is in another phase than after the last moves, and none has come."""
    if s.num_arrived != m.num_seen:
        return False
    for k in range(m.num_present):
        if s.phase[m.present[k]] != m.seen[m.present[k]]:
            return False
    for node in range(s.num_nodes):
        if s.closed[node] != m.seen_closed[node]:
            return False
    return True


@compiled
def note_looks(s, m):
    """Note what gives cause to start jobs when it changes."""
    m.num_seen = s.num_arrived
    for k in range(m.num_present):
        m.seen[m.present[k]] = s.phase[m.present[k]]
    for node in range(s.num_nodes):
        m.seen_closed[node] = s.closed[node]


@compiled
def is_due(s, m):
    """Tell whether a round is due by the clock."""
    return s.clock >= m.began_s + m.every_s


@compiled
def nothing_new(s, m):
    """Tell whether this is no round, and no more than a glance at which all is as it was."""
    while m.glance_s < s.clock:
        m.glance_s += GLANCE_S
    return m.glance_s == s.clock and not is_due(s, m) and looks_the_same(s, m)


@compiled
def glance(s, jobs, m):
    """Say how long to wait; glances before the next round would do nothing."""
    wait_for_event(m)
    if events.next_event(s, jobs) < np.inf:
        wait_for_glance(s, m, True)


@compiled
def has_turned(s, m):
    """Tell whether a job has become predictable since the last look."""
    for k in range(m.num_present):
        if s.predictable[m.present[k]] > m.known[m.present[k]]:
            return True
    return False


@compiled
def list_movable(s, jobs, m):
    """List the running jobs that may be paused or restarted: those that have run for a round."""
    for k in range(m.num_present):
        job = m.present[k]
        if may_pause(s, job) and jobs[job].num_gpus > 0 and s.clock - s.phase_began[job] >= m.every_s:
            m.movable[m.num_movable] = job
            m.num_movable += 1
            m.may_move[job] = 1


@compiled
def begin_walk(s, jobs, m):
    """Note what has changed; tell whether there is anything that might be done."""
    for k in range(m.num_movable):
        m.may_move[m.movable[k]] = 0
    m.num_movable = 0
    turned = has_turned(s, m)
    is_new = s.num_arrived != m.num_known or s.num_done != m.num_ended
    for job in range(m.num_known, s.num_arrived):
        m.wanted_workers[job], m.wanted_servers[job] = jobs[job].num_gpus, jobs[job].servers
    list_present(s, m)
    for k in range(m.num_present):
        m.known[m.present[k]] = s.predictable[m.present[k]]
    m.is_round = is_due(s, m) or turned
    if m.is_round or is_new:
        list_movable(s, jobs, m)
    m.num_ended = s.num_done
    if m.is_round:
        m.began_s = s.clock
    return m.num_movable > 0 or s.num_queued > 0


@compiled
def has_nothing_to_give(s, jobs, m):
    """Tell whether no GPU is free or being freed, and no job that waits could run on CPU cores."""
    for gpu in range(s.num_gpus):
        job = s.first_owner[gpu]
        comes = job == NOBODY or s.phase[job] == PAUSING
        if comes and s.reserved_for[gpu] == NOBODY and s.num_jobs_on[gpu] <= 1:
            return False
    for k in range(m.num_present):
        if s.phase[m.present[k]] == QUEUED and jobs[m.present[k]].cpu_slowdown > 0:
            return False
    return True


@compiled
def list_unfitted(s, jobs, m):
    """List the jobs whose profiles a plan needs and that have not been fitted yet; return their number."""
    m.num_unfitted = 0
    for k in range(m.num_present):
        job = m.present[k]
        if m.way == STEPS:
            needed = (m.is_round and is_adjusted(s, m, job)) or may_use_cores(s, jobs, m, job)
        else:
            needed = m.is_round > 0
        if needed and jobs[job].num_gpus > 0 and is_unfitted(jobs, job):
            m.unfitted[m.num_unfitted] = job
            m.num_unfitted += 1
    return m.num_unfitted


@compiled
def wish(s, jobs, m):
    """Find what each job is to have, by steps or by shares."""
    if m.way == STEPS:
        if m.is_round:
            take_steps(s, jobs, m)
        wish_steps(s, jobs, m)
        return
    if m.is_round:
        divide(s, jobs, m)
    wish_shares(s, jobs, m)


@compiled
def any_may_start(s, m):
    """Tell whether a queued job was not paused at this very instant."""
    for k in range(m.num_present):
        if may_start_now(s, m.present[k]):
            return True
    return False


@compiled
def all_have_their_wish(s, m):
    """Tell whether every job that may be moved has the shape that it would have rather than any other."""
    for k in range(m.num_movable):
        job = m.movable[k]
        if not is_same(form_now(s, job), first_form(s, m, job)):
            return False
    return True


@compiled
def order_jobs(s, jobs, m):
    """List the jobs that wait for GPUs or may be moved, in the order of the plan."""
    m.num_order = 0
    for k in range(m.num_present):
        if jobs[m.present[k]].num_gpus > 0:
            m.order[m.num_order] = m.present[k]
            m.num_order += 1
    if m.way == STEPS:
        order_by_votes(s, m)
    else:
        order_by_shares(m)
    count = 0
    for k in range(m.num_order):
        job = m.order[k]
        if m.may_move[job] or may_start_now(s, job):
            m.order[count] = job
            count += 1
    m.num_order = count


@compiled
def phase_held(s, job):
    """Return the phase of a job, in which those that load and those that run are alike: they keep what they have."""
    return RUNNING if s.phase[job] == LOADING else s.phase[job]


@compiled
def is_barren(s, jobs, m):
    """Tell whether a plan would have nothing for anybody, as the last one had, whatever the order of the same jobs.

    What they would have on GPUs changes in rounds alone.
    """
    if m.is_round or m.num_movable > 0:
        return False
    if m.barren_arrived != s.num_arrived or m.barren_ended != s.num_done:
        return False
    count = 0
    for k in range(m.num_present):
        job = m.present[k]
        if m.barren_phase[job] != phase_held(s, job):
            return False
        if jobs[job].num_gpus > 0 and may_start_now(s, job):
            count += 1
            if m.bearable_s[job] > 0:
                return False
    for node in range(s.num_nodes):
        if m.barren_closed[node] != s.closed[node]:
            return False
    return count == m.barren_order


@compiled
def note_barren(s, m):
    """Note how things are where a plan had nothing for anybody."""
    m.barren_arrived = -1
    if m.is_round or m.num_movable > 0:
        return
    for k in range(m.num_order):
        if m.is_granted[m.order[k]]:
            return
    m.barren_arrived, m.barren_ended, m.barren_order = s.num_arrived, s.num_done, m.num_order
    for k in range(m.num_present):
        m.barren_phase[m.present[k]] = phase_held(s, m.present[k])
    for node in range(s.num_nodes):
        m.barren_closed[node] = s.closed[node]


@compiled
def plan(s, jobs, m, futile):
    """Grant jobs what they are to have, in order; return what comes first of the moves that follow."""
    m.num_order = m.num_moving = m.at = 0
    if m.is_round:
        m.barren_arrived = -1
    if not futile:
        wish(s, jobs, m)
    if not any_may_start(s, m) and all_have_their_wish(s, m):
        return LOOKED
    if futile or is_barren(s, jobs, m):
        return ON_CORES
    order_jobs(s, jobs, m)
    if m.num_order == 0:
        return ON_CORES
    open_room(s, jobs, m)
    for k in range(m.num_order):
        grant(s, jobs, m, m.order[k])
    for k in range(m.num_order):
        job = m.order[k]
        if m.may_move[job] and m.is_granted[job] and not m.keeps[job]:
            m.moving[m.num_moving] = job
            m.num_moving += 1
    note_barren(s, m)
    return PAUSES
