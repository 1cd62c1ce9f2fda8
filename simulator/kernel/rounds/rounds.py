"""An order of jobs carried out in rounds: at each arrival, and every so often while jobs wait for GPUs.

In between, what fits starts in the same order and no job is paused. A round may be late by less than a glance. An order
is of all jobs that are queued or run: told from outside, or by levels of service with a way back for jobs that starve.
"""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events, legality
from gpu_cluster_gym.simulator.kernel.cluster.decided import (
    MOVE_FIELDS,
    PAUSE,
    START,
    THROTTLE,
    WAIT,
    Fields,
    carry_out,
    dtype_of,
)
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_LEVELS, NOBODY, PAUSING, QUEUED, RUNNING, Tier
from gpu_cluster_gym.simulator.kernel.cluster.legality import (
    list_queued_or_running,
    may_start,
    note_wait,
    waits_for_gpus,
)
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.queues import ran_now
from gpu_cluster_gym.simulator.kernel.rankings.granting import GPUS, VICTIMS, find_grant, note_who_runs
from gpu_cluster_gym.simulator.kernel.rounds.glances import GLANCE_S, MOST_GLANCES

ORDER = THROTTLE + 1  # beside the kinds of moves: the order is to be told
TOLD, BY_LEVEL = range(2)  # where the order comes from
ORDERING, BEGINNING, GRANTING, MAKING, ENDED = range(5)  # what comes next at an instant

ROUND_FIELDS: Fields = (
    # the policy
    ("every_s", "f8"),  # s between two rounds
    ("way", "i1"),  # TOLD or BY_LEVEL
    ("apart", "i1"),  # by level: whether servers have GPUs of their own
    ("limits", "f8", (MAX_LEVELS,)),  # GPU-seconds at which the next level begins; infinite beyond the last
    ("starve", "f8"),  # s of waiting for each that it has run after which a job is in the first level again
    ("forgiven_s", "f8", ("jobs",)),  # what it had run when it last was sent back there
    # rounds
    ("instant", "i8"),  # the last at which it was asked
    ("num_known", "i8"),  # jobs that had arrived at the last round
    ("began_s", "f8"),  # s; the last round
    ("is_round", "i1"),
    ("is_idle", "i1"),  # whether nothing fits at this instant, and no move has been made
    ("num_settled", "i8"),
    ("num_present", "i8"),
    ("wait_s", "f8"),  # s to wait; nan for the next event
    # the pass of this instant
    ("stage", "i8"),
    ("num_order", "i8"),
    ("order", "i8", ("jobs",)),  # jobs that are queued or run, the first first
    ("wanted", "i8", ("jobs",)),  # GPUs that each is to have
    ("level", "i8", ("jobs",)),
    ("runs", "i1", ("jobs",)),  # which of the order may be paused
    ("hopeless", "f8", ("jobs", 3)),
    ("progress", "i8", (5,)),
    ("num_victims", "i8"),
    ("next_victim", "i8"),
    ("victims", "i4", ("gpus",)),
    *MOVE_FIELDS,
)


@cache
def round_dtype(size: Tier) -> np.dtype:
    """Return the record type of what such a policy keeps, at one tier."""
    most = 4 * size.jobs + size.nodes + 3
    lists: Fields = (
        ("settled", "i8", (most,)),  # the order, and who held what, when a round last began
        ("present", "i8", (most,)),  # now
    )
    return dtype_of((*ROUND_FIELDS, *lists), size)


def forget(memory: np.ndarray) -> None:
    """Make of zeros the memory of a policy that has not been asked yet."""
    memory["instant"], memory["began_s"], memory["num_settled"] = -1, -np.inf, -1


@compiled
def level_of(m, service):
    """Return the level of a job that has had so much service."""
    level = 0
    while level < len(m.limits) and m.limits[level] <= service:
        level += 1
    return level


@allocating
def order_by_level(s, jobs, m):
    """Put the jobs that are queued or run in the order of their levels, then of submission; send back who starves."""
    count = list_queued_or_running(s, m.order)
    for k in range(count):
        job = m.order[k]
        ran_s = ran_now(s, job)
        m.forgiven_s[job] = min(m.forgiven_s[job], ran_s)
        level = level_of(m, (ran_s - m.forgiven_s[job]) * jobs[job].num_gpus)
        starves = (s.clock - s.phase_began[job]) / m.starve >= ran_s
        if s.phase[job] == QUEUED and level > 0 and starves:
            m.forgiven_s[job] = ran_s
            level = 0
        m.level[k] = level
    m.order[:count] = m.order[:count][np.argsort(m.level[:count], kind="mergesort")]
    for k in range(count):
        job = m.order[k]
        m.wanted[k] = jobs[job].num_gpus + (jobs[job].servers if m.apart else 0)
    m.num_order = count


@compiled
def list_active(s, phase, m, at):
    """List behind others the jobs that run and may be paused, or those of another phase; return the end of the list."""
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
    """List the order, and who holds what."""
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
def is_settled(s, m):
    """Tell whether all is as it was when the last round began, and note how it is."""
    list_present(s, m)
    same = m.num_present == m.num_settled
    for k in range(m.num_present):
        same = same and m.present[k] == m.settled[k]
        m.settled[k] = m.present[k]
    m.num_settled = m.num_present
    return same


@compiled
def begin_instant(s, jobs, m):
    """Find out what there is to do at a new instant."""
    m.instant = s.instant
    m.is_round = s.num_arrived != m.num_known or s.clock >= m.began_s + m.every_s
    if m.is_round:
        m.num_known, m.began_s = s.num_arrived, s.clock
    m.is_idle = not may_start(s, jobs)
    m.stage = ENDED if m.is_idle and not m.is_round else ORDERING


@compiled
def begin_pass(s, jobs, m):
    """Begin to carry the order out, unless all is as it was at the last round."""
    m.stage = GRANTING
    if m.is_round and is_settled(s, m) and m.is_idle:
        m.stage = ENDED
        return
    note_who_runs(s, jobs, m.order[: m.num_order], m.runs, m.is_round > 0)
    m.progress[:] = 0


@compiled
def load_grant(s, jobs, m, job):
    """Write down the start that has been found, and the jobs to pause for it."""
    m.move_job, m.num_gpus, m.node = job, m.progress[GPUS], NOBODY
    if m.num_gpus == 0:
        m.node = s.chosen_node[0]
    for k in range(m.num_gpus):
        m.gpus[k] = s.gpus[k]
    m.workers, m.servers = 0, -1
    if m.num_gpus != jobs[job].num_gpus:
        m.workers, m.servers = jobs[job].num_gpus, max(m.num_gpus - jobs[job].num_gpus, 0)
    m.num_victims, m.next_victim = m.progress[VICTIMS], 0
    for k in range(m.num_victims):
        m.victims[k] = s.victims[k]


@compiled
def may_begin(s, jobs, m):
    """Tell whether the start that is written down is legal once the jobs have been paused for it."""
    gpus = m.gpus[: m.num_gpus]
    return (
        m.num_victims == 0
        or legality.why_no_start(s, jobs, m.move_job, legality.Seat(gpus, 0.0, m.node, m.workers, m.servers))
        == 0
    )


@compiled
def find_next(s, jobs, m):
    """Find the next start of the pass, and the jobs to pause for it; tell whether there is one."""
    count = m.num_order
    job = find_grant(s, jobs, m.order[:count], m.wanted[:count], m.runs[:count], m.hopeless, m.progress)
    if job != NOBODY:
        load_grant(s, jobs, m, job)
    return job != NOBODY


@compiled
def next_of_pass(s, jobs, m):
    """Return the next move of the pass, WAIT at its end."""
    while m.stage != GRANTING or find_next(s, jobs, m):
        m.stage = MAKING
        if m.next_victim < m.num_victims:
            m.victim = m.victims[m.next_victim]
            m.next_victim += 1
            return PAUSE
        m.stage = GRANTING
        if may_begin(s, jobs, m):
            return START
    m.stage = ENDED
    return WAIT


@compiled
def wait_for_glance(s, jobs, m):
    """Say how long to wait: to the next glance, or to the first in a round where those before would do nothing."""
    m.wait_s = np.nan
    if not waits_for_gpus(s, jobs):
        return
    until = s.clock + GLANCE_S
    if m.is_idle and not events.any_held_back(s):
        last = min(m.began_s + m.every_s, s.clock + MOST_GLANCES * GLANCE_S)
        while until < last:
            until += GLANCE_S
    m.wait_s = until - s.clock
    if s.clock + m.wait_s != until:
        m.wait_s = GLANCE_S


@compiled
def decide(s, jobs, m):
    """Return what is to be done next, which is written down; ORDER where the order is to be told first."""
    if m.instant != s.instant:
        begin_instant(s, jobs, m)
    if m.stage == ORDERING:
        if m.way == TOLD:
            return ORDER
        order_by_level(s, jobs, m)
        m.stage = BEGINNING
    if m.stage == BEGINNING:
        begin_pass(s, jobs, m)
    if m.stage != ENDED:
        what = next_of_pass(s, jobs, m)
        if what != WAIT:
            m.is_idle = 0
            return what
    wait_for_glance(s, jobs, m)
    return WAIT


@entry
def next_move(states, e, memory, k, jobs):
    """Return what is to be done next; see `decide`."""
    return decide(states[e], jobs, memory[k])


@entry
def run(states, e, memory, k, jobs):
    """Carry all moves out, from where the memory is on; return ORDER where an order is needed, WAIT at the end.

    Jobs are left then where time cannot go on.
    """
    s, m = states[e], memory[k]
    is_asked = m.instant == s.instant  # and has just been told the order of this instant
    while is_asked or (s.num_done < s.num_jobs and events.advance(s, jobs)):
        is_asked = False
        what = decide(s, jobs, m)
        while what != WAIT and what != ORDER:
            carry_out(s, jobs, m, what)
            what = decide(s, jobs, m)
        if what == ORDER or not note_wait(s, jobs, m.wait_s):
            return what
    return WAIT
