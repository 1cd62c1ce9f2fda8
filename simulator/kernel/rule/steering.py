"""The rule over moves steered: its weights are set now and then, it runs on, and what was won and is seen is told.

What is seen besides the load (`load`) depends on the length of the window, or on the default run, and is for a critic
alone.
"""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.rule.load import describe_load
from gpu_cluster_gym.simulator.kernel.rule.rule_over_moves import act
from gpu_cluster_gym.simulator.kernel.rule.seats import see

CRITIC = ("progress", "default_present", "present", "gap")
"""What a critic may see besides: the share of jobs that have arrived, jobs present in the default run and here (log1p /
6), and the job-seconds won so far, over all of the default run's."""
MOST_INSTANTS = 100  # for each job; the default weights take some 5
NEVER_ENDS = -1.0  # what is won by weights under which jobs never end: as if all took twice as long


class DefaultRun(NamedTuple):
    """What the default rule makes of the windows of N environments: when jobs end, s, (N, J); its job-seconds, (N,)."""

    finish: np.ndarray
    total: np.ndarray


class Told(NamedTuple):
    """What is told of N environments, row by row, where they stop.

    load: (N, len(LOAD)). critic: (N, len(CRITIC)). gain: (N,), the share of the default run's job-seconds won since
    they last stopped, or `NEVER_ENDS` where jobs have not ended after `MOST_INSTANTS` for each. more: (N,), whether
    jobs are left.
    """

    load: np.ndarray
    critic: np.ndarray
    gain: np.ndarray
    more: np.ndarray


@compiled
def job_seconds(s, jobs, finish, time):
    """Integral of jobs present up to a time in a run in which jobs finish so."""
    total = 0.0
    for job in range(s.num_jobs):
        total += max(min(time, finish[job]) - jobs[job].submit_s, 0.0)
    return total


@compiled
def present_at(s, jobs, finish, time):
    """Return the jobs present at a time in a run in which jobs finish so."""
    count = 0
    for job in range(s.num_jobs):
        count += jobs[job].submit_s <= time < finish[job]
    return count


@compiled
def describe_progress(s, jobs, finish, total, out):
    """Write what a critic may see: float32 (len(CRITIC),); total: job-seconds of the default run."""
    out[0] = s.num_arrived / s.num_jobs
    out[1] = np.log1p(present_at(s, jobs, finish, s.clock)) / 6.0
    out[2] = np.log1p(s.num_arrived - s.num_done) / 6.0
    out[3] = (job_seconds(s, jobs, finish, s.clock) - s.present_seconds) / total


@compiled
def go_on(s, jobs, m, until, most):
    """Carry out the rule up to the first instant at this time or later, and not at it; tell whether jobs are left.

    At an infinite time to the end. False too where jobs never end, or not by so many instants that count.
    """
    while s.num_done < s.num_jobs:
        if events.instants_that_count(s) >= most or not events.advance(s, jobs):
            return False
        if s.clock >= until:
            return True
        act(s, jobs, m)
    return False


@entry
def look(states, e, memory, k, jobs, load):
    """Write what is seen of the load now: float32 (len(LOAD),)."""
    s, m = states[e], memory[k]
    see(s, jobs, m)
    describe_load(s, jobs, m, load)


@entry
def act_until(states, e, memory, k, jobs, until):
    """Act at this instant and run on to the first at `until` or later; tell whether jobs are left there.

    It moves as `steer` does, but is not stopped however many instants that takes: for a policy, which is not stopped
    either where it is asked move by move.
    """
    s, m = states[e], memory[k]
    act(s, jobs, m)
    return go_on(s, jobs, m, until, np.inf)


@entry
def begin_steering(states, e, memory, jobs, default, told):
    """Move to the first instant and describe it."""
    s, m = states[e], memory[e]
    events.advance(s, jobs[e])
    see(s, jobs[e], m)
    tell(s, jobs, m, e, default, told)


@compiled
def tell(s, jobs, m, e, default, told):
    """Describe where environment e is."""
    describe_load(s, jobs[e], m, told.load[e])
    describe_progress(s, jobs[e], default.finish[e], default.total[e], told.critic[e])


@entry
def steer(states, memory, jobs, until, default, told):
    """Let each environment act at this instant and run on to `until`, and describe where it is then.

    The weights have been written into each memory. jobs: (N, J). until: (N,), s.
    """
    gain, more = told.gain, told.more
    finish, total = default
    for e in range(len(states)):
        if not more[e]:
            gain[e] = 0.0
            continue
        s, m = states[e], memory[e]
        began, spent = s.clock, s.present_seconds
        act(s, jobs[e], m)
        more[e] = go_on(s, jobs[e], m, until[e], MOST_INSTANTS * s.num_jobs)
        end = s.clock if more[e] else np.inf
        meanwhile = job_seconds(s, jobs[e], finish[e], end) - job_seconds(s, jobs[e], finish[e], began)
        gain[e] = (meanwhile - (s.present_seconds - spent)) / total[e]
        if not more[e] and s.num_done < s.num_jobs:
            gain[e] = NEVER_ENDS
        see(s, jobs[e], m)
        tell(s, jobs, m, e, default, told)
