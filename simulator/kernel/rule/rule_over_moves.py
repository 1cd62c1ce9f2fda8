"""The rule over moves carried out: one move after another at an instant, then time goes on, to the end."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events, laws, pausing
from gpu_cluster_gym.simulator.kernel.cluster.decided import CORES, MOVE, PAUSE, START, WAIT, carry_out_next
from gpu_cluster_gym.simulator.kernel.cluster.layout import RUNNING
from gpu_cluster_gym.simulator.kernel.cores.sharing import LEVELS, any_throttled
from gpu_cluster_gym.simulator.kernel.cores.tuning import begin_windows
from gpu_cluster_gym.simulator.kernel.rule.levers import drop_moves, find_moves
from gpu_cluster_gym.simulator.kernel.rule.rule_sight import divides


@compiled
def is_legal(s, jobs, m, at):
    """Tell whether a move of the list may be made now."""
    kind, job, value = m.move_kind[at], m.move_job[at], m.move_value[at]
    seat = laws.Seat(m.gpus[: m.num_gpus], value, m.node, 0, m.servers)
    if kind == START:
        return laws.why_no_start(s, jobs, job, seat) == 0
    if kind == MOVE:
        return laws.why_no_move(s, jobs, job, seat) == 0
    if kind == PAUSE:
        return pausing.may_pause(s, job)
    if kind == CORES:
        return laws.may_resize(s, jobs, job, value)
    return s.phase[job] == RUNNING and jobs[job].num_gpus == 0 and 1.0 / LEVELS <= value <= 1.0


@compiled
def wait(s, jobs, m):
    """Note how long to wait: to the next event, or to the end of a window that is watched."""
    m.wait_s = np.inf
    if not divides(s, m):
        return
    of_use = begin_windows(s, jobs, m)
    if of_use or any_throttled(s, m):
        m.wait_s = m.window_s


@compiled
def decide(s, jobs, m):
    """Return the kind of the next move, whose place on the list is noted; WAIT if there is none."""
    if m.instant != s.instant:
        drop_moves(m)
    while m.next_move < m.num_moves or find_moves(s, jobs, m):
        at = m.next_move
        if is_legal(s, jobs, m, at):
            m.next_move += 1
            return m.move_kind[at]
        kind, job = m.move_kind[at], m.move_job[at]
        drop_moves(m)
        if kind != START or m.refused_at[job] == s.instant:
            break
        m.refused_at[job] = s.instant
    wait(s, jobs, m)
    return WAIT


@compiled
def note_wait(s, jobs, m):
    """Say until when to wait."""
    idle = events.next_event(s, jobs) == np.inf
    s.wake = s.clock + (0.0 if idle and m.wait_s == np.inf else m.wait_s)


@compiled
def act(s, jobs, m):
    """Make all moves of this instant, and say until when to wait."""
    kind = decide(s, jobs, m)
    while kind != WAIT:
        carry_out_next(s, jobs, m, kind)
        kind = decide(s, jobs, m)
    note_wait(s, jobs, m)


@entry
def next_move(states, e, memory, k, jobs):
    """Return the kind of the next move; its place on the list is `next_move - 1`."""
    return decide(states[e], jobs, memory[k])


@entry
def run_until(states, e, memory, k, jobs, until):
    """Carry out the rule from the next instant on until a time, or the end; tell whether there was always one."""
    s, m = states[e], memory[k]
    while s.num_done < s.num_jobs and s.clock < until:
        if not events.advance(s, jobs):
            return False
        act(s, jobs, m)
    return True
