"""Estimates of run times and core needs, from profiles, from finished jobs and from other jobs of a batch.

A batch (see `simulator.history`) holds similar jobs. Their log run times are normal, with a batch mean that varies
about the mean of all jobs with as many GPUs:

    mean ~ N(level, between^2)     log d ~ N(mean, within^2)     log estimate ~ N(log d, error^2)

`error` is smaller for jobs that are predictable by now. Of each other job of the batch, log d is known once it has
finished; before that its estimate is known, or the run time it has attained if that is longer. The posterior of log d
is therefore normal. Truncated below at the attained run time a, with mean m and variance v before the truncation,

    E(log d | d > a) = m + sqrt(v) R(z),     z = (m - log a) / sqrt(v),     R = pdf / cdf of N(0, 1)

and the expected run time is the exponential of that. Errors are judged as ratios, and an order by the exponential of
the mean logarithm is better than one by the mean of d, which a few long jobs dominate (`benchmarks/history.py` prints
errors and orders of both).

The logarithm of the cores that a GPU needs is normal in the same way. Its level is the mean over earlier jobs with a
similar profile: those of training windows (the fitted file), those that have finished here, by their readings
(`simulator.kernel.cluster.readings`), and those of the batch. A reading that only shows an upper bound counts if
that bound is below the estimate without it.

`union` mixes these expectations with its own findings, on a logarithmic scale, by `trust_times` and `trust_cores`. Its
own findings alone count where nothing is learned: the scenario names no history, the job has parameter servers, or
estimates are exact. Learned core needs replace those found by trial, since readings are part of both. A GPU needs as
many cores as deliver input as fast as it computes: fewer if co-located jobs slow it down, and a different number in
another shape.

The last part of this file caches the expectations of each batch. The known run time of a job changes when it arrives,
finishes, becomes predictable or loses progress, and continuously once it has outrun its estimate. At each moment the
jobs active at the moment before, and those that arrived, started or finished since, are therefore read again; a batch
is recomputed only if the known run time of one of its jobs has changed. Core readings are taken once a moment, and once
and for all from a finished job.
"""

import math
from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, NOBODY, QUEUED
from gpu_cluster_gym.simulator.kernel.cluster.plan import Fields
from gpu_cluster_gym.simulator.kernel.cluster.queues import attained_now, estimate_now, remaining_now
from gpu_cluster_gym.simulator.kernel.cluster.readings import is_informative, reading
from gpu_cluster_gym.simulator.kernel.cores.tuning import between, wanted_by_trial
from gpu_cluster_gym.simulator.kernel.union.job_shapes import find_best_speed, relative_time

NUM_GPU_CLASSES = 24  # classes of GPUs: 0, 1, 2-3, 4-7 and so on
MAX_CELLS = 512  # kinds of profile
PROFILE_WIDTH = 4  # figures of a profile: see `simulator.history`
FAR_TAIL = -30.0  # deviations, where the distribution is too small a number for its quotient
MIN_LEFT_S = 1.0
FINAL = -1  # the reading moment of a finished job, which is read only once

HISTORY_FIELDS: Fields = (
    ("fitted", "i8"),  # 1 if a fitted file is in use
    ("good_error", "f8"),  # std. dev. of the log estimate of a predictable job
    ("bad_error", "f8"),  # and of one that is not predictable yet
    ("within", "f8"),  # std. dev. of log run time within a batch
    ("between", "f8"),  # and of the batch means
    ("level", "f8", (NUM_GPU_CLASSES,)),  # mean log run time (s), by class of GPUs
    ("alike", "f8"),  # std. dev. of log core need within a batch
    ("spread", "f8"),  # and between jobs of similar profile
    ("num_cells", "i8"),
    ("log_need", "f8", (MAX_CELLS,)),  # mean log core need of the jobs of a cell
    ("cell_jobs", "f8", (MAX_CELLS,)),  # number of jobs in that mean
    ("num_counted", "i8"),  # finished jobs of this episode that have been counted in
    # of each job, fixed at submission
    ("cell", "i4", ("jobs",)),
    ("first_in_batch", "i4", ("jobs",)),  # the first job of its batch
    ("next_in_batch", "i4", ("jobs",)),  # the next job; NOBODY after the last
)
"""Fields of the history record, beside the state's; clone or restore both together."""

BATCH_FIELDS: Fields = (
    ("refreshed_moment", "i8"),  # the last moment at which known run times were read
    # progress of reading
    ("num_refreshed_arrivals", "i8"),
    ("num_refreshed_ends", "i8"),
    ("last_refreshed_start", "i8"),
    ("num_was_active", "i8"),
    ("was_active", "i4", ("jobs",)),  # jobs that were active at the last moment
    # known run time of each job
    ("known_s", "f8", ("jobs",)),
    ("known_weight", "f8", ("jobs",)),  # 1 / variance of its logarithm; 0 before it has been read
    ("known_share", "f8", ("jobs",)),  # logarithm / variance
    ("batch_version", "i8", ("jobs",)),  # changes of known run times, by the first job of the batch
    ("log_estimate", "f8", ("jobs",)),
    # posterior of log run time, and the version of the batch that it belongs to
    ("computed_version", "i8", ("jobs",)),
    ("posterior_mean", "f8", ("jobs",)),
    ("posterior_deviation", "f8", ("jobs",)),
    # core readings of each job
    ("reading_seed", "i8"),  # the seed of the reading errors
    ("reading_moment", "i8", ("jobs",)),
    ("busy_share", "f8", ("jobs",)),
    ("reading_log_cores", "f8", ("jobs",)),
    ("reading_error", "f8", ("jobs",)),
    ("reading_weight", "f8", ("jobs",)),  # 1 / variance of the reading as evidence for other jobs
    ("reading_share", "f8", ("jobs",)),  # log cores / variance
    # scratch: the jobs of one batch
    ("listed_batch", "i8"),  # its first job
    ("listed_moment", "i8"),
    ("num_batch_readings", "i8"),
    ("batch_readings", "i4", ("jobs",)),
    ("batch_members", "i4", ("jobs",)),
    ("batch_sums", "f8", ("jobs",)),
    ("batch_precisions", "f8", ("jobs",)),
)


@cache
def history_dtype(jobs: int) -> np.dtype:
    """Return the history record type for this number of jobs, that of the state's tier."""
    shaped = [
        (name, kind, tuple(jobs if side == "jobs" else side for side in shape[0]) if shape else ())
        for name, kind, *shape in HISTORY_FIELDS
    ]
    return np.dtype((np.record, np.dtype(shaped, align=True)))


# Formulas: what is known of a job and of its batch, given by the state alone.


@compiled
def gpu_class(gpus):
    """Return the class of a number of GPUs: 0, 1, 2-3, 4-7 and so on."""
    size = 0
    while gpus > 0 and size < NUM_GPU_CLASSES - 1:
        gpus >>= 1
        size += 1
    return size


@compiled
def pdf_over_cdf(x):
    """Return the density of N(0, 1) over its distribution function."""
    # Asymptotic expansion where the distribution function underflows.
    if x < FAR_TAIL:
        return -x - 1.0 / x + 2.0 / x**3
    return math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi) / (0.5 * math.erfc(-x / math.sqrt(2.0)))


@compiled
def expected_beyond(mean, deviation, lower):
    """Return exp of the mean logarithm of a lognormal number, given that it exceeds `lower`.

    mean, deviation: of its logarithm, before the truncation.
    """
    if lower <= 0:
        return math.exp(mean)
    return math.exp(mean + deviation * pdf_over_cdf((mean - math.log(lower)) / deviation))


@compiled
def estimate_error(s, h, job):
    """Return the standard deviation of the logarithm of a job's estimate."""
    return h.good_error if s.predictable[job] else h.bad_error


@compiled
def known_run_time(s, jobs, h, job):
    """Return the known seconds of a job's run time, and the variance of their logarithm about the batch mean."""
    variance = h.within**2
    seconds = attained_now(s, job)
    if s.phase[job] != DONE:
        variance += estimate_error(s, h, job) ** 2
        seconds = max(estimate_now(s, jobs, job), seconds)
    return seconds, variance


@compiled
def prior_sums(jobs, h, job):
    """Return the prior of a batch mean as sums: the level of jobs with as many GPUs times its precision, and this."""
    precision = 1.0 / h.between**2
    return h.level[gpu_class(jobs[job].num_gpus)] * precision, precision


@compiled
def log_estimate(s, jobs, job):
    """Return the logarithm of a job's estimate, which is at least 1 s."""
    return math.log(max(estimate_now(s, jobs, job), 1.0))


@compiled
def update_by_estimate(s, h, job, estimate, total, precision):
    """Return mean and variance of a job's log run time, by the sums over its batch and its own log estimate."""
    # Uncertainty of the batch mean, and of a job about it.
    variance = 1.0 / precision + h.within**2
    own = estimate_error(s, h, job) ** 2
    mean = total / precision
    # Normal-normal update by the job's own estimate.
    mean += (estimate - mean) * variance / (variance + own)
    return mean, variance * own / (variance + own)


@compiled
def run_time_posterior(s, jobs, h, job):
    """Return mean and variance of the logarithm of a job's run time, whatever it has attained."""
    total, precision = prior_sums(jobs, h, job)
    other = h.first_in_batch[job]
    while other != NOBODY and other < s.num_arrived:
        if other != job:
            seconds, variance = known_run_time(s, jobs, h, other)
            total += math.log(max(seconds, 1.0)) / variance
            precision += 1.0 / variance
        other = h.next_in_batch[other]
    return update_by_estimate(s, h, job, log_estimate(s, jobs, job), total, precision)


@compiled
def expected_remaining(s, jobs, h, job):
    """Return the expected seconds of run time left of a job, in the shape it asks for."""
    if s.phase[job] == DONE:
        return 0.0
    if not h.fitted or s.exact:
        return remaining_now(s, jobs, job)
    mean, variance = run_time_posterior(s, jobs, h, job)
    attained = attained_now(s, job)
    return expected_beyond(mean, math.sqrt(variance), attained) - attained


@compiled
def count_finished(s, jobs, h):
    """Count in the core readings of the jobs that finished since the last call; call it before core needs are read."""
    while h.num_counted < s.num_done:
        job = s.done_in_order[h.num_counted]
        h.num_counted += 1
        share, need, _ = reading(s, jobs, job)
        cell = h.cell[job]
        if h.num_cells > 0 and is_informative(share, need, h.log_need[cell]):
            h.cell_jobs[cell] += 1.0
            h.log_need[cell] += (need - h.log_need[cell]) / h.cell_jobs[cell]


@compiled
def update_by_reading(h, total, precision, share, need, error):
    """Return the mean log core need of a job, by the sums over its batch and its own reading."""
    mean = total / precision
    if not is_informative(share, need, mean):
        return mean
    variance = 1.0 / precision + h.alike**2
    return mean + (need - mean) * variance / (variance + error**2)


@compiled
def expected_log_cores(s, jobs, h, job):
    """Return the mean log core need of a job; only its own reading counts once it has finished."""
    level = h.log_need[h.cell[job]]
    precision = 1.0 / h.spread**2
    total = level * precision
    other = h.first_in_batch[job] if s.phase[job] != DONE else NOBODY
    while other != NOBODY and other < s.num_arrived:
        if other != job:
            share, need, error = reading(s, jobs, other)
            if is_informative(share, need, level):
                variance = h.alike**2 + error**2
                total += need / variance
                precision += 1.0 / variance
        other = h.next_in_batch[other]
    share, need, error = reading(s, jobs, job)
    return update_by_reading(h, total, precision, share, need, error)


@compiled
def expected_cores(s, jobs, h, job):
    """Return the expected core need of each GPU of a job; the requested cores if nothing has been learned."""
    if h.num_cells == 0 or jobs[job].num_gpus == 0 or jobs[job].servers > 0:
        return jobs[job].cores_each
    return math.exp(expected_log_cores(s, jobs, h, job))


@entry
def expectations(states, e, jobs, histories, out):
    """Write the expectations of all arrived jobs: run time (s), run time left (s) and cores per GPU, (3, jobs)."""
    s = states[e]
    h = histories[e]
    count_finished(s, jobs, h)
    for job in range(s.num_arrived):
        out[1, job] = expected_remaining(s, jobs, h, job)
        out[0, job] = attained_now(s, job) + out[1, job]
        out[2, job] = expected_cores(s, jobs, h, job)


@entry
def readings(states, e, jobs, out):
    """Write the core readings of all arrived jobs: busy share and cores needed, see `reading`; (2, jobs)."""
    s = states[e]
    for job in range(s.num_arrived):
        share, need, _ = reading(s, jobs, job)
        out[0, job] = share
        out[1, job] = math.exp(need) if share > 0 else np.nan


# The same, cached in the memory of `union`.


@compiled
def refresh_job(s, jobs, m, job):
    """Read the known run time of a job; start a new version of its batch if it has changed."""
    seconds, variance = known_run_time(s, jobs, m, job)
    weight = 1.0 / variance
    if seconds == m.known_s[job] and weight == m.known_weight[job]:
        return
    m.log_estimate[job] = log_estimate(s, jobs, job)
    m.known_s[job] = seconds
    m.known_weight[job] = weight
    m.known_share[job] = math.log(max(seconds, 1.0)) / variance
    m.batch_version[m.first_in_batch[job]] += 1


@compiled
def refresh_changed(s, jobs, m):
    """Read all jobs whose known run time may have changed since the last moment.

    All arrived jobs, if some job both started and left the active jobs since.
    """
    for k in range(m.num_was_active):
        refresh_job(s, jobs, m, m.was_active[k])
    started = 0
    for k in range(s.num_active):
        job = s.events[k]
        m.was_active[k] = job
        if s.began[job] > m.last_refreshed_start:
            refresh_job(s, jobs, m, job)
            started += 1
    m.num_was_active = s.num_active
    for job in range(m.num_refreshed_arrivals, s.num_arrived):
        refresh_job(s, jobs, m, job)
    for k in range(m.num_refreshed_ends, s.num_done):
        job = s.done_in_order[k]
        started += s.began[job] > m.last_refreshed_start
        refresh_job(s, jobs, m, job)
    if started != s.num_starts - m.last_refreshed_start:
        for job in range(s.num_arrived):
            refresh_job(s, jobs, m, job)
    m.num_refreshed_arrivals = s.num_arrived
    m.num_refreshed_ends = s.num_done
    m.last_refreshed_start = s.num_starts


@compiled
def version_of_batch(m, job):
    """Return the version of the known run times of a job's batch."""
    return m.batch_version[m.first_in_batch[job]]


@compiled
def compute_posteriors(s, jobs, m, first):
    """Compute the posteriors of all unfinished jobs of a batch, as `run_time_posterior` does for each.

    One pass over the batch: the sums of a job start with those of the jobs before it, and leave out the job itself.
    """
    count = 0
    total, precision = prior_sums(jobs, m, first)
    job = first
    while job != NOBODY and job < s.num_arrived:
        share, weight = m.known_share[job], m.known_weight[job]
        for k in range(count):
            m.batch_sums[k] += share
            m.batch_precisions[k] += weight
        if s.phase[job] != DONE:
            m.batch_members[count], m.batch_sums[count], m.batch_precisions[count] = job, total, precision
            count += 1
        total += share
        precision += weight
        job = m.next_in_batch[job]
    for k in range(count):
        job = m.batch_members[k]
        m.computed_version[job] = m.batch_version[first]
        mean, variance = update_by_estimate(
            s, m, job, m.log_estimate[job], m.batch_sums[k], m.batch_precisions[k]
        )
        m.posterior_mean[job], m.posterior_deviation[job] = mean, math.sqrt(variance)


@compiled
def cached_remaining(s, jobs, m, job, attained):
    """Return the expected seconds of run time left of an unfinished job."""
    if m.computed_version[job] != version_of_batch(m, job):
        compute_posteriors(s, jobs, m, m.first_in_batch[job])
    return expected_beyond(m.posterior_mean[job], m.posterior_deviation[job], attained) - attained


@compiled
def read_cores(s, jobs, m, job):
    """Take the core reading of a job at this moment."""
    if m.reading_moment[job] == m.moment or m.reading_moment[job] == FINAL:
        return
    m.reading_moment[job] = FINAL if s.phase[job] == DONE else m.moment
    share, need, error = reading(s, jobs, job)
    variance = m.alike**2 + error**2
    m.busy_share[job], m.reading_log_cores[job], m.reading_error[job] = share, need, error
    m.reading_share[job], m.reading_weight[job] = need / variance, 1.0 / variance


@compiled
def list_batch_readings(s, jobs, m, first):
    """List the jobs of a batch that have a core reading, once for all its jobs at this moment."""
    if m.listed_batch == first and m.listed_moment == m.moment:
        return
    m.listed_batch, m.listed_moment = first, m.moment
    m.num_batch_readings = 0
    job = first
    while job != NOBODY and job < s.num_arrived:
        if s.began[job] > 0:
            read_cores(s, jobs, m, job)
            if m.busy_share[job] > 0:
                m.batch_readings[m.num_batch_readings] = job
                m.num_batch_readings += 1
        job = m.next_in_batch[job]


@compiled
def cached_log_cores(s, jobs, m, job):
    """Return the mean log core need of a job, as `expected_log_cores` does."""
    level = m.log_need[m.cell[job]]
    precision = 1.0 / m.spread**2
    total = level * precision
    list_batch_readings(s, jobs, m, m.first_in_batch[job])
    for k in range(m.num_batch_readings):
        other = m.batch_readings[k]
        if other != job and is_informative(m.busy_share[other], m.reading_log_cores[other], level):
            total += m.reading_share[other]
            precision += m.reading_weight[other]
    if s.began[job] == 0:
        return update_by_reading(m, total, precision, 0.0, 0.0, 0.0)
    return update_by_reading(
        m, total, precision, m.busy_share[job], m.reading_log_cores[job], m.reading_error[job]
    )


# What `union` believes: its own findings, mixed with what is expected.


@compiled
def uses_history(s, m):
    """Return whether `union` uses run times learned from finished jobs."""
    return m.trust_times > 0.0 and m.fitted > 0 and not s.exact


@compiled
def start_moment(s, m):
    """Start a new moment at a new instant or if a job has started, and discard what was read before.

    A new seed of the readings also starts one, except right before a start: rollouts use seeds of their own, at the
    instant of readings that still hold.
    """
    if m.moment_instant == s.instant and m.moment_starts == s.num_starts:
        return
    if m.moment_instant != s.instant or m.reading_seed != s.seed:
        m.moment += 1
    m.moment_instant = s.instant
    m.moment_starts = s.num_starts
    # Readings of finished jobs are final, unless their errors are now drawn by another seed.
    if m.reading_seed != s.seed:
        m.reading_seed = s.seed
        for job in range(s.num_arrived):
            m.reading_moment[job] = 0


@compiled
def refresh_run_times(s, jobs, m):
    """Read known run times, once a moment."""
    start_moment(s, m)
    if m.refreshed_moment != m.moment:
        m.refreshed_moment = m.moment
        refresh_changed(s, jobs, m)


@compiled
def believed_left(s, jobs, m, job):
    """Return the believed seconds of run time left, in the shape the job asks for."""
    if not uses_history(s, m):
        return remaining_now(s, jobs, job)
    refresh_run_times(s, jobs, m)
    attained, version = attained_now(s, job), version_of_batch(m, job)
    if (
        m.left_version[job] != version
        or m.left_attained[job] != attained
        or m.left_trust[job] != m.trust_times
    ):
        m.left_version[job], m.left_attained[job], m.left_trust[job] = version, attained, m.trust_times
        # Weighted mean of logarithms: trust 0 is the estimate, 1 the prediction from finished jobs.
        learned = max(cached_remaining(s, jobs, m, job, attained), MIN_LEFT_S)
        m.believed_left_s[job] = between(remaining_now(s, jobs, job), learned, m.trust_times)
    return m.believed_left_s[job]


@compiled
def learned_need(s, jobs, m, job):
    """Return the learned core need of each GPU of a job, alone in the shape it asks for; 0 if nothing is learned."""
    if m.num_cells == 0 or jobs[job].num_gpus == 0 or jobs[job].servers > 0:
        return 0.0
    start_moment(s, m)
    if m.need_moment[job] != m.moment:
        count_finished(s, jobs, m)
        m.need_moment[job] = m.moment
        m.need[job] = math.exp(cached_log_cores(s, jobs, m, job))
    return m.need[job]


@compiled
def note_learned_needs(s, jobs, m):
    """Note the learned core need of each listed running job, as it runs now; 0 for a job without GPUs."""
    for at in range(m.num_running):
        job = m.running[at]
        m.learned[job] = learned_need(s, jobs, m, job) if m.trust_cores > 0.0 else 0.0
        width = s.width[job]
        if width == 0:
            m.learned[job] = 0.0
        elif m.learned[job] > 0.0:
            # Input per GPU, relative to the requested shape: fewer GPUs compute more each.
            input_rate = jobs[job].num_gpus / width / relative_time(jobs, job, width, 0)
            m.learned[job] *= input_rate / m.shared_slowdown[job]


@compiled
def believed_need(s, jobs, m, job):
    """Return the believed core need of each GPU of a job, alone in the shape it asks for."""
    tried = wanted_by_trial(m, job)
    learned = learned_need(s, jobs, m, job) if m.trust_cores > 0.0 else 0.0
    return between(tried, learned, m.trust_cores) if learned > 0.0 else tried


@compiled
def left_on_fastest(s, jobs, m, job):
    """Return the believed seconds of run time left, in the shape asked for, on the fastest GPUs."""
    left = believed_left(s, jobs, m, job)
    return left / find_best_speed(s, jobs, m, job) if m.typed else left


@compiled
def left_from_start(s, jobs, m, job):
    """Return the seconds a job needs if it starts or restarts, as requested and alone on its fastest GPUs."""
    if s.phase[job] == QUEUED:
        return m.left_s[job]
    return left_on_fastest(s, jobs, m, job) + jobs[job].load_s
