"""What may be believed of a job from those before it: how long it runs, and how many cores its GPUs need.

Jobs of a batch (see `simulator.history`) are like one another. Their logarithms of seconds of run time are normal, with
a mean of their own about that of all jobs of as many GPUs,

    mean ~ N(level, between^2)     log d ~ N(mean, within^2)     log estimate ~ N(log d, error^2)

where the error is one of two, that of a job that is predictable now, or of one that is not. Known of each other job
of the batch is log d once it has ended, and its estimate before, or what it has attained where that is more. So log d
of a job is normal; cut off below at the seconds a that it has attained, with m and v as they were before the cut,

    E(log d | d > a) = m + sqrt(v) R(z),     z = (m - log a) / sqrt(v),     R = density / distribution of N(0, 1)

and the run time that is expected is exp of that: its errors are judged as ratios, and orders by it do better than by
the mean of d, which the few long ones rule (`benchmarks/history.py` prints how well both errors and orders do).

The logarithm of the cores a GPU needs is normal likewise: its level is the mean over earlier jobs of like profile,
those of training windows (the fitted file) and those that have ended here, by their readings
(`simulator.kernel.cluster.readings`) and those of the batch; a reading that says only that no more are needed
counts where it is below what is believed without it.
"""

import math
from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.queues import attained_now, estimate_now, remaining_now
from gpu_cluster_gym.simulator.kernel.cluster.readings import is_informative, reading

SIZES = 24  # classes of GPUs: 0, 1, 2-3, 4-7 and so on
MOST_CELLS = 512  # kinds of profile
PROFILE = 4  # figures of a profile: see `simulator.history`
VERY_FAR = -30.0  # deviations, where the distribution is too small a number for its quotient

HISTORY: tuple[tuple[str, str] | tuple[str, str, tuple[str | int, ...]], ...] = (
    ("fitted", "i8"),  # 1 where a fitted file is in force
    ("good_error", "f8"),  # deviation of log estimate of a job that is predictable
    ("bad_error", "f8"),  # and of one that is not
    ("within", "f8"),  # deviation of log run time within a batch
    ("between", "f8"),  # and of its mean over batches
    ("level", "f8", (SIZES,)),  # mean log run time, s, by class of GPUs
    ("alike", "f8"),  # deviation of log need of cores within a batch
    ("spread", "f8"),  # and between jobs of like profile otherwise
    ("num_cells", "i8"),
    ("log_need", "f8", (MOST_CELLS,)),  # log cores that jobs of a cell need
    ("counted", "f8", (MOST_CELLS,)),  # how many jobs that is the mean of
    ("num_read", "i8"),  # how many of the jobs that have ended here have been counted in
    # of each job, fixed when it is submitted
    ("cell", "i4", ("jobs",)),
    ("first_like", "i4", ("jobs",)),  # the first job of its batch
    ("next_like", "i4", ("jobs",)),  # the next one; NOBODY after the last
)
"""The record of what is believed, beside the state's: whoever clones or restores one does so with the other."""


@cache
def history_dtype(jobs: int) -> np.dtype:
    """Return the record type for so many jobs, those of the state's tier."""
    shaped = [
        (name, kind, tuple(jobs if side == "jobs" else side for side in shape[0]) if shape else ())
        for name, kind, *shape in HISTORY
    ]
    return np.dtype((np.record, np.dtype(shaped, align=True)))


@compiled
def size_of(gpus):
    """Return the class of so many GPUs."""
    size = 0
    while gpus > 0 and size < SIZES - 1:
        gpus >>= 1
        size += 1
    return size


@compiled
def quotient(x):
    """Return density / distribution of N(0, 1)."""
    if x < VERY_FAR:
        return -x - 1.0 / x + 2.0 / x**3
    return math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi) / (0.5 * math.erfc(-x / math.sqrt(2.0)))


@compiled
def middle_beyond(mean, deviation, least):
    """Return exp of the mean of normal logarithms, of those numbers that are above `least`."""
    if least <= 0:
        return math.exp(mean)
    return math.exp(mean + deviation * quotient((mean - math.log(least)) / deviation))


@compiled
def error_of_estimate(s, h, job):
    """Deviation of the logarithm of a job's estimate."""
    return h.good_error if s.predictable[job] else h.bad_error


@compiled
def told(s, jobs, h, job):
    """Return the seconds of run time known of a job, and the variance of their logarithm about its batch's mean."""
    variance = h.within**2
    seconds = attained_now(s, job)
    if s.phase[job] != DONE:
        variance += error_of_estimate(s, h, job) ** 2
        seconds = max(estimate_now(s, jobs, job), seconds)
    return seconds, variance


@compiled
def without_batch(jobs, h, job):
    """Return mean log run time of jobs of as many GPUs, times its precision, and this: sums to add a batch to."""
    precision = 1.0 / h.between**2
    return h.level[size_of(jobs[job].num_gpus)] * precision, precision


@compiled
def log_estimate(s, jobs, job):
    """Return the logarithm of a job's estimate."""
    return math.log(max(estimate_now(s, jobs, job), 1.0))


@compiled
def with_estimate(s, h, job, estimate, total, precision):
    """Return mean and variance of a job's log run time by the sums over its batch and its own log estimate."""
    variance = 1.0 / precision + h.within**2
    own = error_of_estimate(s, h, job) ** 2
    mean = total / precision
    mean += (estimate - mean) * variance / (variance + own)
    return mean, variance * own / (variance + own)


@compiled
def run_time(s, jobs, h, job):
    """Return mean and variance of the logarithm of a job's seconds of run time, whatever it has attained."""
    total, precision = without_batch(jobs, h, job)
    other = h.first_like[job]
    while other != NOBODY and other < s.num_arrived:
        if other != job:
            seconds, variance = told(s, jobs, h, other)
            total += math.log(max(seconds, 1.0)) / variance
            precision += 1.0 / variance
        other = h.next_like[other]
    return with_estimate(s, h, job, log_estimate(s, jobs, job), total, precision)


@compiled
def believed_remaining(s, jobs, h, job):
    """Seconds of run time left of a job, in the shape it asks for, as is to be expected."""
    if s.phase[job] == DONE:
        return 0.0
    if not h.fitted or s.exact:
        return remaining_now(s, jobs, job)
    mean, variance = run_time(s, jobs, h, job)
    attained = attained_now(s, job)
    return middle_beyond(mean, math.sqrt(variance), attained) - attained


@compiled
def catch_up(s, jobs, h):
    """Count in the jobs that have ended since this was last done; to be called before cores are asked for."""
    while h.num_read < s.num_done:
        job = s.done_in_order[h.num_read]
        h.num_read += 1
        share, need, _ = reading(s, jobs, job)
        cell = h.cell[job]
        if h.num_cells > 0 and is_informative(share, need, h.log_need[cell]):
            h.counted[cell] += 1.0
            h.log_need[cell] += (need - h.log_need[cell]) / h.counted[cell]


@compiled
def with_reading(h, total, precision, share, need, error):
    """Return the mean log cores that each GPU of a job needs, given the sums over its batch, by its own reading too."""
    mean = total / precision
    if not is_informative(share, need, mean):
        return mean
    variance = 1.0 / precision + h.alike**2
    return mean + (need - mean) * variance / (variance + error**2)


@compiled
def need_of_cores(s, jobs, h, job):
    """Return the mean of the logarithm of the cores that each GPU of a job needs; of one that has ended, by its own."""
    level = h.log_need[h.cell[job]]
    precision = 1.0 / h.spread**2
    total = level * precision
    other = h.first_like[job] if s.phase[job] != DONE else NOBODY
    while other != NOBODY and other < s.num_arrived:
        if other != job:
            share, need, error = reading(s, jobs, other)
            if is_informative(share, need, level):
                variance = h.alike**2 + error**2
                total += need / variance
                precision += 1.0 / variance
        other = h.next_like[other]
    share, need, error = reading(s, jobs, job)
    return with_reading(h, total, precision, share, need, error)


@compiled
def believed_cores(s, jobs, h, job):
    """Cores that each GPU of a job needs, as is to be expected; what it asks for where nothing has been learned."""
    if h.num_cells == 0 or jobs[job].num_gpus == 0 or jobs[job].servers > 0:
        return jobs[job].cores_each
    return math.exp(need_of_cores(s, jobs, h, job))


@entry
def believed(states, e, jobs, histories, out):
    """Write what is believed of every job that has arrived: run time, rest of it, s, and cores a GPU: (3, jobs)."""
    s = states[e]
    h = histories[e]
    catch_up(s, jobs, h)
    for job in range(s.num_arrived):
        out[1, job] = believed_remaining(s, jobs, h, job)
        out[0, job] = attained_now(s, job) + out[1, job]
        out[2, job] = believed_cores(s, jobs, h, job)


@entry
def readings(states, e, jobs, out):
    """Write the readings of every job that has arrived: busy share, cores needed as `reading` has them: (2, jobs)."""
    s = states[e]
    for job in range(s.num_arrived):
        share, need, _ = reading(s, jobs, job)
        out[0, job] = share
        out[1, job] = math.exp(need) if share > 0 else np.nan
