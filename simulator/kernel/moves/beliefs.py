"""Belief states: a copy of state and jobs with sampled or expected values in place of everything unobservable.

Run times are sampled: lognormal, by the estimate with its error and by the run times of all jobs so far (a normal prior
of the logarithm), and longer than the attained run time; with a history, its mean and deviation are used
(`simulator.kernel.union.estimates`); exact estimates are kept. Core needs are those learned from the history, else
found by trial, or a guess. GPU utilisation is as profiled, and so is memory until the job holds some. Speed with other
numbers of workers is as fitted to the profile, and across nodes as `union` has measured or guesses it. Host memory
bandwidth is as read, or the mean over jobs if the job has never run. Neither jobs nor nodes fail. Jobs that have not
arrived are left out.
"""

import math

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import CHARGED, DONE, DOWN, MODULUS, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import note_change_around
from gpu_cluster_gym.simulator.kernel.cluster.outages import find_next
from gpu_cluster_gym.simulator.kernel.cluster.placement import largest_node
from gpu_cluster_gym.simulator.kernel.cluster.progress import plan
from gpu_cluster_gym.simulator.kernel.cluster.queues import attained_now, estimate_now
from gpu_cluster_gym.simulator.kernel.cluster.readings import (
    BANDWIDTH_ERROR,
    DRAWN,
    TARGET_BUSY_SHARE,
    error_of,
    mixed,
)
from gpu_cluster_gym.simulator.kernel.cluster.speed import set_iteration
from gpu_cluster_gym.simulator.kernel.cores.tuning import wanted_by_trial
from gpu_cluster_gym.simulator.kernel.union.estimates import learned_need, run_time_posterior
from gpu_cluster_gym.simulator.kernel.union.job_shapes import gpu_utilization, iteration_seconds
from gpu_cluster_gym.simulator.kernel.union.seats import SPAN_LOSS

GOOD_ERROR, BAD_ERROR = 0.25, 1.0  # std. dev. of the log estimate, as where a trace is filled in
PRIOR_VARIANCE, PRIOR_JOBS = (
    2.0,
    10.0,
)  # of the log run time, and the number of jobs that it counts for; our choice
MAX_RATIO = 50.0  # of a sampled run time to the attained or the median one
MIN_ITERATION_S = 1e-6


@compiled
def normal_cdf(x):
    """Return the distribution function of N(0, 1)."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@compiled
def normal_quantile(p):
    """Return the quantile function of N(0, 1), to 5e-4 (Abramowitz and Stegun 26.2.23)."""
    tail = min(p, 1.0 - p)
    t = math.sqrt(-2.0 * math.log(max(tail, 1e-300)))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    bottom = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    x = t - top / bottom
    return x if p > 0.5 else -x


@compiled
def uniform(seed, job):
    """Return a number between 0 and 1 determined by a seed and a job."""
    return (mixed(mixed(seed) ^ int(job)) + 0.5) / 2.0**32


@compiled
def known_error(s, job):
    """Return the standard deviation of the log of the known run time of a job: 0 once it has finished."""
    if not is_unfinished(s, job):
        return 0.0
    return GOOD_ERROR if s.predictable[job] else BAD_ERROR


@compiled
def run_time_prior(s, jobs):
    """Return mean and variance of log run times, from finished jobs and the estimates of others.

    The variance of the estimates is reduced by that of their errors; with few jobs it is close to PRIOR_VARIANCE.
    """
    total, squares, errors = 0.0, 0.0, 0.0
    count = s.num_arrived
    for job in range(count):
        known = estimate_now(s, jobs, job) if is_unfinished(s, job) else s.attained_s[job]
        x = math.log(max(known, 1.0))
        total += x
        squares += x * x
        errors += known_error(s, job) ** 2
    mean = total / max(count, 1)
    spread = max(squares - errors - count * mean * mean, 0.0)
    return mean, (PRIOR_JOBS * PRIOR_VARIANCE + spread) / (PRIOR_JOBS + count)


@compiled
def run_time_belief(s, jobs, m, job, mean, spread):
    """Return mean and standard deviation of the belief about a job's log run time.

    With the prior N(m, v) and an estimate E of error e, it is normal about m + w (ln E - m) with the deviation
    e w^(1/2), w = v / (v + e^2).
    """
    if m.fitted:
        middle, variance = run_time_posterior(s, jobs, m, job)
        return middle, math.sqrt(variance)
    error = known_error(s, job)
    weight = spread / (spread + error * error)
    return mean + weight * (math.log(estimate_now(s, jobs, job)) - mean), error * math.sqrt(weight)


@compiled
def sample_run_time(s, jobs, m, job, mean, spread, chance):
    """Return a sampled run time: the quantile `chance` of the belief, truncated at the attained run time.

    mean, spread: of the prior.
    """
    if s.exact:
        return jobs[job].duration_s
    middle, deviation = run_time_belief(s, jobs, m, job, mean, spread)
    attained = attained_now(s, job)
    # Share of the belief that the attained run time has ruled out.
    below = normal_cdf((math.log(attained) - middle) / deviation) if attained > 0 else 0.0
    at = below + chance * (1.0 - below)
    drawn = math.exp(middle + deviation * normal_quantile(min(at, 1.0 - 1e-9)))
    return min(max(drawn, attained + 1.0), MAX_RATIO * max(attained, math.exp(middle)))


@compiled
def believed_cores(s, jobs, m, job):
    """Return the believed number of cores per GPU with which a job would never wait for input."""
    learned = learned_need(s, jobs, m, job)
    return learned / TARGET_BUSY_SHARE if learned > 0.0 else wanted_by_trial(m, job)


@compiled
def replace_truth(s, jobs, m, job, mean, spread, seed):
    """Replace the unobservable fields of a job; mean, spread: of the prior."""
    row = jobs[job]
    row.duration_s = sample_run_time(s, jobs, m, job, mean, spread, uniform(seed, job))
    row.crash_at = 1.0
    row.predictable_from = 0.0 if s.predictable[job] else 1.0
    if s.charged[job] != CHARGED:
        row.gpu_memory_gib = row.profiled_memory_gib
    row.active_ms = row.profiled_active_ms
    row.idle_ms = row.profiled_idle_ms
    row.interference = row.profiled_interference
    row.gpu_utilization = gpu_utilization(jobs, job)
    if row.num_gpus > 0 and row.gpu_s > 0:
        row.sync_gb = believed_exchange_gb(s, jobs, m, job)
        set_believed_speed(s, jobs, m, job)


@compiled
def mean_bandwidth(s, jobs, on_gpus):
    """Return the mean GB/s that jobs which have run draw of host memory: per GPU of jobs with GPUs, or of CPU jobs."""
    total, count = 0.0, 0
    for job in range(s.num_arrived):
        if (jobs[job].num_gpus > 0) == on_gpus and has_run(s, job):
            total += bandwidth_read(s, jobs, job)
            count += 1
    return total / max(count, 1)


@compiled
def has_run(s, job):
    """Return whether a job has run, so that a monitor has read its bandwidth."""
    return s.phase[job] == DONE or attained_now(s, job) > 0


@compiled
def bandwidth_read(s, jobs, job):
    """Return the GB/s of host memory that the input of a job draws in the requested shape, with the reading's error."""
    return jobs[job].gbs_each * (1.0 + BANDWIDTH_ERROR * error_of(s, DRAWN, job))


@compiled
def believed_exchange_gb(s, jobs, m, job):
    """Return the believed GB that the workers of a job exchange; 0 if its kind of job exchanges nothing.

    With parameter servers as fitted: th2 = 2 X / B. In a ring no profile separates it from computing, and within a node
    it makes no difference; it explains how much slower a job is on two nodes than on one, which `union` has measured or
    guesses: with w workers and T seconds, B and L of links and b and l within a node,

        slower T = 2 (w - 1) / w X (1 / B - 1 / b) + L - l w / 2.
    """
    row = jobs[job]
    if row.sync_gb == 0:
        return 0.0
    if row.servers > 0:
        return row.fitted[2] * s.inter_gbs / 2.0
    w = max(s.workers[job] if s.span[job] > 1 else row.num_gpus, 2)
    measured = m.measured_span_slowdown[job] - 1.0 if m.measured_span_slowdown[job] > 0 else SPAN_LOSS
    slower = measured * iteration_seconds(jobs, job, w, 0, 0.0) - (s.inter_s - s.intra_s * w / 2.0)
    each = 2.0 * (w - 1) / w * (1.0 / s.inter_gbs - 1.0 / s.intra_gbs)
    return slower / each if slower > 0.0 and each > 0.0 else 0.0


@compiled
def set_believed_speed(s, jobs, m, job):
    """Set the speed of a job to that of its fitted profile (`job_shapes.iteration_seconds`), and its core need.

    With c seconds of computing of one worker, and exchange in a ring of X GB at B GB/s with L seconds for each further
    worker,

        T(w) = c ((1 - a) / w + a) + 2 X / B (w - 1) / w + L (w - 1),
        th0 = c (1 - a) - 2 X / B,   th1 = c a + 2 X / B - L,   th3 = L;

    with parameter servers th0 = c (1 - a), th1 = c a.
    """
    row, th = jobs[job], jobs[job].fitted
    workers, servers = row.num_gpus, row.servers
    exchange = 2.0 * row.sync_gb / s.intra_gbs if servers == 0 else 0.0
    shared = max(th[0] + exchange, 0.0)
    fixed = max(th[1] + (th[3] if servers == 0 else 0.0) - exchange, 0.0)
    row.scaling_loss = fixed / max(shared + fixed, MIN_ITERATION_S)
    row.gpu_s = max(shared / workers + fixed, MIN_ITERATION_S)
    row.interference_hold = row.gpu_s**0.25
    if row.cpu_slowdown > 0:
        row.cpu_slowdown = 1.0 + (th[5] / workers + th[6]) / row.gpu_s
    if row.input_core_s > 0:
        row.input_core_s = row.gpu_s * believed_cores(s, jobs, m, job)
    set_iteration(s, jobs, job, (workers - 1) // max(largest_node(s, jobs, job), 1) + 1)


@compiled
def set_believed_nodes(s):
    """Replace the future of nodes: no open node fails or is drained; a failed one is down for a whole mean repair.

    The end of an announced drain is known.
    """
    for node in range(s.num_nodes):
        s.fail_at[node] = np.inf
        s.drain_at[node] = np.inf
        if s.closed[node] == DOWN:
            s.until[node] = s.clock + (s.node_repair if s.node_mtbf < np.inf else s.drain_length)
    find_next(s)


@compiled
def invalidate_reads(s, m):
    """Invalidate what `union` has read of the state, and the seats of every node."""
    m.state_seen[0] = -1
    m.num_reads += 1
    m.changed_at_read[: s.num_nodes] = m.num_reads
    m.last_change = m.num_reads


@compiled
def sample_belief(s, jobs, m, seed):
    """Turn copies of a state and its jobs into a sampled belief: run times drawn, no arrivals.

    Reading errors and random events are drawn by new seeds too.
    """
    s.num_jobs = s.num_arrived
    invalidate_reads(s, m)
    if s.failing:
        set_believed_nodes(s)
    mean, spread = run_time_prior(s, jobs)
    on_cpus, on_gpus = mean_bandwidth(s, jobs, False), mean_bandwidth(s, jobs, True)
    for job in range(s.num_arrived):
        if is_unfinished(s, job):
            usual = on_gpus if jobs[job].num_gpus > 0 else on_cpus
            jobs[job].gbs_each = bandwidth_read(s, jobs, job) if has_run(s, job) else usual
            replace_truth(s, jobs, m, job, mean, spread, seed)
    s.seed = mixed(mixed(seed) ^ 1)  # once all that has been read is known
    s.rng_state = 1 + mixed(mixed(seed) ^ 2) % (MODULUS - 1)
    for at in range(s.num_active):
        s.noted[at] = s.events[at]
    for at in range(s.num_active):
        if s.phase[s.noted[at]] == RUNNING:
            plan(s, jobs, s.noted[at])
            note_change_around(s, s.noted[at])


@entry
def sample(states, e, memory, k, jobs, seed):
    """Turn copies of a state and its jobs into a sampled belief of the policy with this memory.

    The same seed draws the same quantile for each job, whatever has been done meanwhile.
    """
    sample_belief(states[e], jobs, memory[k], seed)


@compiled
def is_unfinished(s, job):
    """Return whether a job has not finished."""
    return np.isnan(s.finish_s[job])
