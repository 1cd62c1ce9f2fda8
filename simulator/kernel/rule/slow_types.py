"""Slow types of GPU: whether a job had better run there while those before it have the fast ones."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.rule.offers import fill_placement, slowest_chosen
from gpu_cluster_gym.simulator.kernel.rule.places import list_gpus, num_places
from gpu_cluster_gym.simulator.kernel.rule.seats import look_for
from gpu_cluster_gym.simulator.kernel.rule.type_speeds import note_types, waits_s


@compiled
def later_end(s, jobs, m, job, ahead):
    """Return the seconds until a queued job would end that waits for fast GPUs.

    -1 where no slow ones would end it sooner. ahead: GPUs that it and those before it ask for.
    """
    if s.phase[job] != QUEUED:
        return -1.0
    note_types(s, jobs, m, job)
    least = np.inf
    for node in range(s.num_nodes):
        if m.by_type[node] > 1.0:
            least = min(least, m.by_type[node])
    if least == np.inf:
        return -1.0
    ends = waits_s(s, m, ahead) + m.left_s[job]
    return ends if least * m.left_s[job] <= ends else -1.0


@compiled
def choose_empty(s, m, count, wanted):
    """Choose so many empty GPUs of a place that can hold the job that was looked for; tell whether there are."""
    chosen = 0
    for k in range(count):
        gpu = m.among[k]
        if chosen < wanted and m.is_empty[gpu] and m.slowdown[gpu] < np.inf:
            m.chosen[chosen] = gpu
            chosen += 1
    return chosen == wanted


@compiled
def begin_slowly(s, jobs, m, job, ahead):
    """Find the empty GPUs on which a queued job ends soonest; tell whether that is before it would if it waited.

    It runs as asked, and moves once fast GPUs come free in w seconds, if by then it is not done: with l seconds left, k
    times slower, it ends after min(k l, w + l - w / k + growth x restart) instead of w + l. The GPUs are noted.
    """
    if not look_for(s, jobs, m, job, -1):
        return False
    wait, left, wanted = waits_s(s, m, ahead), m.left_s[job], jobs[job].num_gpus
    restart = m.growth * (jobs[job].pause_s + jobs[job].load_s)
    least = wait + left
    found = False
    for place in range(num_places(s, jobs, m, job)):
        if not choose_empty(s, m, list_gpus(s, m, place), wanted):
            continue
        slow = slowest_chosen(s, jobs, m, job, wanted)
        ends = min(left * slow, wait + left - wait / slow + restart)
        if ends < least:
            least, found = ends, True
            fill_placement(jobs, m, job, m.chosen[:wanted], jobs[job].servers)
    return (
        found and legality.why_no_start(s, jobs, job, legality.Seat(m.gpus[:wanted], 0.0, NOBODY, 0, -1)) == 0
    )


@compiled
def find_slow_start(s, jobs, m):
    """Return the first in order that had better run on slow GPUs while it waits, or NOBODY; its GPUs are noted."""
    ahead = 0
    for at in range(m.num_standing):
        job = m.standing[at]
        ahead += jobs[job].num_gpus
        if s.phase[job] == RUNNING or job == m.kept_for or s.last_action_instant[job] == s.instant:
            continue
        if begin_slowly(s, jobs, m, job, ahead):
            return job
    return NOBODY
