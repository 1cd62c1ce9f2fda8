"""What policies that act in rounds share: how long they wait, which jobs are there, and starts by the placement rule.

Such a policy looks again every GLANCE_S, counted from the last event. Its memory has what is named here by these names.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, NOBODY, QUEUED
from gpu_cluster_gym.simulator.kernel.cluster.placement import place
from gpu_cluster_gym.simulator.kernel.rankings.granting import place_on

GLANCE_S = 60.0  # our choice; the shorter wait that agents have too
MOST_GLANCES = 64  # that are left out at once


@compiled
def wait_for_glance(s, m, leaves_out):
    """Say how long to wait: to the next glance, or, where those before would do nothing, to the first in a round."""
    m.glance_s = s.clock + GLANCE_S
    until, count = m.glance_s, 1
    while leaves_out and until < m.began_s + m.every_s and count < MOST_GLANCES:
        until += GLANCE_S
        count += 1
    m.wait_s = until - s.clock
    if s.clock + m.wait_s != until:
        m.wait_s = GLANCE_S


@compiled
def wait_for_event(m):
    """Say to wait for the next event."""
    m.glance_s, m.wait_s = np.inf, np.nan


@compiled
def list_present(s, m):
    """List the jobs that have arrived and not ended."""
    count = 0
    for k in range(m.num_present):
        if s.phase[m.present[k]] != DONE:
            m.present[count] = m.present[k]
            count += 1
    for job in range(m.num_known, s.num_arrived):
        m.present[count] = job
        count += 1
    m.num_present, m.num_known = count, s.num_arrived


@compiled
def may_start_now(s, job):
    """Tell whether a job is queued and was not paused at this very instant."""
    return s.phase[job] == QUEUED and s.last_action_instant[job] != s.instant


@compiled
def load_place(s, jobs, m, job):
    """Write down where the placement rule has just put a job."""
    m.move_job, m.num_gpus, m.node = job, jobs[job].num_gpus, NOBODY
    if m.num_gpus == 0:
        m.node = s.chosen_node[0]
    for k in range(m.num_gpus):
        m.gpus[k] = s.gpus[k]


@compiled
def next_on_cores(s, jobs, m):
    """Find the next CPU job that fits, from where the memory is on; tell whether there is one."""
    while m.at < m.num_present:
        job = m.present[m.at]
        m.at += 1
        if jobs[job].num_gpus == 0 and may_start_now(s, job) and place_on(s, jobs, job, 0):
            load_place(s, jobs, m, job)
            return True
    return False


@compiled
def find_anything(s, jobs, m):
    """Find the first job that the rule could start, where nothing would ever wake the policy for it."""
    if events.next_event(s, jobs) < np.inf:
        return False
    for k in range(m.num_present):
        job = m.present[k]
        if may_start_now(s, job) and place(s, jobs, job):
            load_place(s, jobs, m, job)
            return True
    return False
