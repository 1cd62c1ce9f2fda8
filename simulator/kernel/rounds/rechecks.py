"""Parts shared by policies that act in rounds: rechecks between events, the jobs present, starts by the placement rule.

Such a policy looks at the cluster again every RECHECK_S, counted from the last event. Its memory has the fields that
these functions use.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, HELD, NOBODY, QUEUED
from gpu_cluster_gym.simulator.kernel.cluster.placement import place
from gpu_cluster_gym.simulator.kernel.cluster.plan import START, Fields, act
from gpu_cluster_gym.simulator.kernel.rankings.granting import place_on

PRESENT_FIELDS: Fields = (
    ("num_known", "i8"),  # jobs that had arrived when they were last listed
    ("num_present", "i8"),
    ("present", "i4", ("jobs",)),  # jobs that have arrived and not ended, by job, without held ones
    ("num_dependent", "i8"),
    ("dependent", "i4", ("jobs",)),  # jobs that are held
)

RECHECK_S = 60.0  # our choice; agents may wait as long
MAX_RECHECKS = 64  # skipped in one wait


@compiled
def wait_for_recheck(s, m, skips):
    """Set the wait to end at the next recheck; with `skips`, at the next round's first one, or after MAX_RECHECKS."""
    m.recheck_s = s.clock + RECHECK_S
    until, count = m.recheck_s, 1
    while skips and until < m.began_s + m.every_s and count < MAX_RECHECKS:
        until += RECHECK_S
        count += 1
    m.wait_s = until - s.clock
    if s.clock + m.wait_s != until:  # rounding would miss the recheck: wait for the next one alone
        m.wait_s = RECHECK_S


@compiled
def wait_for_event(m):
    """Set the wait to end at the next event."""
    m.recheck_s, m.wait_s = np.inf, np.nan


@compiled
def list_present(s, m):
    """List the jobs that have arrived and not ended, by job; a job that waits for others is listed when they end."""
    count, num_dependent = 0, 0
    for k in range(m.num_present):
        if s.phase[m.present[k]] != DONE:
            m.present[count] = m.present[k]
            count += 1
    for k in range(m.num_dependent):
        if s.phase[m.dependent[k]] == HELD:
            m.dependent[num_dependent] = m.dependent[k]
            num_dependent += 1
        else:
            insert_present(m, count, m.dependent[k])
            count += 1
    for job in range(m.num_known, s.num_arrived):
        if s.phase[job] == HELD:
            m.dependent[num_dependent] = job
            num_dependent += 1
        else:
            m.present[count] = job
            count += 1
    m.num_present, m.num_dependent, m.num_known = count, num_dependent, s.num_arrived


@compiled
def insert_present(m, count, job):
    """Insert a job into the first `count` entries of the list, which stays in ascending order."""
    place = count
    while place > 0 and m.present[place - 1] > job:
        m.present[place] = m.present[place - 1]
        place -= 1
    m.present[place] = job


@compiled
def may_start_now(s, job):
    """Return whether a job is queued and was not paused at this instant."""
    return s.phase[job] == QUEUED and s.last_action_instant[job] != s.instant


@compiled
def start_placed(s, jobs, m, job):
    """Start a job, in the shape it requests, where the placement rule has just put it."""
    m.num_gpus, m.node, m.workers, m.servers = jobs[job].num_gpus, NOBODY, 0, -1
    if m.num_gpus == 0:
        m.node = s.chosen_node[0]
    for k in range(m.num_gpus):
        m.gpus[k] = s.gpus[k]
    act(s, jobs, m, START, job)


@compiled
def start_by_rule(s, jobs, m):
    """Start the CPU jobs that fit, and one job of any kind if no event would wake the policy; return their number."""
    started = 0
    for k in range(m.num_present):
        job = m.present[k]
        if jobs[job].num_gpus == 0 and may_start_now(s, job) and place_on(s, jobs, job, 0):
            start_placed(s, jobs, m, job)
            started += 1
    if events.next_event(s, jobs) < np.inf:
        return started
    for k in range(m.num_present):
        job = m.present[k]
        if may_start_now(s, job) and place(s, jobs, job):
            start_placed(s, jobs, m, job)
            return started + 1
    return started
