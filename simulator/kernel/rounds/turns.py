"""Turns of jobs on kinds of GPUs, in rounds: which are paused, moved or started, one after another.

All (job, kind) come by the time that a job is owed there over what it has had. A job that runs on that kind keeps its
GPUs; another gets free ones, else those of the jobs that come last. A job that has no turn but is in no other's way
runs on. Between rounds what fits starts where it has a share, and no job is paused.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events, legality
from gpu_cluster_gym.simulator.kernel.cluster.decided import MOVE, PAUSE, START, WAIT, carry_out
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, NOBODY, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.legality import may_start, note_wait
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.rounds.glances import (
    GLANCE_S,
    find_anything,
    list_present,
    may_start_now,
    next_on_cores,
    wait_for_event,
    wait_for_glance,
)
from gpu_cluster_gym.simulator.kernel.rounds.turn_memory import SHARE
from gpu_cluster_gym.simulator.kernel.rounds.turn_room import find, is_hopeless

NOTHING_S = 1e-6  # of time received that is but rounding
SHARING, TURNS, VICTIMS, ON_CORES, ENDED = range(5)  # what comes next at an instant


@compiled
def count_until(m, time):
    """Count the time up to then as owed to jobs by their shares, and as received where they held GPUs."""
    passed_s = time - m.now_s
    for k in range(m.num_present):
        job = m.present[k]
        for kind in range(m.num_kinds):
            m.owed_s[job, kind] += m.share[job, kind] * passed_s
        if m.had[job] >= 0:
            m.got_s[job, m.had[job]] += passed_s
    m.now_s = time


@compiled
def count_time(s, m):
    """Count the time that has passed, by glance, those included at which there was nothing to do."""
    while m.glance_s < s.clock:
        count_until(m, m.glance_s)
        m.glance_s += GLANCE_S
    count_until(m, s.clock)


@compiled
def note_kinds(s, m, kinds):
    """Note the kind of GPUs on which each job runs or loads, -1 for others; the last is that of several types."""
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
    """Tell whether other jobs with GPUs, or nodes, are there than when shares were last found; note which are."""
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


@compiled
def begin_instant(s, jobs, m):
    """Count the time, and find out what there is to do at a new instant."""
    m.instant, m.has_moved = s.instant, 0
    count_time(s, m)
    list_present(s, m)
    m.is_round = s.clock >= m.began_s + m.every_s
    if m.is_round:
        m.began_s = s.clock
    m.stage = SHARING if m.is_round or may_start(s, jobs) else ENDED


@allocating
def order_turns(m):
    """List the turns: by time owed over time received, then by share, then by job."""
    most = m.num_sharing * m.num_kinds
    ratio, share, count = np.empty(most), np.empty(most), 0
    job_of, kind_of = np.empty(most, np.int32), np.empty(most, np.int32)
    for k in range(m.num_sharing):
        job = m.sharing[k]
        for kind in range(m.num_kinds):
            if m.share[job, kind] == 0:
                continue
            got_s = m.got_s[job, kind]
            ratio[count] = -m.owed_s[job, kind] / max(got_s, NOTHING_S) if got_s > 0 else -np.inf
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
    """List the jobs that may be paused, by their turns where they are; last those that have none there."""
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


@compiled
def begin_pass(s, jobs, m):
    """Put the turns in order, and note which jobs wait and which may be paused."""
    note_kinds(s, m, m.on)
    for k in range(m.num_present):
        job = m.present[k]
        m.waits[job] = may_start_now(s, job)
    order_turns(m)
    list_after(s, jobs, m)
    m.at = m.num_hopeless = m.num_victims = 0
    m.stage = TURNS


@compiled
def may_begin(s, jobs, m):
    """Tell whether the move that has been found may be made."""
    job, seat = m.move_job, legality.Seat(m.gpus[: m.num_gpus], 0.0, NOBODY, 0, -1)
    if m.waits[job]:
        return legality.why_no_start(s, jobs, job, seat) == 0
    return legality.why_no_move(s, jobs, job, seat) == 0


@compiled
def find_turn(s, jobs, m):
    """Find the next turn that can be taken, and the jobs to pause for it; tell whether there is one."""
    while m.at < m.num_turns:
        at = m.at
        job, kind = m.turn_job[at], m.turn_kind[at]
        m.at += 1
        if m.is_after[job] and m.on[job] == kind:
            m.is_after[job] = 0  # it keeps its GPUs
        if not m.waits[job] and not m.is_after[job]:
            continue
        if is_hopeless(s, jobs, m, at):
            continue
        count = find(s, jobs, m, job, kind)
        if count < 0 or (count == 0 and not may_begin(s, jobs, m)):  # or cores are free too late
            m.hopeless[m.num_hopeless] = at
            m.num_hopeless += 1
            continue
        m.num_victims = count
        return True
    return False


@compiled
def take_turn(s, jobs, m):
    """Return what the turn that has been found needs next: a pause, a start, a move; WAIT if it cannot be taken."""
    if m.num_victims > 0:
        m.num_victims -= 1
        m.victim = m.victims[0]
        for k in range(m.num_victims):
            m.victims[k] = m.victims[k + 1]
        m.is_after[m.victim] = 0
        m.has_moved = 1
        return PAUSE
    m.stage = TURNS
    if not may_begin(s, jobs, m):
        return WAIT
    job = m.move_job
    what = START if m.waits[job] else MOVE
    m.waits[job], m.has_moved = 0, 1
    if m.is_after[job]:
        m.is_after[job] = 0
        m.num_hopeless = 0  # what it leaves may do for others
    return what


@compiled
def next_turn(s, jobs, m):
    """Return the next move of the turns, WAIT at their end."""
    while m.stage == TURNS or m.stage == VICTIMS:
        if m.stage == TURNS:
            if not find_turn(s, jobs, m):
                break
            m.stage = VICTIMS
        what = take_turn(s, jobs, m)
        if what != WAIT:
            return what
    m.at, m.stage = 0, ON_CORES
    return WAIT


@compiled
def next_by_rule(s, jobs, m):
    """Find the next start by the placement rule: of CPU jobs, or of any where nothing else would happen."""
    if not next_on_cores(s, jobs, m):
        m.stage = ENDED
        if not find_anything(s, jobs, m):
            return False
    m.has_moved = 1
    return True


@compiled
def glance(s, jobs, m):
    """Say how long to wait: to the next glance while a job waits; to the next round where nothing changes before.

    That is after an instant of no round at which no move was made, and no job was paused.
    """
    note_kinds(s, m, m.had)
    wait_for_event(m)
    any_waits, any_runs, paused = m.num_kinds > 2, False, False
    for k in range(m.num_present):
        job = m.present[k]
        any_waits |= s.phase[job] == QUEUED and jobs[job].num_gpus > 0
        any_runs |= s.phase[job] == RUNNING
        paused |= s.phase[job] == QUEUED and s.last_action_instant[job] == s.instant
    if any_waits and any_runs:
        wait_for_glance(s, m, not (m.is_round or m.has_moved or paused))


@compiled
def decide(s, jobs, m):
    """Return what is to be done next, which is written down; SHARE where the shares are to be found anew first."""
    if m.instant != s.instant:
        begin_instant(s, jobs, m)
        if m.stage == SHARING and shares_are_old(s, jobs, m):
            return SHARE
    if m.stage == SHARING:
        begin_pass(s, jobs, m)
    if m.stage == TURNS or m.stage == VICTIMS:
        what = next_turn(s, jobs, m)
        if what != WAIT:
            return what
    if m.stage == ON_CORES and next_by_rule(s, jobs, m):
        return START
    glance(s, jobs, m)
    return WAIT


@entry
def next_move(states, e, memory, k, jobs):
    """Return what is to be done next, which is written down; SHARE where the shares are to be found anew first."""
    return decide(states[e], jobs, memory[k])


@entry
def run(states, e, memory, k, jobs):
    """Carry all moves out, from where the memory is on; return SHARE where shares are needed, WAIT at the end.

    Jobs are left then where time cannot go on.
    """
    s, m = states[e], memory[k]
    is_asked = m.instant == s.instant  # and not yet told the shares of this instant
    while is_asked or (s.num_done < s.num_jobs and events.advance(s, jobs)):
        is_asked = False
        what = decide(s, jobs, m)
        while what != WAIT and what != SHARE:
            carry_out(s, jobs, m, what)
            what = decide(s, jobs, m)
        if what == SHARE or not note_wait(s, jobs, m.wait_s):
            return what
    return WAIT
