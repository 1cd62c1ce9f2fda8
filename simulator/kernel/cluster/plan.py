"""Protocol of compiled policies: a plan makes the moves of one instant and lists them as actions.

A compiled policy is a function `plan(s, jobs, m)`, where `s` is the record of an episode, `jobs` its jobs and `m` the
memory of the policy: a record of the policy's own fields and `PLAN_FIELDS`. (Own fields come first: Numba takes a
record that begins with all fields of another for a subtype of it, and warns.) At each instant the plan makes its moves
on `s`, one after another (`act`), so that every decision sees the effect of the moves before it. It returns

- DONE, with the seconds to wait in `m.wait_s` (NaN: until the next event);
- AGAIN to be called again at the same instant;
- ASKS, or a larger number of its own, where Python has to write something into the memory first, such as a fitted
  model. It is then called again at the same instant.

A policy that starts the queued jobs that fit, in order of arrival, reads

    @compiled
    def plan(s, jobs, m):
        begin_plan(s, m)
        for k in range(list_queued(s, m.queued)):
            if place(s, jobs, m.queued[k]):
                load_place(s, jobs, m, m.queued[k])
                act(s, jobs, m, START, m.queued[k])
        m.wait_s = np.nan
        return DONE

    @entry
    def step(states, e, memory, k, jobs):
        return plan(states[e], jobs, memory[k])

    @entry
    def run(states, e, memory, k, jobs):
        s, m = states[e], memory[k]
        while next_plan(s, jobs, m):
            m.status = plan(s, jobs, m)
            if m.status >= ASKS:
                break
        return m.status

`run` plays an episode to its end inside the kernel; `simulator.compiled_policy.CompiledPolicy` calls it. Where that
class is asked for one action at a time, it calls `step` on a scratch copy of the record and returns the listed actions
in turn. Each policy has these two entries of its own, because compiled code finds functions by module and name.

Functions shared with policies in Python only propose moves (`LIST_FIELDS`, `propose`), which a plan then makes all at
once (`make_proposed`).
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating as allocating
from gpu_cluster_gym.simulator.kernel._compile import compiled as compiled
from gpu_cluster_gym.simulator.kernel._compile import entry as entry
from gpu_cluster_gym.simulator.kernel.cluster import actions, events, pausing, speed
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, Tier
from gpu_cluster_gym.simulator.kernel.cluster.layout import dtype_of as dtype_of
from gpu_cluster_gym.simulator.kernel.cluster.legality import note_wait

DONE, AGAIN, ASKS = range(3)  # status of a plan
WAIT, START, PAUSE, MOVE, CORES, THROTTLE = range(6)  # kinds of moves

Fields = tuple[tuple[str, str] | tuple[str, str, tuple[str | int, ...]], ...]

PLACEMENT_FIELDS: Fields = (
    # placement of the next start or move
    ("num_gpus", "i8"),
    ("gpus", "i4", ("gpus",)),
    ("node", "i8"),  # of a job without GPUs, else -1
    ("workers", "i8"),  # 0: one on each GPU
    ("servers", "i8"),  # -1: as many as the job requests
)

ACTION_FIELDS: Fields = (
    ("status", "i8"),  # DONE, AGAIN, or ASKS and above
    ("wait_s", "f8"),  # seconds to wait; NaN until the next event
    # actions of the last plan, in order
    ("num_actions", "i8"),
    ("action_kind", "i1", ("jobs",)),
    ("action_job", "i4", ("jobs",)),
    ("action_value", "f8", ("jobs",)),  # cores, or level of a throttle
    ("action_node", "i4", ("jobs",)),
    ("action_workers", "i4", ("jobs",)),
    ("action_servers", "i4", ("jobs",)),
    ("action_gpus_end", "i4", ("jobs",)),  # end of the action's GPUs in `action_gpus`
    ("action_gpus", "i4", ("gpus",)),
)

PLAN_FIELDS: Fields = (
    ("instant", "i8"),  # of the last plan
    *ACTION_FIELDS,
    *PLACEMENT_FIELDS,
)

LIST_FIELDS: Fields = (
    # proposed moves that have not been made yet; the placement belongs to the last one
    ("num_moves", "i8"),
    ("next_move", "i8"),
    ("move_kind", "i1", ("jobs",)),
    ("move_job", "i4", ("jobs",)),
    ("move_value", "f8", ("jobs",)),  # cores, or level of a throttle
    *PLACEMENT_FIELDS,
)


def tier_of(states: np.ndarray) -> Tier:
    """Return the tier of some records."""
    return Tier(states["phase"].shape[1], states["node_gpus"].shape[1], states["first_owner"].shape[1])


@compiled
def begin_plan(s, m):
    """Clear the list of actions; return whether this is the first call at this instant."""
    is_new = m.instant != s.instant
    m.instant = s.instant
    m.num_actions = 0
    return is_new


@compiled
def next_plan(s, jobs, m):
    """Wait until the next instant if the last plan is done; return whether there is a plan to make.

    There is none at the end, nor where waiting is illegal: no event is pending and a job could start.
    """
    if m.status != DONE:
        return True
    if m.instant == s.instant and not note_wait(s, jobs, m.wait_s):
        return False
    return s.num_done < s.num_jobs and events.advance(s, jobs)


@compiled
def act(s, jobs, m, kind, job):
    """Start, pause or move a job and list the action; starts and moves use the placement in the memory."""
    list_action(m, kind, job, 0.0)
    make(s, jobs, m, kind, job, 0.0)


@compiled
def list_action(m, kind, job, value):
    """Append an action, with the placement in the memory if it is a start or a move."""
    at = m.num_actions
    begin = m.action_gpus_end[at - 1] if at > 0 else 0
    m.action_kind[at], m.action_job[at], m.action_value[at] = kind, job, value
    m.action_node[at], m.action_workers[at], m.action_servers[at] = NOBODY, 0, -1
    m.action_gpus_end[at] = begin
    if kind in (START, MOVE):
        m.action_node[at], m.action_workers[at], m.action_servers[at] = m.node, m.workers, m.servers
        m.action_gpus_end[at] = begin + m.num_gpus
        for k in range(m.num_gpus):
            m.action_gpus[begin + k] = m.gpus[k]
    m.num_actions += 1


@compiled
def propose(m, kind, job, value):
    """Append a move to the list of proposals."""
    m.move_kind[m.num_moves] = kind
    m.move_job[m.num_moves] = job
    m.move_value[m.num_moves] = value
    m.num_moves += 1


@allocating
def make(s, jobs, m, kind, job, value):
    """Make a move of a job; value: its cores, 0 for as many as it requests, or the level of a throttle."""
    if kind == PAUSE:
        pausing.pause(s, jobs, job)
    elif kind == CORES:
        actions.resize(s, jobs, job, value)
    elif kind == THROTTLE:
        actions.throttle(s, job, value)
    else:
        gpus = m.gpus[: m.num_gpus]
        gpus.sort()
        workers, servers = speed.resolved_shape(jobs, job, m.num_gpus, m.workers, m.servers)
        named = value > 0 and s.cpu_limited
        cores = value if named else speed.cores_asked(jobs, job, m.num_gpus, workers, servers)
        if kind == START:
            actions.start_as(s, jobs, job, gpus, workers, servers, cores, m.node, False)
        else:
            actions.move(s, jobs, job, gpus, workers, servers, cores, m.node)


@compiled
def make_proposed(s, jobs, m):
    """Make and list all proposed moves, of which only the last may be a start or a move."""
    for k in range(m.num_moves):
        list_action(m, m.move_kind[k], m.move_job[k], m.move_value[k])
        make(s, jobs, m, m.move_kind[k], m.move_job[k], m.move_value[k])
    m.next_move = m.num_moves


@compiled
def carry_out_next(s, jobs, m, kind):
    """Make the proposed move before `next_move`."""
    make(s, jobs, m, kind, m.move_job[m.next_move - 1], m.move_value[m.next_move - 1])
