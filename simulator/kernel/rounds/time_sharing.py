"""Time sharing on kinds of GPUs, in rounds: each job has a share of time on each kind (`baselines.gavel`).

All pairs of a job and a kind are ordered by the time that the job is owed there over the time that it has received. A
job that runs on that kind keeps its GPUs; another gets free GPUs, or those of the jobs that come last. A job that has
no turn but is in no other's way runs on. Between rounds, what fits starts where it has a share, and no job is paused.
Kinds are the types of GPUs of a cluster; the last kind is all GPUs together.
"""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import GPU_TYPES, LOADING, NOBODY, QUEUED, RUNNING, Tier
from gpu_cluster_gym.simulator.kernel.cluster.legality import Seat, may_start, why_no_move, why_no_start
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone, is_free
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold, holding_groups
from gpu_cluster_gym.simulator.kernel.cluster.plan import (
    ASKS,
    DONE,
    MOVE,
    PAUSE,
    PLAN_FIELDS,
    START,
    Fields,
    act,
    begin_plan,
    dtype_of,
    next_plan,
)
from gpu_cluster_gym.simulator.kernel.rankings.granting import make_room, place_on
from gpu_cluster_gym.simulator.kernel.rankings.room import EPS
from gpu_cluster_gym.simulator.kernel.rounds.rechecks import (
    PRESENT_FIELDS,
    RECHECK_S,
    list_present,
    may_start_now,
    start_by_rule,
    wait_for_event,
    wait_for_recheck,
)

MAX_KINDS = len(GPU_TYPES) + 1  # the types, and all GPUs together
MIN_RECEIVED_S = 1e-6  # less time received is rounding

FIELDS: Fields = (
    *PLAN_FIELDS,
    ("every_s", "f8"),  # seconds between two rounds
    ("num_kinds", "i8"),
    ("node_kind", "i4", ("nodes",)),  # -1 of a node without GPUs
    # time
    ("now_s", "f8"),  # time up to which shares have been counted
    ("began_s", "f8"),  # time of the last round
    ("recheck_s", "f8"),  # time of the next recheck
    ("is_round", "i1"),
    # jobs
    *PRESENT_FIELDS,
    ("num_sharing", "i8"),
    ("sharing", "i4", ("jobs",)),  # jobs for which shares were last computed
    ("shared_closed", "i1", ("nodes",)),  # nodes that were closed then
    ("share", "f8", ("jobs", MAX_KINDS)),  # of a job's time on each kind
    ("owed_s", "f8", ("jobs", MAX_KINDS)),
    ("received_s", "f8", ("jobs", MAX_KINDS)),
    ("held", "i4", ("jobs",)),  # kind on which a job was after the last moves, -1 for none
    # scratch of the pass over the turns
    ("num_turns", "i8"),
    ("on", "i4", ("jobs",)),  # kind on which a job runs or loads at its beginning, -1 for none
    ("waits", "i1", ("jobs",)),
    ("num_after", "i8"),
    ("after", "i8", ("jobs",)),  # running jobs that may be paused, in the order of their turns
    ("is_after", "i1", ("jobs",)),  # whether a job is still among them
    ("num_hopeless", "i8"),
    ("victims", "i4", ("gpus",)),
    ("able", "i1", ("nodes",)),
)


@cache
def memory_dtype(size: Tier) -> np.dtype:
    """Return the record type of the memory at a tier."""
    length = MAX_KINDS * size.jobs
    lists: Fields = (
        ("turn_job", "i4", (length,)),
        ("turn_kind", "i4", (length,)),
        ("hopeless", "i4", (length,)),  # turns that found no space, one for each class of requests
    )
    return dtype_of((*FIELDS, *lists), size)


def init_memory(memory: np.ndarray, states: np.ndarray, every_s: float) -> None:
    """Write the settings and the kinds of GPUs of an episode's cluster into a memory of zeros."""
    memory["every_s"] = every_s
    memory["began_s"], memory["recheck_s"] = -np.inf, np.inf
    memory["num_sharing"] = memory["held"] = -1
    count = int(states["num_nodes"][0])
    gpus, kinds = states["node_gpus"][0, :count], states["node_type"][0, :count]
    types = np.unique(kinds[gpus > 0])
    memory["num_kinds"] = len(types) + 1
    memory["node_kind"][0, :count] = [
        np.flatnonzero(types == kind)[0] if kind in types else -1 for kind in kinds
    ]


# Time owed and received, and whether shares are still valid.


@compiled
def count_until(m, time):
    """Count the time up to `time` as owed to jobs by their shares, and as received where they held GPUs."""
    passed_s = time - m.now_s
    for k in range(m.num_present):
        job = m.present[k]
        for kind in range(m.num_kinds):
            m.owed_s[job, kind] += m.share[job, kind] * passed_s
        if m.held[job] >= 0:
            m.received_s[job, m.held[job]] += passed_s
    m.now_s = time


@compiled
def count_time(s, m):
    """Count the time since the last instant in steps of rechecks, also of skipped ones: sums do not depend on skips."""
    while m.recheck_s < s.clock:
        count_until(m, m.recheck_s)
        m.recheck_s += RECHECK_S
    count_until(m, s.clock)


@compiled
def note_kinds(s, m, kinds):
    """Write the kind of GPUs on which each job runs or loads, -1 for others; GPUs of several types are the last."""
    for k in range(m.num_present):
        kinds[m.present[k]] = NOBODY
    for gpu in range(s.num_gpus):
        job = s.first_owner[gpu]
        if job == NOBODY or not (s.phase[job] == RUNNING or s.phase[job] == LOADING):
            continue
        kind = m.node_kind[s.gpu_node[gpu]]
        if kinds[job] == NOBODY:
            kinds[job] = kind
        elif kinds[job] != kind:
            kinds[job] = m.num_kinds - 1


@compiled
def shares_are_old(s, jobs, m):
    """Return whether jobs with GPUs, or closed nodes, differ from those that the shares are for; note the new ones."""
    count, is_other = 0, m.num_sharing < 0
    for k in range(m.num_present):
        job = m.present[k]
        if jobs[job].num_gpus > 0:
            is_other |= m.sharing[count] != job
            m.sharing[count] = job
            count += 1
    is_other |= count != m.num_sharing
    m.num_sharing = count
    for node in range(s.num_nodes):
        is_other |= m.shared_closed[node] != s.closed[node]
        m.shared_closed[node] = s.closed[node]
    return is_other


# The order of the turns, and the jobs that may be paused.


@allocating
def order_turns(m):
    """List the turns by time owed over time received, the largest first, then by share, then by job."""
    length = m.num_sharing * m.num_kinds
    ratio, share, count = np.empty(length), np.empty(length), 0
    job_of, kind_of = np.empty(length, np.int32), np.empty(length, np.int32)
    for k in range(m.num_sharing):
        job = m.sharing[k]
        for kind in range(m.num_kinds):
            if m.share[job, kind] == 0:
                continue
            received_s = m.received_s[job, kind]
            # A job that has received nothing yet comes before all others.
            ratio[count] = (
                -m.owed_s[job, kind] / max(received_s, MIN_RECEIVED_S) if received_s > 0 else -np.inf
            )
            share[count] = -m.share[job, kind]
            job_of[count], kind_of[count] = job, kind
            count += 1
    by_share = np.argsort(share[:count], kind="mergesort")
    order = by_share[np.argsort(ratio[:count][by_share], kind="mergesort")]
    for k in range(count):
        m.turn_job[k], m.turn_kind[k] = job_of[order[k]], kind_of[order[k]]
    m.num_turns = count


@allocating
def list_after(s, jobs, m):
    """List the jobs that may be paused by their turns on their own kind; jobs without such a turn come last."""
    place_of, count = np.empty(m.num_present, np.int64), 0
    for k in range(m.num_present):
        job = m.present[k]
        m.is_after[job] = 0
        if m.is_round and may_pause(s, job) and jobs[job].num_gpus > 0 and is_alone(s, job):
            m.after[count] = job
            m.is_after[job] = 1
            place_of[count] = m.num_turns
            count += 1
    m.num_after = count
    if count == 0:
        return
    where = np.empty(s.num_arrived, np.int64)
    for k in range(count):
        where[m.after[k]] = k
    for k in range(m.num_turns):
        job = m.turn_job[k]
        if m.is_after[job] and m.on[job] == m.turn_kind[k]:
            place_of[where[job]] = k
    jobs_after = m.after[:count].copy()
    order = np.argsort(place_of[:count], kind="mergesort")
    for k in range(count):
        m.after[k] = jobs_after[order[k]]


# GPUs for a turn: free ones of a kind, or those of the jobs that come last.


@compiled
def is_hopeless(s, jobs, m, at):
    """Return whether a job with the same request for the same kind has found no space in this pass."""
    job = m.turn_job[at]
    for k in range(m.num_hopeless):
        other = m.turn_job[m.hopeless[k]]
        if (
            m.turn_kind[m.hopeless[k]] == m.turn_kind[at]
            and jobs[other].num_gpus == jobs[job].num_gpus
            and jobs[other].cores_each == jobs[job].cores_each
            and holding_groups(s, jobs, other) == holding_groups(s, jobs, job)
        ):
            return True
    return False


@compiled
def is_of_kind(m, node, kind):
    """Return whether the GPUs of a node are of a kind."""
    return m.node_kind[node] >= 0 and (kind == m.num_kinds - 1 or m.node_kind[node] == kind)


@compiled
def best_fit(s, jobs, m, job, wanted):
    """Return the able node with fewest free GPUs, but enough of them and of cores, for `wanted` GPUs; or NOBODY."""
    more = max(jobs[job].cores_each - 1.0, 0.0) if s.cpu_limited else 0.0  # beyond one core for each GPU
    best = NOBODY
    for node in range(s.num_nodes):
        fits = m.able[node] and s.free[node] >= wanted and s.unreserved_cores[node] + EPS >= more * wanted
        if fits and (best == NOBODY or s.free[node] < s.free[best]):
            best = node
    return best


@compiled
def fit(s, jobs, m, job, kind):
    """Find free GPUs of a kind by best fit, by the scenario's rule if all GPUs will do; return whether a job fits."""
    if kind == m.num_kinds - 1 or m.num_kinds == 2:
        return place_on(s, jobs, job, jobs[job].num_gpus)
    largest, count = 0, 0
    for node in range(s.num_nodes):
        m.able[node] = is_of_kind(m, node, kind) and can_hold(s, jobs, job, node)
        if m.able[node]:
            largest = max(largest, s.node_gpus[node])
    while count < jobs[job].num_gpus:
        wanted = min(jobs[job].num_gpus - count, largest)
        node = best_fit(s, jobs, m, job, wanted)
        if node == NOBODY:
            return False
        m.able[node] = False
        until = count + wanted
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            if count < until and is_free(s, gpu):
                s.gpus[count] = gpu
                count += 1
    return True


@allocating
def find_room(s, jobs, m, job, kind):
    """Find GPUs for a job, free ones if possible, and its victims; return the number of victims, -1 without space."""
    count, gpus = 0, jobs[job].num_gpus
    if not fit(s, jobs, m, job, kind):
        after, num_after = np.empty(m.num_after, np.int64), 0
        for k in range(m.num_after):
            if m.is_after[m.after[k]] and m.after[k] != job:
                after[num_after] = m.after[k]
                num_after += 1
        able = np.empty(s.num_nodes, np.bool_)
        for node in range(s.num_nodes):
            able[node] = is_of_kind(m, node, kind) and can_hold(s, jobs, job, node)
        count = make_room(s, jobs, job, gpus, after[:num_after], able)
    if count < 0:
        return count
    s.gpus[:gpus].sort()
    m.num_gpus, m.node, m.workers, m.servers = gpus, NOBODY, 0, -1
    for k in range(gpus):
        m.gpus[k] = s.gpus[k]
    for k in range(count):
        m.victims[k] = s.victims[k]
    return count


# The moves.


@compiled
def may_begin(s, jobs, m, job):
    """Return whether a job may start on, or move to, the GPUs that have been found."""
    seat = Seat(m.gpus[: m.num_gpus], 0.0, NOBODY, 0, -1)
    if m.waits[job]:
        return why_no_start(s, jobs, job, seat) == 0
    return why_no_move(s, jobs, job, seat) == 0


@compiled
def take_turns(s, jobs, m):
    """Let each turn for which there is space be taken, in order: victims pause, then the job starts or moves."""
    for at in range(m.num_turns):
        job, kind = m.turn_job[at], m.turn_kind[at]
        if m.is_after[job] and m.on[job] == kind:
            m.is_after[job] = 0  # it keeps its GPUs
        if (not m.waits[job] and not m.is_after[job]) or is_hopeless(s, jobs, m, at):
            continue
        num_victims = find_room(s, jobs, m, job, kind)
        # Without victims a start can still be refused, where cores are freed too late.
        if num_victims < 0 or (num_victims == 0 and not may_begin(s, jobs, m, job)):
            m.hopeless[m.num_hopeless] = at
            m.num_hopeless += 1
            continue
        for k in range(num_victims):
            m.is_after[m.victims[k]] = 0
            act(s, jobs, m, PAUSE, m.victims[k])
        if not may_begin(s, jobs, m, job):
            continue
        act(s, jobs, m, START if m.waits[job] else MOVE, job)
        m.waits[job] = 0
        if m.is_after[job]:
            m.is_after[job] = 0
            m.num_hopeless = 0  # others may use what it leaves


@compiled
def carry_out_turns(s, jobs, m):
    """Order the turns, let them be taken, and start CPU jobs."""
    note_kinds(s, m, m.on)
    for k in range(m.num_present):
        m.waits[m.present[k]] = may_start_now(s, m.present[k])
    order_turns(m)
    list_after(s, jobs, m)
    m.num_hopeless = 0
    take_turns(s, jobs, m)
    start_by_rule(s, jobs, m)


@compiled
def set_wait(s, jobs, m):
    """Set the wait: to the next recheck while jobs wait for GPUs, to the next round where rechecks would do nothing.

    They would after an instant without a round, a move, or a queued job that was paused at it.
    """
    note_kinds(s, m, m.held)
    wait_for_event(m)
    any_waits, any_runs, paused = m.num_kinds > 2, False, False
    for k in range(m.num_present):
        job = m.present[k]
        any_waits |= s.phase[job] == QUEUED and jobs[job].num_gpus > 0
        any_runs |= s.phase[job] == RUNNING
        paused |= s.phase[job] == QUEUED and s.last_action_instant[job] == s.instant
    if any_waits and any_runs:
        wait_for_recheck(s, m, not (m.is_round or m.num_actions > 0 or paused))


@compiled
def plan(s, jobs, m):
    """Carry out the turns of this instant; if jobs or open nodes have changed, ask for shares first."""
    if begin_plan(s, m):
        count_time(s, m)
        list_present(s, m)
        m.is_round = s.clock >= m.began_s + m.every_s
        if m.is_round:
            m.began_s = s.clock
        if not m.is_round and not may_start(s, jobs):
            set_wait(s, jobs, m)
            return DONE
        if shares_are_old(s, jobs, m):
            return ASKS
    carry_out_turns(s, jobs, m)
    set_wait(s, jobs, m)
    return DONE


@entry
def step(states, e, memory, k, jobs):
    """Make the plan of this instant; return its status."""
    return plan(states[e], jobs, memory[k])


@entry
def run(states, e, memory, k, jobs):
    """Play an episode to its end, or until shares are needed; return the status."""
    s, m = states[e], memory[k]
    while next_plan(s, jobs, m):
        m.status = plan(s, jobs, m)
        if m.status >= ASKS:
            break
    return m.status
