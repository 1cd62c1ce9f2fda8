"""Lists of jobs as a view shows them, in ascending order."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.layout import RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import place


@allocating
def list_queued(s, out):
    """List the queued jobs; return their number."""
    count = 0
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            out[count] = s.queue[at]
            count += 1
    out[:count].sort()
    return count


@entry
def queued(states, e, out):
    """List the queued jobs; return their number."""
    return list_queued(states[e], out)


@allocating
def list_queued_or_running(s, out):
    """List the jobs that are queued or run; return their number."""
    count = 0
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            out[count] = s.queue[at]
            count += 1
    for k in range(s.num_active):
        if s.phase[s.events[k]] == RUNNING:
            out[count] = s.events[k]
            count += 1
    out[:count].sort()
    return count


@entry
def queued_or_running(states, e, out):
    """List the jobs that are queued or run; return their number."""
    return list_queued_or_running(states[e], out)


@entry
def active(states, e, phase, out):
    """List the active jobs in a phase; return their number."""
    s = states[e]
    count = 0
    for k in range(s.num_active):
        if s.phase[s.events[k]] == phase:
            out[count] = s.events[k]
            count += 1
    out[:count].sort()
    return count


@entry
def preemptible(states, e, out):
    """List the running jobs that were not started at this instant; return their number."""
    s = states[e]
    count = 0
    for k in range(s.num_active):
        if may_pause(s, s.events[k]):
            out[count] = s.events[k]
            count += 1
    out[:count].sort()
    return count


@compiled
def may_start(s, jobs):
    """Tell whether a queued job fits where the rule places it, and may start now."""
    for request_class in range(s.num_classes):
        begin, size = s.queue_start[request_class], s.queue_size[request_class]
        if size == 0 or not place(s, jobs, s.queue[begin]):
            continue
        for at in range(begin, begin + size):
            if s.last_action_instant[s.queue[at]] != s.instant:
                return True
    return False


@entry
def may_any_start(states, e, jobs):
    """Tell whether a queued job fits where the rule places it, and may start now."""
    return may_start(states[e], jobs)


@compiled
def waits_for_gpus(s, jobs):
    """Tell whether a queued job asks for GPUs, and a job runs."""
    waits, runs = False, False
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] > 0 and jobs[s.queue[s.queue_start[request_class]]].num_gpus > 0:
            waits = True
    for k in range(s.num_active):
        runs |= s.phase[s.events[k]] == RUNNING
    return waits and runs


@compiled
def note_wait(s, jobs, seconds):
    """Note that the policy waits, for so many seconds at most; tell whether that is legal.

    It is not where nothing is pending and a job could start. seconds: NaN for none; where nothing is pending the next
    instant is then now, at which what was paused at this one may start.
    """
    is_pending = events.next_event(s, jobs) < np.inf
    if not is_pending and may_start(s, jobs):
        return False
    if np.isnan(seconds):
        seconds = np.inf if is_pending else 0.0
    s.wake = s.clock + seconds
    return True


@entry
def wait(states, e, jobs, seconds):
    """Note that the policy waits; see `note_wait`."""
    return note_wait(states[e], jobs, seconds)


@entry
def first_unknown(jobs, arrived):
    """Return the place of the first of some jobs that has not arrived, their number where all have."""
    for k in range(len(jobs)):
        if jobs[k] < 0 or jobs[k] >= arrived:
            return k
    return len(jobs)
