"""Steering: `union` with weights that are set between intervals, in a batch of environments.

Each step runs every environment for an interval under its weights and reports the load, a critic's features and the
gain over the default run.
"""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.union.decide import act, run_on
from gpu_cluster_gym.simulator.kernel.union.load import describe_load
from gpu_cluster_gym.simulator.kernel.union.state_cache import read_gpus_and_jobs

CRITIC = (
    "progress",  # share of the window's jobs that have arrived
    "default_present",  # jobs present at this time in the default rule's run; log1p / 6
    "present",  # jobs present in this run; log1p / 6
    "gap",  # job-seconds gained so far / all job-seconds of the default run
)
"""Features for a critic only: they reveal the progress of the window, which no scheduler can observe."""
MAX_INSTANTS_PER_JOB = 100  # the default weights take some 5
NEVER_ENDS_GAIN = -1.0  # gain of weights under which jobs never end: as if all took twice as long


class DefaultRun(NamedTuple):
    """The run under default weights, in the windows of N environments.

    finish: (N, J), seconds at which jobs end.
    total: (N,), job-seconds.
    """

    finish: np.ndarray
    total: np.ndarray


class StepOutputs(NamedTuple):
    """Arrays that a step writes, a row for each of N environments.

    load: (N, len(LOAD)), load features where they stop.
    critic: (N, len(CRITIC)), the critic's features.
    gain: (N,), the share of the default run's job-seconds gained since the last stop, or `NEVER_ENDS_GAIN` if jobs are
        left after `MAX_INSTANTS_PER_JOB`.
    more: (N,), whether jobs are left.
    """

    load: np.ndarray
    critic: np.ndarray
    gain: np.ndarray
    more: np.ndarray


@compiled
def job_seconds(s, jobs, finish, time):
    """Return the integral of jobs present up to a time, in a run with these finish times."""
    total = 0.0
    for job in range(s.num_jobs):
        total += max(min(time, finish[job]) - jobs[job].submit_s, 0.0)
    return total


@compiled
def present_at(s, jobs, finish, time):
    """Return the number of jobs present at a time, in a run with these finish times."""
    count = 0
    for job in range(s.num_jobs):
        count += jobs[job].submit_s <= time < finish[job]
    return count


@compiled
def describe_progress(s, jobs, finish, total, out):
    """Write the critic's features: float32 (len(CRITIC),). total: job-seconds of the default run."""
    out[0] = s.num_arrived / s.num_jobs
    out[1] = np.log1p(present_at(s, jobs, finish, s.clock)) / 6.0
    out[2] = np.log1p(s.num_arrived - s.num_done) / 6.0
    out[3] = (job_seconds(s, jobs, finish, s.clock) - s.present_seconds) / total


@compiled
def describe_step(s, jobs, m, e, default, outputs):
    """Write the features of environment e."""
    describe_load(s, jobs[e], m, outputs.load[e])
    describe_progress(s, jobs[e], default.finish[e], default.total[e], outputs.critic[e])


@entry
def observe_load(states, e, memory, k, jobs, load):
    """Write the current load features: float32 (len(LOAD),)."""
    s, m = states[e], memory[k]
    read_gpus_and_jobs(s, jobs, m)
    describe_load(s, jobs, m, load)


@entry
def act_until(states, e, memory, k, jobs, until):
    """Act at this instant and run to the first instant at `until` or later; return whether jobs are left there.

    As `steer`, but without a limit of instants: for a policy, which has no limit either when it is asked move by move.
    """
    s, m = states[e], memory[k]
    act(s, jobs, m)
    return run_on(s, jobs, m, until, np.inf)


@entry
def start(states, e, memory, jobs, default, outputs):
    """Advance to the first instant and write its features."""
    s, m = states[e], memory[e]
    events.advance(s, jobs[e])
    read_gpus_and_jobs(s, jobs[e], m)
    describe_step(s, jobs, m, e, default, outputs)


@entry
def steer(states, memory, jobs, until, default, outputs):
    """Let each environment act at this instant and run to `until`, and write its features there.

    The weights have been written into each memory. jobs: (N, J). until: (N,), s.
    """
    gain, more = outputs.gain, outputs.more
    finish, total = default
    for e in range(len(states)):
        if not more[e]:
            gain[e] = 0.0
            continue
        s, m = states[e], memory[e]
        began, spent = s.clock, s.present_seconds
        act(s, jobs[e], m)
        more[e] = run_on(s, jobs[e], m, until[e], MAX_INSTANTS_PER_JOB * s.num_jobs)
        # Job-seconds of the default run in this interval, less those of this run, over the default run's total.
        end = s.clock if more[e] else np.inf
        by_default = job_seconds(s, jobs[e], finish[e], end) - job_seconds(s, jobs[e], finish[e], began)
        gain[e] = (by_default - (s.present_seconds - spent)) / total[e]
        if not more[e] and s.num_done < s.num_jobs:
            gain[e] = NEVER_ENDS_GAIN
        read_gpus_and_jobs(s, jobs[e], m)
        describe_step(s, jobs, m, e, default, outputs)
