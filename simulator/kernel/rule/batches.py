"""What jobs of a batch tell of one another, kept by a rule for as long as nothing that enters has changed.

What a job tells of run times (`simulator.kernel.rule.history.told`) changes where it arrives, ends, turns predictable
or loses progress, and all the while where it has run for longer than was estimated. So at each moment the jobs that
were active at the moment before, and those that arrived, began or ended since, are asked again; what is expected of a
batch is found anew where one of its jobs then tells something else. What a job tells of cores is read once a moment;
of one that has ended, once.
"""

import math

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.decided import Fields
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.readings import is_informative, reading
from gpu_cluster_gym.simulator.kernel.rule.history import (
    log_estimate,
    middle_beyond,
    told,
    with_estimate,
    with_reading,
    without_batch,
)

AT_ALL_TIMES = -1  # the moment at which an ended job is read

BATCH_FIELDS: Fields = (
    ("told_moment", "i8"),  # the last at which jobs were asked
    # up to where they have been
    ("num_told", "i8"),  # of those that have arrived
    ("num_ended", "i8"),
    ("last_begun", "i8"),  # and of starts
    ("num_watched", "i8"),
    ("watched", "i4", ("jobs",)),  # jobs that were active at the last moment
    # what each tells of run times
    ("told_s", "f8", ("jobs",)),
    ("told_weight", "f8", ("jobs",)),  # 1 over the variance of their logarithm; 0 before it has been asked
    ("told_share", "f8", ("jobs",)),  # the logarithm over its variance
    ("batch_news", "i8", ("jobs",)),  # how often a job told something else, by the first of the batch
    ("log_estimate", "f8", ("jobs",)),
    # what is expected, and the news of that time
    ("found_at", "i8", ("jobs",)),
    ("found_mean", "f8", ("jobs",)),
    ("found_deviation", "f8", ("jobs",)),
    # what each tells of cores
    ("seed_read", "i8"),  # that errors of readings were drawn by
    ("read_moment", "i8", ("jobs",)),
    ("busy_share", "f8", ("jobs",)),
    ("read_need", "f8", ("jobs",)),
    ("read_error", "f8", ("jobs",)),
    ("need_weight", "f8", ("jobs",)),  # 1 over the variance of what it tells of others
    ("need_share", "f8", ("jobs",)),  # the need over it
    # scratch: the jobs of one batch
    ("tellers_of", "i8"),  # its first
    ("tellers_moment", "i8"),
    ("num_tellers", "i8"),
    ("tellers", "i4", ("jobs",)),
    ("members", "i4", ("jobs",)),
    ("totals", "f8", ("jobs",)),
    ("precisions", "f8", ("jobs",)),
)


@compiled
def ask(s, jobs, m, job):
    """Take down what a job tells of run times, and whether that is something else than before."""
    seconds, variance = told(s, jobs, m, job)
    weight = 1.0 / variance
    if seconds == m.told_s[job] and weight == m.told_weight[job]:
        return
    m.log_estimate[job] = log_estimate(s, jobs, job)
    m.told_s[job] = seconds
    m.told_weight[job] = weight
    m.told_share[job] = math.log(max(seconds, 1.0)) / variance
    m.batch_news[m.first_like[job]] += 1


@compiled
def ask_active(s, jobs, m):
    """Ask the jobs that were active before or are now; return how many of these have begun since."""
    for k in range(m.num_watched):
        ask(s, jobs, m, m.watched[k])
    begun = 0
    for k in range(s.num_active):
        job = s.events[k]
        m.watched[k] = job
        if s.began[job] > m.last_begun:
            ask(s, jobs, m, job)
            begun += 1
    m.num_watched = s.num_active
    return begun


@compiled
def ask_all(s, jobs, m):
    """Ask all jobs that may tell something else than at the last moment; all, where some came and went since."""
    begun = ask_active(s, jobs, m)
    for job in range(m.num_told, s.num_arrived):
        ask(s, jobs, m, job)
    for k in range(m.num_ended, s.num_done):
        job = s.done_in_order[k]
        begun += s.began[job] > m.last_begun
        ask(s, jobs, m, job)
    if begun != s.num_starts - m.last_begun:
        for job in range(s.num_arrived):
            ask(s, jobs, m, job)
    m.num_told, m.num_ended, m.last_begun = s.num_arrived, s.num_done, s.num_starts


@compiled
def news_of(m, job):
    """Return how often a job of its batch has told something else."""
    return m.batch_news[m.first_like[job]]


@compiled
def find_run_times(s, jobs, m, first):
    """Find what is expected of the run times of a batch's jobs that have not ended, as `history.run_time` does of each.

    A job's sums are those up to it, and then go on without it.
    """
    count = 0
    total, precision = without_batch(jobs, m, first)
    job = first
    while job != NOBODY and job < s.num_arrived:
        share, weight = m.told_share[job], m.told_weight[job]
        for k in range(count):
            m.totals[k] += share
            m.precisions[k] += weight
        if s.phase[job] != DONE:
            m.members[count], m.totals[count], m.precisions[count] = job, total, precision
            count += 1
        total += share
        precision += weight
        job = m.next_like[job]
    for k in range(count):
        job = m.members[k]
        m.found_at[job] = m.batch_news[first]
        mean, variance = with_estimate(s, m, job, m.log_estimate[job], m.totals[k], m.precisions[k])
        m.found_mean[job], m.found_deviation[job] = mean, math.sqrt(variance)


@compiled
def expected_left(s, jobs, m, job, attained):
    """Return the seconds of run time left of a job that has not ended, as is to be expected."""
    if m.found_at[job] != news_of(m, job):
        find_run_times(s, jobs, m, m.first_like[job])
    return middle_beyond(m.found_mean[job], m.found_deviation[job], attained) - attained


@compiled
def read(s, jobs, m, job):
    """Take down the reading of a job at this moment."""
    if m.read_moment[job] == m.moment or m.read_moment[job] == AT_ALL_TIMES:
        return
    m.read_moment[job] = AT_ALL_TIMES if s.phase[job] == DONE else m.moment
    share, need, error = reading(s, jobs, job)
    variance = m.alike**2 + error**2
    m.busy_share[job], m.read_need[job], m.read_error[job] = share, need, error
    m.need_share[job], m.need_weight[job] = need / variance, 1.0 / variance


@compiled
def forget_readings(s, m):
    """Forget the readings of ended jobs, where errors are drawn by another seed from now on."""
    if m.seed_read != s.seed:
        m.seed_read = s.seed
        for job in range(s.num_arrived):
            m.read_moment[job] = 0


@compiled
def list_tellers(s, jobs, m, first):
    """List the jobs of a batch that have been read, for all that ask at this moment."""
    if m.tellers_of == first and m.tellers_moment == m.moment:
        return
    m.tellers_of, m.tellers_moment = first, m.moment
    m.num_tellers = 0
    job = first
    while job != NOBODY and job < s.num_arrived:
        if s.began[job] > 0:
            read(s, jobs, m, job)
            if m.busy_share[job] > 0:
                m.tellers[m.num_tellers] = job
                m.num_tellers += 1
        job = m.next_like[job]


@compiled
def expected_need(s, jobs, m, job):
    """Return the mean of the logarithm of the cores that each GPU of a job needs, as `history.need_of_cores`."""
    level = m.log_need[m.cell[job]]
    precision = 1.0 / m.spread**2
    total = level * precision
    list_tellers(s, jobs, m, m.first_like[job])
    for k in range(m.num_tellers):
        other = m.tellers[k]
        if other != job and is_informative(m.busy_share[other], m.read_need[other], level):
            total += m.need_share[other]
            precision += m.need_weight[other]
    if s.began[job] == 0:
        return with_reading(m, total, precision, 0.0, 0.0, 0.0)
    return with_reading(m, total, precision, m.busy_share[job], m.read_need[job], m.read_error[job])
