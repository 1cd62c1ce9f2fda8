"""Rounds that carry out a priority order of jobs: at each arrival, and every `every_s` while jobs wait for GPUs.

A job that waits for others arrives, in this sense, when the last of them ends.
Between rounds, jobs that fit start in the same order and no job is paused. A round may be late by less than RECHECK_S.
The order covers all jobs that are queued or running. `plan` asks Python for it; a policy with a compiled order
(`baselines.tiresias`) has a plan of its own.
"""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, PAUSING, RUNNING, Tier
from gpu_cluster_gym.simulator.kernel.cluster.legality import Seat, may_start, waits_for_gpus, why_no_start
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.plan import (
    ASKS,
    DONE,
    PAUSE,
    PLAN_FIELDS,
    START,
    Fields,
    act,
    begin_plan,
    dtype_of,
    next_plan,
)
from gpu_cluster_gym.simulator.kernel.rankings.granting import GPUS, VICTIMS, find_grant, note_who_runs
from gpu_cluster_gym.simulator.kernel.rounds.rechecks import wait_for_event, wait_for_recheck

FIELDS: Fields = (
    *PLAN_FIELDS,
    ("every_s", "f8"),  # seconds between two rounds
    ("num_known", "i8"),  # jobs that had arrived at the last round, without held ones
    ("began_s", "f8"),  # time of the last round
    ("recheck_s", "f8"),  # time of the next recheck
    ("is_round", "i1"),
    ("is_idle", "i1"),  # whether no job fits at this instant and no move has been made
    # order of this instant
    ("num_order", "i8"),
    ("order", "i8", ("jobs",)),  # queued and running jobs, highest priority first
    ("wanted", "i8", ("jobs",)),  # GPUs of each
    # scratch of the pass over the order
    ("runs", "i1", ("jobs",)),  # whether each may be paused
    ("hopeless", "f8", ("jobs", 3)),
    ("progress", "i8", (4,)),
    ("victims", "i4", ("gpus",)),
    # the order, and which jobs hold GPUs: at the last round, and now
    ("num_settled", "i8"),
    ("num_present", "i8"),
)


def fields_at(size: Tier) -> Fields:
    """Return the fields that a policy with rounds needs at a tier."""
    length = 4 * size.jobs + size.nodes + 3
    return (*FIELDS, ("settled", "i8", (length,)), ("present", "i8", (length,)))


@cache
def memory_dtype(size: Tier) -> np.dtype:
    """Return the record type of the memory of a policy whose order comes from Python."""
    return dtype_of(fields_at(size), size)


def init_memory(memory: np.ndarray, every_s: float) -> None:
    """Initialise a memory of zeros: write the settings, and mark that there has been no round."""
    memory["every_s"], memory["began_s"], memory["num_settled"] = every_s, -np.inf, -1


@compiled
def needs_order(s, jobs, m):
    """Store at a new instant whether a round is due; return whether an order is needed."""
    num_known = s.num_arrived - s.num_held
    m.is_round = num_known != m.num_known or s.clock >= m.began_s + m.every_s
    if m.is_round:
        m.num_known, m.began_s = num_known, s.clock
    m.is_idle = not may_start(s, jobs)
    return m.is_round or not m.is_idle


@compiled
def list_active(s, phase, m, at):
    """Append the jobs of a phase in ascending order, or the running jobs that may be paused; return the new length."""
    first = at
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == phase and (phase != RUNNING or may_pause(s, job)):
            place = at
            while place > first and m.present[place - 1] > job:
                m.present[place] = m.present[place - 1]
                place -= 1
            m.present[place] = job
            at += 1
    m.present[at] = NOBODY
    return at + 1


@compiled
def list_present(s, m):
    """List the order, the jobs that hold GPUs, and the free GPUs of each node."""
    at = 0
    for k in range(m.num_order):
        m.present[at], m.present[at + 1] = m.order[k], m.wanted[k]
        at += 2
    m.present[at] = NOBODY
    at = list_active(s, RUNNING, m, at + 1)
    at = list_active(s, PAUSING, m, at)
    for node in range(s.num_nodes):
        m.present[at] = s.free[node]
        at += 1
    m.num_present = at


@compiled
def settle(s, m):
    """Return whether order, holders and free GPUs are unchanged since the last round, and store the current ones."""
    list_present(s, m)
    same = m.num_present == m.num_settled
    for k in range(m.num_present):
        same = same and m.present[k] == m.settled[k]
        m.settled[k] = m.present[k]
    m.num_settled = m.num_present
    return same


@compiled
def load_grant(s, jobs, m, job):
    """Copy the placement found into the memory; GPUs beyond one per worker are for parameter servers."""
    m.num_gpus, m.node = m.progress[GPUS], NOBODY
    if m.num_gpus == 0:
        m.node = s.chosen_node[0]
    for k in range(m.num_gpus):
        m.gpus[k] = s.gpus[k]
    m.workers, m.servers = 0, -1
    if m.num_gpus != jobs[job].num_gpus:
        m.workers, m.servers = jobs[job].num_gpus, max(m.num_gpus - jobs[job].num_gpus, 0)


@compiled
def find_next(s, jobs, m):
    """Find the next start of the pass and its victims; return the job, or NOBODY at the end."""
    count = m.num_order
    return find_grant(s, jobs, m.order[:count], m.wanted[:count], m.runs[:count], m.hopeless, m.progress)


@compiled
def carry_out_order(s, jobs, m):
    """Give jobs their GPUs in order, with pauses in a round; do nothing if nothing has changed since the last round."""
    if m.is_round and settle(s, m) and m.is_idle:
        return
    note_who_runs(s, jobs, m.order[: m.num_order], m.runs, m.is_round > 0)
    m.progress[:] = 0
    job = find_next(s, jobs, m)
    while job != NOBODY:
        load_grant(s, jobs, m, job)
        num_victims = m.progress[VICTIMS]
        for k in range(num_victims):
            m.victims[k] = s.victims[k]  # a pause may overwrite those of the record
        for k in range(num_victims):
            act(s, jobs, m, PAUSE, m.victims[k])
        seat = Seat(m.gpus[: m.num_gpus], 0.0, m.node, m.workers, m.servers)
        # Victims of a slow pause hold their GPUs for a while: the job starts now only if these can be reserved.
        if num_victims == 0 or why_no_start(s, jobs, job, seat) == 0:
            act(s, jobs, m, START, job)
        m.is_idle = 0
        job = find_next(s, jobs, m)


@compiled
def set_wait(s, jobs, m):
    """Set the wait: to the next recheck while jobs wait for GPUs, skipping rechecks that would do nothing."""
    wait_for_event(m)
    if waits_for_gpus(s, jobs):
        wait_for_recheck(s, m, m.is_idle and not events.any_held_back(s))


@compiled
def plan(s, jobs, m):
    """Carry out the order of this instant, which Python writes into `order` and `wanted`."""
    if not begin_plan(s, m):
        carry_out_order(s, jobs, m)
    elif needs_order(s, jobs, m):
        return ASKS
    set_wait(s, jobs, m)
    return DONE


@entry
def step(states, e, memory, k, jobs):
    """Make the plan of this instant; return its status."""
    return plan(states[e], jobs, memory[k])


@entry
def run(states, e, memory, k, jobs):
    """Play an episode to its end, or until an order is needed; return the status."""
    s, m = states[e], memory[k]
    while next_plan(s, jobs, m):
        m.status = plan(s, jobs, m)
        if m.status >= ASKS:
            break
    return m.status
