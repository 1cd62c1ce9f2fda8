"""What a scheduler may believe of the jobs there are: a copy of them in which nothing true is left that it cannot know.

Run times are drawn: lognormal about the estimate, with the error of good estimates or of others, longer than what has
been attained; where the scenario names a history, as that has mean and deviation (`simulator.kernel.history`). What a
job needs of cores is what the history teaches, else what has been tried, or a guess; its memory and duty are as
profiled; it does not fail by itself. Jobs that have not arrived are left out.
"""

import math

import numpy as np

from simulator.kernel._compile import compiled, entry
from simulator.kernel.core_readings import GOOD
from simulator.kernel.history import run_time
from simulator.kernel.layout import RUNNING
from simulator.kernel.machines import note_change_around
from simulator.kernel.noise import mixed
from simulator.kernel.placement import largest_node
from simulator.kernel.progress import plan
from simulator.kernel.queues import attained_now, estimate_now
from simulator.kernel.speed import set_iteration
from simulator.kernel.trust import need_now
from simulator.kernel.tuning import wanted_by_trial
from simulator.kernel.ways import duty_of

GOOD_ERROR, BAD_ERROR = 0.25, 1.0  # deviations of the logarithm of an estimate, as where a trace is filled in
LONGEST = 50.0  # times what was attained or estimated


@compiled
def share_below(x):
    """Probability that a standard normal number is less."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@compiled
def at_share(p):
    """Return the standard normal number below which there is a share p, to 5e-4 (Abramowitz and Stegun 26.2.23)."""
    tail = min(p, 1.0 - p)
    t = math.sqrt(-2.0 * math.log(max(tail, 1e-300)))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    bottom = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    x = t - top / bottom
    return x if p > 0.5 else -x


@compiled
def even(seed, job):
    """Return a number between 0 and 1 that belongs to a seed and a job."""
    return (mixed(mixed(seed) ^ int(job)) + 0.5) / 2.0**32


@compiled
def middle_and_error(s, jobs, m, job):
    """Return the median run time that is believed of a job, s, and the deviation of its logarithm."""
    if m.fitted and not s.exact:
        mean, variance = run_time(s, jobs, m, job)
        return math.exp(mean), math.sqrt(variance)
    return estimate_now(s, jobs, job), GOOD_ERROR if s.predictable[job] else BAD_ERROR


@compiled
def drawn_duration(s, jobs, m, job, chance):
    """Return a run time that what is known of a job allows: the one below which there is a share `chance` of them."""
    middle, error = middle_and_error(s, jobs, m, job)
    attained = attained_now(s, job)
    below = share_below(math.log(attained / middle) / error) if attained > 0 else 0.0
    at = below + chance * (1.0 - below)
    drawn = middle * math.exp(error * at_share(min(at, 1.0 - 1e-9)))
    return min(max(drawn, attained + 1.0), LONGEST * max(attained, middle))


@compiled
def cores_believed(s, jobs, m, job):
    """Cores with which each GPU of a job would never wait for input, as is believed."""
    learned = need_now(s, jobs, m, job)
    return learned / GOOD if learned > 0.0 else wanted_by_trial(m, job)


@compiled
def believe(s, jobs, m, job, seed):
    """Write what may be believed of a job in place of what is true."""
    row = jobs[job]
    row.duration_s = drawn_duration(s, jobs, m, job, even(seed, job))
    row.crash_at = 1.0
    row.predictable_from = 0.0 if s.predictable[job] else 1.0
    row.gpu_memory_gib = row.profiled_memory_gib
    row.active_ms = row.profiled_active_ms
    row.idle_ms = row.profiled_idle_ms
    row.push = row.profiled_push
    row.duty = duty_of(jobs, job)
    if row.num_gpus > 0 and row.input_core_s > 0:
        row.input_core_s = cores_believed(s, jobs, m, job) * row.gpu_s
        nodes = (row.num_gpus - 1) // max(largest_node(s, jobs, job), 1) + 1
        set_iteration(s, jobs, job, nodes)


@entry
def imagine(states, e, memory, k, jobs, seed):
    """Turn copies of a record, a memory and the jobs into what may be believed: run times drawn, no arrivals.

    The same seed draws the same share for each job, whatever has been done meanwhile.
    """
    s = states[e]
    s.num_jobs = s.num_arrived
    for job in range(s.num_arrived):
        if job_left(s, job):
            believe(s, jobs, memory[k], job, seed)
    for at in range(s.num_active):
        s.noted[at] = s.events[at]
    for at in range(s.num_active):
        if s.phase[s.noted[at]] == RUNNING:
            plan(s, jobs, s.noted[at])
            note_change_around(s, s.noted[at])


@compiled
def job_left(s, job):
    """Tell whether a job has not ended."""
    return np.isnan(s.finish_s[job])
