"""What a scheduler may believe of the jobs there are: a copy of them in which nothing true is left that it cannot know.

Run times are drawn: lognormal, by the estimate with its error, good or not, and by the run times of all jobs so far
(a normal prior of the logarithm), longer than what has been attained; where the scenario names a history, as that has
mean and deviation (`simulator.kernel.rule.history`); where estimates are exact, they are as they are. What a job
needs of cores is what the history teaches, else what has been tried, or a guess; its duty is as profiled, and so is its
memory as long as it holds none; its speed with other numbers of workers is as fitted to its profile, and across nodes
as the rule has measured or guesses it; what it draws of host memory is as read, or as jobs do on average if it has
never run. It does not fail by itself, nor does a node. Jobs that have not arrived are left out.
"""

import math

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.events import find_next
from gpu_cluster_gym.simulator.kernel.cluster.layout import CHARGED, DONE, DOWN, MODULUS, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import note_change_around
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
from gpu_cluster_gym.simulator.kernel.rule.history import run_time
from gpu_cluster_gym.simulator.kernel.rule.spanning import FIRST_GUESS
from gpu_cluster_gym.simulator.kernel.rule.trust import need_now
from gpu_cluster_gym.simulator.kernel.rule.ways import duty_of, seconds_of

GOOD_ERROR, BAD_ERROR = 0.25, 1.0  # deviations of the logarithm of an estimate, as where a trace is filled in
USUAL_VARIANCE, USUAL_WEIGHT = (
    2.0,
    10.0,
)  # of the logarithm of run times; our choice, and the jobs for which it counts
LONGEST = 50.0  # times what was attained or estimated
LEAST_ITERATION_S = 1e-6


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
def error_of_estimate(s, job):
    """Return the deviation of the logarithm of what is known of a job's run time."""
    if not job_left(s, job):
        return 0.0
    return GOOD_ERROR if s.predictable[job] else BAD_ERROR


@compiled
def find_prior(s, jobs):
    """Return mean and variance of the logarithm of run times, from those that ended and from the estimates of others.

    Of the variance of estimates their own errors are taken off; the fewer jobs, the more it is what is usual.
    """
    total, squares, errors = 0.0, 0.0, 0.0
    count = s.num_arrived
    for job in range(count):
        known = estimate_now(s, jobs, job) if job_left(s, job) else s.attained_s[job]
        x = math.log(max(known, 1.0))
        total += x
        squares += x * x
        errors += error_of_estimate(s, job) ** 2
    mean = total / max(count, 1)
    spread = max(squares - errors - count * mean * mean, 0.0)
    return mean, (USUAL_WEIGHT * USUAL_VARIANCE + spread) / (USUAL_WEIGHT + count)


@compiled
def middle_and_error(s, jobs, m, job, mean, spread):
    """Return mean and deviation of what is believed of the logarithm of a job's run time.

    With the prior N(m, v) and an estimate E of error e, it is normal about m + w (ln E - m) with the deviation
    e w^(1/2), w = v / (v + e^2).
    """
    if m.fitted:
        middle, variance = run_time(s, jobs, m, job)
        return middle, math.sqrt(variance)
    error = error_of_estimate(s, job)
    weight = spread / (spread + error * error)
    return mean + weight * (math.log(estimate_now(s, jobs, job)) - mean), error * math.sqrt(weight)


@compiled
def drawn_duration(s, jobs, m, job, mean, spread, chance):
    """Return a run time that what is known of a job allows: the one below which there is a share `chance` of them.

    mean, spread: of the prior. What is believed is cut at what has been attained.
    """
    if s.exact:
        return jobs[job].duration_s
    middle, deviation = middle_and_error(s, jobs, m, job, mean, spread)
    attained = attained_now(s, job)
    below = share_below((math.log(attained) - middle) / deviation) if attained > 0 else 0.0
    at = below + chance * (1.0 - below)
    drawn = math.exp(middle + deviation * at_share(min(at, 1.0 - 1e-9)))
    return min(max(drawn, attained + 1.0), LONGEST * max(attained, math.exp(middle)))


@compiled
def cores_believed(s, jobs, m, job):
    """Cores with which each GPU of a job would never wait for input, as is believed."""
    learned = need_now(s, jobs, m, job)
    return learned / TARGET_BUSY_SHARE if learned > 0.0 else wanted_by_trial(m, job)


@compiled
def believe(s, jobs, m, job, mean, spread, seed):
    """Write what may be believed of a job in place of what is true; mean, spread: of the prior."""
    row = jobs[job]
    row.duration_s = drawn_duration(s, jobs, m, job, mean, spread, even(seed, job))
    row.crash_at = 1.0
    row.predictable_from = 0.0 if s.predictable[job] else 1.0
    if s.charged[job] != CHARGED:
        row.gpu_memory_gib = row.profiled_memory_gib
    row.active_ms = row.profiled_active_ms
    row.idle_ms = row.profiled_idle_ms
    row.interference = row.profiled_interference
    row.gpu_utilization = duty_of(jobs, job)
    if row.num_gpus > 0 and row.gpu_s > 0:
        row.sync_gb = exchange_believed(s, jobs, m, job)
        believe_speed(s, jobs, m, job)


@compiled
def drawn_on_average(s, jobs, on_gpus):
    """GB/s that jobs which have run draw of host memory on average: with GPUs for each of these, or those without."""
    total, count = 0.0, 0
    for job in range(s.num_arrived):
        if (jobs[job].num_gpus > 0) == on_gpus and has_run(s, job):
            total += drawn_when_read(s, jobs, job)
            count += 1
    return total / max(count, 1)


@compiled
def has_run(s, job):
    """Tell whether a job has run, so that a monitor has read what it draws."""
    return s.phase[job] == DONE or attained_now(s, job) > 0


@compiled
def drawn_when_read(s, jobs, job):
    """GB/s that a job draws of host memory for its input where it runs as it asks, as read now, with the error."""
    return jobs[job].gbs_each * (1.0 + BANDWIDTH_ERROR * error_of(s, DRAWN, job))


@compiled
def exchange_believed(s, jobs, m, job):
    """GB that the workers of a job exchange, 0 where they exchange nothing; whether they do is known of its kind.

    With parameter servers as fitted: th2 = 2 X / B. In a ring no profile tells it from computing, and inside a node it
    makes no difference; it is what explains how much slower a job is on two nodes than on one, as the rule has measured
    that or guesses it: with w workers and T seconds, B and L of links and b and l inside a node,

        slower T = 2 (w - 1) / w X (1 / B - 1 / b) + L - l w / 2.
    """
    row = jobs[job]
    if row.sync_gb == 0:
        return 0.0
    if row.servers > 0:
        return row.fitted[2] * s.inter_gbs / 2.0
    w = max(s.workers[job] if s.span[job] > 1 else row.num_gpus, 2)
    measured = m.slow_across[job] - 1.0 if m.slow_across[job] > 0 else FIRST_GUESS
    slower = measured * seconds_of(jobs, job, w, 0, 0.0) - (s.inter_s - s.intra_s * w / 2.0)
    each = 2.0 * (w - 1) / w * (1.0 / s.inter_gbs - 1.0 / s.intra_gbs)
    return slower / each if slower > 0.0 and each > 0.0 else 0.0


@compiled
def believe_speed(s, jobs, m, job):
    """Write the speed of a job that follows from its fitted profile (`ways.seconds_of`), and what it needs of cores.

    With c seconds of computing of one worker, and exchange in a ring of X GB at B GB/s with L seconds a further worker,

        T(w) = c ((1 - a) / w + a) + 2 X / B (w - 1) / w + L (w - 1),
        th0 = c (1 - a) - 2 X / B,   th1 = c a + 2 X / B - L,   th3 = L;

    with parameter servers th0 = c (1 - a), th1 = c a.
    """
    row, th = jobs[job], jobs[job].fitted
    workers, servers = row.num_gpus, row.servers
    exchange = 2.0 * row.sync_gb / s.intra_gbs if servers == 0 else 0.0
    shared = max(th[0] + exchange, 0.0)
    fixed = max(th[1] + (th[3] if servers == 0 else 0.0) - exchange, 0.0)
    row.scaling_loss = fixed / max(shared + fixed, LEAST_ITERATION_S)
    row.gpu_s = max(shared / workers + fixed, LEAST_ITERATION_S)
    row.interference_hold = row.gpu_s**0.25
    if row.cpu_slowdown > 0:
        row.cpu_slowdown = 1.0 + (th[5] / workers + th[6]) / row.gpu_s
    if row.input_core_s > 0:
        row.input_core_s = row.gpu_s * cores_believed(s, jobs, m, job)
    set_iteration(s, jobs, job, (workers - 1) // max(largest_node(s, jobs, job), 1) + 1)


@compiled
def believe_nodes(s):
    """Write what may be believed of nodes: none fails or is drained that is open; one that is down is as long again.

    The end of a drain's notice is known.
    """
    for node in range(s.num_nodes):
        s.fail_at[node] = np.inf
        s.drain_at[node] = np.inf
        if s.closed[node] == DOWN:
            s.until[node] = s.clock + (s.node_repair if s.node_mtbf < np.inf else s.drain_length)
    find_next(s)


@compiled
def look_again(s, m):
    """Let a rule read anew what it has read of the state, and look for seats on every node."""
    m.seen[0] = -1
    m.readings += 1
    m.read_anew[: s.num_nodes] = m.readings
    m.read_last = m.readings


@compiled
def believe_all(s, jobs, m, seed):
    """Turn a copy of a record, and of its jobs, into what may be believed: run times drawn, no arrivals.

    Errors of readings, and what chance decides, are drawn anew too.
    """
    s.num_jobs = s.num_arrived
    look_again(s, m)
    if s.failing:
        believe_nodes(s)
    mean, spread = find_prior(s, jobs)
    on_cpus, on_gpus = drawn_on_average(s, jobs, False), drawn_on_average(s, jobs, True)
    for job in range(s.num_arrived):
        if job_left(s, job):
            usual = on_gpus if jobs[job].num_gpus > 0 else on_cpus
            jobs[job].gbs_each = drawn_when_read(s, jobs, job) if has_run(s, job) else usual
            believe(s, jobs, m, job, mean, spread, seed)
    s.seed = mixed(mixed(seed) ^ 1)  # once all that has been read is known
    s.rng_state = 1 + mixed(mixed(seed) ^ 2) % (MODULUS - 1)
    for at in range(s.num_active):
        s.noted[at] = s.events[at]
    for at in range(s.num_active):
        if s.phase[s.noted[at]] == RUNNING:
            plan(s, jobs, s.noted[at])
            note_change_around(s, s.noted[at])


@entry
def imagine(states, e, memory, k, jobs, seed):
    """Turn copies of a record and the jobs into what may be believed by who has this memory.

    The same seed draws the same share for each job, whatever has been done meanwhile.
    """
    believe_all(states[e], jobs, memory[k], seed)


@compiled
def job_left(s, job):
    """Tell whether a job has not ended."""
    return np.isnan(s.finish_s[job])
