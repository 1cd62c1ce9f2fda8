"""Rounds of policies that change the shapes of jobs: when there is a round, which jobs it may move, and its moves.

A policy (`baselines.aiturbo`, `baselines.optimus`) makes a round every `every_s`, and when a job becomes predictable.
In a round, jobs are granted shapes in the policy's order (`grants`); then running jobs without a grant are paused,
those whose shape or GPUs change are restarted, and queued ones start. The same is done when a job arrives or ends,
except that requests for GPUs change in rounds only. At other instants, queued jobs are granted shapes and start, and no
running job is changed. A job that has not run for `every_s` since its last start is never changed. CPU jobs start where
they fit.

A policy's plan consists, in this order, of `begin_instant`, the policy's own requests and order, `carry_out_order`,
`start_by_rule` (of `rechecks`) and `end_instant`. The policy rechecks every RECHECK_S, counted from the last event;
where nothing has changed it does nothing before the next round.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, NOBODY, PAUSING, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.legality import Seat, why_no_move, why_no_start
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.plan import MOVE, PAUSE, PLAN_FIELDS, START, Fields, act
from gpu_cluster_gym.simulator.kernel.rounds import grants
from gpu_cluster_gym.simulator.kernel.rounds.grants import (
    ROUNDING,
    Shape,
    cores_for,
    first_request,
    grant,
    is_same,
    open_room,
    shape_now,
)
from gpu_cluster_gym.simulator.kernel.rounds.rechecks import (
    PRESENT_FIELDS,
    RECHECK_S,
    list_present,
    may_start_now,
    wait_for_event,
    wait_for_recheck,
)

FIELDS: Fields = (
    *PLAN_FIELDS,
    *grants.FIELDS,
    ("every_s", "f8"),  # seconds between two rounds
    ("recheck_s", "f8"),  # time of the next recheck
    ("began_s", "f8"),  # time of the last round
    ("is_round", "i1"),
    *PRESENT_FIELDS,
    ("num_ended", "i8"),  # jobs that had ended at the last plan
    ("known", "i1", ("jobs",)),  # whether a job was predictable at the last plan
    # after the last moves
    ("num_seen", "i8"),  # jobs that had arrived
    ("seen", "i1", ("jobs",)),  # their phases
    ("seen_closed", "i1", ("nodes",)),
    ("num_movable", "i8"),
    ("movable", "i4", ("jobs",)),  # running jobs that may be paused or restarted, by job
    ("num_unfitted", "i8"),
    ("unfitted", "i4", ("jobs",)),  # jobs whose speed models Python is asked to fit
    # at the last plan that was allowed to move no job and granted nothing
    ("barren_arrived", "i8"),  # jobs that had arrived; -1 if the last plan was not such a one
    ("barren_ended", "i8"),
    ("barren_order", "i8"),  # jobs in its order
    ("barren_phase", "i1", ("jobs",)),
    ("barren_closed", "i1", ("nodes",)),
    ("num_moving", "i8"),
    ("moving", "i4", ("jobs",)),  # restarts that have not been made yet
)


def init_memory(memory: np.ndarray, **settings: float) -> None:
    """Write the settings, by field, into a memory of zeros."""
    for name, value in settings.items():
        memory[name] = value
    memory["began_s"], memory["recheck_s"], memory["barren_arrived"] = -np.inf, np.inf, -1


# What has changed since the last plan.


@compiled
def is_due(s, m):
    """Return whether a round is due by the clock."""
    return s.clock >= m.began_s + m.every_s


@compiled
def looks_the_same(s, m):
    """Return whether no job has come, and no job or node has changed its phase, since the last moves."""
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
def nothing_new(s, m):
    """Return whether this is a recheck without a round at which all is as it was."""
    while m.recheck_s < s.clock:
        m.recheck_s += RECHECK_S
    return m.recheck_s == s.clock and not is_due(s, m) and looks_the_same(s, m)


@compiled
def has_turned(s, m):
    """Return whether a job has become predictable since the last plan."""
    for k in range(m.num_present):
        if s.predictable[m.present[k]] > m.known[m.present[k]]:
            return True
    return False


@compiled
def list_movable(s, jobs, m):
    """List the running jobs that may be paused or restarted: those that have run for `every_s`."""
    for k in range(m.num_present):
        job = m.present[k]
        if may_pause(s, job) and jobs[job].num_gpus > 0 and s.clock - s.phase_began[job] >= m.every_s:
            m.movable[m.num_movable] = job
            m.num_movable += 1
            m.may_move[job] = 1


@compiled
def note_changes(s, jobs, m):
    """Note jobs and predictions that are new; list the jobs that may be moved; return whether any may move or start."""
    for k in range(m.num_movable):
        m.may_move[m.movable[k]] = 0
    m.num_movable = 0
    turned = has_turned(s, m)
    is_new = s.num_arrived != m.num_known or s.num_done != m.num_ended
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
def set_wait(s, jobs, m):
    """Set the wait: to the next round if no event comes first, since rechecks before it would do nothing."""
    wait_for_event(m)
    if events.next_event(s, jobs) < np.inf:
        wait_for_recheck(s, m, True)


@compiled
def end_instant(s, jobs, m):
    """Note the phases of jobs and nodes after the moves, a change of which is a cause for a plan, and set the wait."""
    m.num_seen = s.num_arrived
    for k in range(m.num_present):
        m.seen[m.present[k]] = s.phase[m.present[k]]
    for node in range(s.num_nodes):
        m.seen_closed[node] = s.closed[node]
    set_wait(s, jobs, m)


@compiled
def begin_instant(s, jobs, m):
    """Note what has changed; return whether there is a plan to make, without which the instant is ended."""
    if nothing_new(s, m):
        set_wait(s, jobs, m)
        return False
    if note_changes(s, jobs, m):
        return True
    end_instant(s, jobs, m)
    return False


@compiled
def ask_profile(jobs, m, job):
    """Put a job with GPUs on the list of those whose models are to be fitted, if its model has not been fitted yet."""
    if jobs[job].num_gpus == 0:
        return
    for k in range(len(jobs[job].fitted)):
        if jobs[job].fitted[k] != 0:
            return
    m.unfitted[m.num_unfitted] = job
    m.num_unfitted += 1


# Whether a plan could do anything.


@compiled
def has_nothing_to_give(s, jobs, m):
    """Return whether no GPU is free or being freed, and no job that waits could run on CPU cores."""
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
def is_futile(s, jobs, m):
    """Return whether no job may be moved and nothing can be given to any; a round forgets the last barren plan."""
    if m.is_round:
        m.barren_arrived = -1
    return not m.is_round and m.num_movable == 0 and has_nothing_to_give(s, jobs, m)


@compiled
def any_may_act(s, m):
    """Return whether a queued job may start, or a job that may be moved has another shape than it requests first."""
    for k in range(m.num_present):
        if may_start_now(s, m.present[k]):
            return True
    for k in range(m.num_movable):
        job = m.movable[k]
        if not is_same(shape_now(s, job), first_request(s, m, job)):
            return True
    return False


@compiled
def settled_phase(s, job):
    """Return the phase of a job, RUNNING for one that loads: both keep what they have."""
    return RUNNING if s.phase[job] == LOADING else s.phase[job]


@compiled
def is_barren(s, jobs, m):
    """Return whether a plan would grant nothing, like the last one, whatever the order of the same jobs.

    Requests for GPUs change in rounds only.
    """
    if m.is_round or m.num_movable > 0:
        return False
    if m.barren_arrived != s.num_arrived or m.barren_ended != s.num_done:
        return False
    count = 0
    for k in range(m.num_present):
        job = m.present[k]
        if m.barren_phase[job] != settled_phase(s, job):
            return False
        if jobs[job].num_gpus > 0 and may_start_now(s, job):
            count += 1
            if m.max_iteration_s[job] > 0:
                return False
    for node in range(s.num_nodes):
        if m.barren_closed[node] != s.closed[node]:
            return False
    return count == m.barren_order


@compiled
def note_barren(s, m):
    """Note phases of jobs and nodes if the plan was allowed to move no job and granted nothing."""
    m.barren_arrived = -1
    if m.is_round or m.num_movable > 0:
        return
    for k in range(m.num_order):
        if m.is_granted[m.order[k]]:
            return
    m.barren_arrived, m.barren_ended, m.barren_order = s.num_arrived, s.num_done, m.num_order
    for k in range(m.num_present):
        m.barren_phase[m.present[k]] = settled_phase(s, m.present[k])
    for node in range(s.num_nodes):
        m.barren_closed[node] = s.closed[node]


# The order, its grants, and the moves.


@compiled
def list_jobs(jobs, m):
    """List the jobs with GPUs that have arrived and not ended, by job, for the policy to sort."""
    m.num_order = 0
    for k in range(m.num_present):
        if jobs[m.present[k]].num_gpus > 0:
            m.order[m.num_order] = m.present[k]
            m.num_order += 1


@compiled
def load_grant(jobs, m, job):
    """Write the grant of a job into the memory as a placement, which leaves open what is as requested."""
    workers, servers, gpus = m.grant_workers[job], m.grant_servers[job], m.grant_gpus[job]
    m.num_gpus, m.node = gpus, m.grant_node[job]
    for k in range(gpus):
        m.gpus[k] = m.granted[m.grant_first[job] + k]
    meant = gpus if gpus > 0 else jobs[job].num_gpus
    m.workers = 0 if workers == meant else workers
    m.servers = -1 if servers == jobs[job].servers else servers


@compiled
def has_cores(s, jobs, m, job):
    """Return whether the cores for a start on the loaded grant are there now, or it waits for GPUs in any case."""
    gpus = m.gpus[: m.num_gpus]
    if not s.cpu_limited:
        return True
    for gpu in gpus:
        if s.first_owner[gpu] != NOBODY:
            return True
    workers, servers = np.int64(m.grant_workers[job]), np.int64(m.grant_servers[job])
    each = cores_for(jobs, job, Shape(workers, servers, len(gpus) == 0, m.grant_apart[job] > 0))
    for gpu in gpus:
        node, count = s.gpu_node[gpu], 0
        for other in gpus:
            count += s.gpu_node[other] == node
        if s.unreserved_cores[node] + ROUNDING < (each - 1) * count:
            return False
    return True


@compiled
def may_begin(s, jobs, m, job):
    """Return whether a job may start on, or a running job move to, the loaded grant."""
    seat = Seat(m.gpus[: m.num_gpus], 0.0, m.node, m.workers, m.servers)
    if m.may_move[job]:
        return why_no_move(s, jobs, job, seat) == 0
    return why_no_start(s, jobs, job, seat) == 0


@compiled
def restart_all(s, jobs, m):
    """Restart the listed jobs, each time the first one whose new GPUs are not held by a job that is yet to restart.

    Where jobs were granted each other's GPUs there is none, and the last in order is paused.
    """
    while m.num_moving > 0:
        ready = 0
        while ready < m.num_moving:
            load_grant(jobs, m, m.moving[ready])
            if may_begin(s, jobs, m, m.moving[ready]):
                break
            ready += 1
        m.num_moving -= 1
        if ready > m.num_moving:
            act(s, jobs, m, PAUSE, m.moving[m.num_moving])
            continue
        job = m.moving[ready]
        for k in range(ready, m.num_moving):
            m.moving[k] = m.moving[k + 1]
        act(s, jobs, m, MOVE, job)


@compiled
def carry_out_order(s, jobs, m):
    """Grant shapes to the jobs of the order that wait or may be moved; pause, restart and start jobs accordingly."""
    count = 0
    for k in range(m.num_order):
        job = m.order[k]
        if m.may_move[job] or may_start_now(s, job):
            m.order[count] = job
            count += 1
    m.num_order = count
    if count == 0:
        return
    open_room(s, jobs, m)
    for k in range(m.num_order):
        grant(s, jobs, m, m.order[k])
    m.num_moving = 0
    for k in range(m.num_order):
        job = m.order[k]
        if m.may_move[job] and m.is_granted[job] and not m.keeps[job]:
            m.moving[m.num_moving] = job
            m.num_moving += 1
    note_barren(s, m)
    for k in range(m.num_movable):
        if not m.is_granted[m.movable[k]]:
            act(s, jobs, m, PAUSE, m.movable[k])
    restart_all(s, jobs, m)
    for k in range(m.num_order):
        job = m.order[k]
        if m.may_move[job] or not m.is_granted[job]:
            continue
        load_grant(jobs, m, job)
        if has_cores(s, jobs, m, job) and may_begin(s, jobs, m, job):
            act(s, jobs, m, START, job)
