"""What the rule over moves believes of a job: what it finds itself, what finished jobs teach, or between the two.

What lies between is so by logarithms. Where finished jobs teach nothing, since the scenario names no history, the job
has parameter servers, or estimates are exact, it is what the rule finds itself, however much it trusts them.

What is learned of cores is in place of what is tried: readings of the job are in it. A GPU needs as many as bring input
as fast as it computes: fewer where jobs beside it slow it down, others where the job has another number of workers.
"""

import math

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.queues import attained_now, remaining_now
from gpu_cluster_gym.simulator.kernel.cores.tuning import between, wanted_by_trial
from gpu_cluster_gym.simulator.kernel.rule.batches import (
    ask_all,
    expected_left,
    expected_need,
    forget_readings,
    news_of,
)
from gpu_cluster_gym.simulator.kernel.rule.history import catch_up
from gpu_cluster_gym.simulator.kernel.rule.ways import pace_of

LEAST_LEFT_S = 1.0


@compiled
def learns_times(s, m):
    """Tell whether the rule believes what finished jobs teach of run times."""
    return m.trust_times > 0.0 and m.fitted > 0 and not s.exact


@compiled
def begin_moment(s, m):
    """Forget what was read at another instant, or before a job has begun.

    With another seed of the readings too, but not before a job begins: futures are imagined with seeds of their own at
    the instant of what has been read, which still holds.
    """
    if m.moment_instant == s.instant and m.moment_begun == s.num_starts:
        return
    if m.moment_instant != s.instant or m.seed_read != s.seed:
        m.moment += 1
    m.moment_instant = s.instant
    m.moment_begun = s.num_starts
    forget_readings(s, m)


@compiled
def hear(s, jobs, m):
    """Let jobs tell of their run times, once a moment."""
    begin_moment(s, m)
    if m.told_moment != m.moment:
        m.told_moment = m.moment
        ask_all(s, jobs, m)


@compiled
def left_now(s, jobs, m, job):
    """Seconds of run time left, in the shape the job asks for, as the rule believes."""
    if not learns_times(s, m):
        return remaining_now(s, jobs, job)
    hear(s, jobs, m)
    attained, news = attained_now(s, job), news_of(m, job)
    if (
        m.expected_news[job] != news
        or m.expected_attained[job] != attained
        or m.expected_trust[job] != m.trust_times
    ):
        m.expected_news[job], m.expected_attained[job], m.expected_trust[job] = news, attained, m.trust_times
        learned = max(expected_left(s, jobs, m, job, attained), LEAST_LEFT_S)
        m.expected_left_s[job] = between(remaining_now(s, jobs, job), learned, m.trust_times)
    return m.expected_left_s[job]


@compiled
def need_now(s, jobs, m, job):
    """Cores that each GPU of a job needs in the shape it asks for, alone, as finished jobs teach; 0 if they do not."""
    if m.num_cells == 0 or jobs[job].num_gpus == 0 or jobs[job].servers > 0:
        return 0.0
    begin_moment(s, m)
    if m.need_at[job] != m.moment:
        catch_up(s, jobs, m)
        m.need_at[job] = m.moment
        m.need[job] = math.exp(expected_need(s, jobs, m, job))
    return m.need[job]


@compiled
def learn_cores(s, jobs, m):
    """Write what finished jobs teach of the cores that each running job needs as it runs; these have been listed.

    0 of a job whose workers have no GPUs.
    """
    for at in range(m.num_running):
        job = m.running[at]
        m.learned[job] = need_now(s, jobs, m, job) if m.trust_cores > 0.0 else 0.0
        width = s.width[job]
        if width == 0:
            m.learned[job] = 0.0
        elif m.learned[job] > 0.0:
            shape = jobs[job].num_gpus / width / pace_of(jobs, job, width, 0)
            m.learned[job] *= shape / m.crowd[job]


@compiled
def cores_wanted(s, jobs, m, job):
    """Cores a GPU that the rule believes a job to need, in the shape it asks for, alone."""
    tried = wanted_by_trial(m, job)
    learned = need_now(s, jobs, m, job) if m.trust_cores > 0.0 else 0.0
    return between(tried, learned, m.trust_cores) if learned > 0.0 else tried
