"""What the rule over moves reads of a state before it decides: GPUs, the jobs that run, and the queue in order."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.queues import loading_time
from gpu_cluster_gym.simulator.kernel.cores.cores import insert_by_key, note_wishes
from gpu_cluster_gym.simulator.kernel.cores.tuning import list_running, watch
from gpu_cluster_gym.simulator.kernel.rule.batches import news_of
from gpu_cluster_gym.simulator.kernel.rule.offers import is_any_empty, may_move
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import copy
from gpu_cluster_gym.simulator.kernel.rule.seats import see
from gpu_cluster_gym.simulator.kernel.rule.trust import hear, learn_cores, learns_times
from gpu_cluster_gym.simulator.kernel.rule.type_speeds import left_anew, left_at_best, sort_by_freeing
from gpu_cluster_gym.simulator.kernel.rule.ways import duty_of

HOUR = 3600.0


@compiled
def divides(s, m):
    """Tell whether the rule divides cores."""
    return m.cores > 0 and s.cpu_limited


@compiled
def key_of(s, jobs, m, job):
    """Return the key of a job, smallest first: what it has to go, times its GPUs to a power, and weights."""
    gpus, left = jobs[job].num_gpus, left_anew(s, jobs, m, job)
    key = left * gpus**m.exponent if gpus > 1 else left
    if m.by_duty == 0 and m.by_memory == 0 and m.by_doubt == 0 and m.by_age == 0:
        return key
    weight = m.by_duty * duty_of(jobs, job)
    weight += m.by_memory * jobs[job].profiled_memory_gib / s.level_memory[s.num_levels - 1]
    weight += m.by_doubt * (1 - s.predictable[job])
    weight += m.by_age * np.log1p((s.clock - jobs[job].submit_s) / HOUR)
    return key * np.exp(weight)


@compiled
def has_to_know(m):
    """Tell whether what is known of queued jobs is to be found again: by other weights, or as time goes on."""
    now = (m.exponent, m.by_duty, m.by_memory, m.by_doubt, m.by_age, m.trust_times)
    anew = m.by_age != 0
    for k in range(len(now)):
        anew |= m.weights_read[k] != now[k]
        m.weights_read[k] = now[k]
    return anew


@compiled
def is_known(s, m, job):
    """Tell whether a queued job has not begun since what is known of it was found, nor has its batch had news."""
    if m.known_at[job] != 1 + s.began[job]:
        return False
    return not learns_times(s, m) or m.known_news[job] == news_of(m, job)


@compiled
def know_queued(s, jobs, m, job):
    """Write how long a queued job has to go as asked, alone on the fastest GPUs, with its load, and its key."""
    m.known_at[job] = 1 + s.began[job]
    if learns_times(s, m):
        m.known_news[job] = news_of(m, job)
    m.serves |= jobs[job].servers > 0
    m.left_s[job] = left_at_best(s, jobs, m, job) + loading_time(s, jobs, job)
    m.key[job] = key_of(s, jobs, m, job) if jobs[job].num_gpus > 0 else 0.0


@compiled
def sort_queue(s, jobs, m):
    """List the queued jobs: those with GPUs in order, the others by job.

    The last order is taken to begin with: little has changed since, and what is nearly sorted is sorted quickly.
    """
    anew = has_to_know(m)
    if learns_times(s, m):
        hear(s, jobs, m)
    m.num_on_cores = 0
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            job = s.queue[at]
            if anew or not is_known(s, m, job):
                know_queued(s, jobs, m, job)
            if jobs[job].num_gpus > 0:
                m.to_list[job] = 1
            else:
                insert_by_key(m, m.on_cores, m.num_on_cores, job)
                m.num_on_cores += 1
    before, m.num_order = m.num_order, 0
    for at in range(before):
        list_once(m, m.order[at])
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            list_once(m, s.queue[at])


@compiled
def list_once(m, job):
    """Put a job into the order if it is to be listed and is not yet."""
    if m.to_list[job]:
        m.to_list[job] = 0
        insert_by_key(m, m.order, m.num_order, job)
        m.num_order += 1


@compiled
def list_standing(s, jobs, m):
    """List, in order, the queued jobs and those that run on a slower type of GPU than could hold them."""
    m.num_standing = m.num_order
    copy(m.order, m.standing, m.num_order)
    if not m.typed:
        return
    for at in range(m.num_running):
        job = m.running[at]
        if m.type_slow[job] > 1.0 and may_move(s, jobs, m, job):
            m.key[job] = key_of(s, jobs, m, job)
            insert_by_key(m, m.standing, m.num_standing, job)
            m.num_standing += 1
    sort_by_freeing(s, m)


@compiled
def could_use_more(s, jobs, m, job):
    """Tell whether a running job has fewer GPUs than it can use, or shares those it has."""
    return s.width[job] < jobs[job].max_workers or m.crowd[job] > 1.0


@compiled
def list_takers(s, jobs, m):
    """List, in order, those to whom free GPUs are offered: those that stand, and running jobs that could use more."""
    m.num_takers = m.num_standing
    copy(m.standing, m.takers, m.num_standing)
    if m.widening == 0 or m.sizing == 0 or not is_any_empty(s, m):
        return
    for at in range(m.num_running):
        job = m.running[at]
        stands = m.typed > 0 and m.type_slow[job] > 1.0
        if not stands and could_use_more(s, jobs, m, job) and may_move(s, jobs, m, job):
            m.key[job] = key_of(s, jobs, m, job) / m.widening
            insert_by_key(m, m.takers, m.num_takers, job)
            m.num_takers += 1


@compiled
def is_as_seen(s, m):
    """Tell whether nothing but cores has changed since this was last asked: every other move changes one of these."""
    now = (s.instant, s.num_starts, s.num_pauses, s.num_queued, m.num_running, m.kept_for, m.num_kept)
    same = True
    for k in range(len(now)):
        same &= m.seen[k] == now[k]
        m.seen[k] = now[k]
    return same


@compiled
def look(s, jobs, m):
    """Read the state as it is now; where only cores have changed since it was read, only what depends on them."""
    list_running(s, m)
    if divides(s, m) and m.instant != s.instant:
        watch(s, jobs, m)
    if m.instant != s.instant:
        m.instant = s.instant
        m.has_divided = 0
    runs_on = m.typed > 0 and m.kept_for != NOBODY and s.phase[m.kept_for] == RUNNING
    if m.kept_for != NOBODY and s.phase[m.kept_for] != QUEUED and not runs_on:
        m.kept_for = NOBODY
        m.num_kept = 0
    if not is_as_seen(s, m):
        m.is_searched = 0
        see(s, jobs, m)
        if divides(s, m):
            learn_cores(s, jobs, m)
        sort_queue(s, jobs, m)
        list_standing(s, jobs, m)
        list_takers(s, jobs, m)
    if divides(s, m):
        note_wishes(s, jobs, m)
    m.lacking[: s.num_nodes] = 0.0
    m.price_now = m.price * (max(m.num_order - 1, 0) + m.expected) / s.num_gpus
