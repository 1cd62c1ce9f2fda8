"""Where a job can run: on GPUs of its own, in a share slot beside others, or in the place of a job paused for it.

Two jobs on a GPU are taken to slow each other down by CONTENTION for each GPU's worth of profiled demand beyond one,
the median of Gavel's pairs on V100s, and by a fixed LOSS for each co-located job, as Lucid's; a gang is as slow as on
its worst GPU. A seat is a share slot.
"""

import numpy as np

from simulator.kernel._compile import compiled
from simulator.kernel.layout import LOADING, MAX_SHARE, NOBODY, PAUSING, RUNNING
from simulator.kernel.machines import count_on
from simulator.kernel.queues import loading_time
from simulator.kernel.type_speeds import left_at_best, look_up_machines, slow_on
from simulator.kernel.ways import duty_of, pace_of

CONTENTION, LOSS_PER_JOB = 0.48, 0.04
ALONE_AFTER = 3  # times that a job ran out of memory, after which it gets GPUs of its own; our choice


@compiled
def crowded(demand, others):
    """Return how much slower than alone jobs run on a GPU of which so much is demanded, beside so many others."""
    return 1 + CONTENTION * max(demand - 1, 0.0) + LOSS_PER_JOB * others if others > 0 else 1.0


@compiled
def is_oom_prone(s, job):
    """Tell whether a job gets its GPUs alone, since it ran out of memory again and again."""
    return s.oom_restarts[job] >= ALONE_AFTER


@compiled
def see_gpu(s, jobs, m, gpu):
    """Write what is on a GPU, and whether it has a seat for another job."""
    m.demand[gpu] = 0.0
    m.room_gib[gpu] = 0.0
    closing = False
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        job = s.job_in[slot]
        if job != NOBODY:
            m.demand[gpu] += duty_of(jobs, job)
            m.room_gib[gpu] += jobs[job].profiled_memory_gib
            closing |= s.phase[job] == PAUSING or is_oom_prone(s, job)
    m.room_gib[gpu] = s.node_memory[s.gpu_node[gpu]] - m.room_gib[gpu]
    m.is_kept[gpu] = s.reserved_for[gpu] != NOBODY
    count = s.num_jobs_on[gpu]
    m.is_empty[gpu] = count == 0 and not m.is_kept[gpu]
    m.is_open[gpu] = 0 < count < s.max_share and not m.is_kept[gpu] and not closing


@compiled
def keep_gpus(m):
    """Take the GPUs that are kept for a job from what others may be offered."""
    for k in range(m.num_kept):
        gpu = m.kept_gpus[k]
        m.is_kept[gpu] = 1
        m.is_empty[gpu] = 0
        m.is_open[gpu] = 0


@compiled
def see_job(s, jobs, m, job):
    """Write how long an active job has to go, as things are, and how much those beside it, and its GPUs, slow it."""
    left = left_at_best(s, jobs, m, job)
    m.crowd[job] = 1.0
    m.type_slow[job] = 1.0
    slot = s.first_slot[job]
    if slot != NOBODY:
        worst = 1.0
        by_type = 0.0
        while slot != NOBODY:
            gpu = slot // MAX_SHARE
            worst = max(worst, crowded(m.demand[gpu], s.num_jobs_on[gpu] - 1))
            by_type = max(by_type, slow_on(s, jobs, m, job, s.gpu_node[gpu]))
            slot = s.next_slot[slot]
        m.crowd[job] = worst
        m.type_slow[job] = by_type
        left *= pace_of(jobs, job, s.workers[job], s.servers[job]) * worst * by_type
    held = s.clock - s.phase_began[job]
    if s.phase[job] == LOADING:
        left += s.loading_s[job] - held
    elif s.phase[job] == PAUSING:
        left = jobs[job].pause_s - held
    m.left_s[job] = left


@compiled
def see(s, jobs, m):
    """Read what is on the GPUs, and how long each job has to go: a queued one as asked, alone, with its load.

    A queued one is taken to get the fastest GPUs that can hold it.
    """
    look_up_machines(s, m)
    for gpu in range(s.num_gpus):
        see_gpu(s, jobs, m, gpu)
    keep_gpus(m)
    m.num_seats = 0
    m.empties[: s.num_nodes] = 0
    for gpu in range(s.num_gpus):
        m.empties[s.gpu_node[gpu]] += m.is_empty[gpu]
        if m.is_empty[gpu] or m.is_open[gpu]:
            m.seats[m.num_seats] = gpu
            m.num_seats += 1
    for k in range(s.num_active):
        see_job(s, jobs, m, s.events[k])
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            job = s.queue[at]
            m.left_s[job] = left_at_best(s, jobs, m, job) + loading_time(s, jobs, job)


@compiled
def look_for(s, jobs, m, job):
    """Write how much slower than at best a job would run on each GPU, infinite where it cannot; tell whether it can.

    A job that runs can go only to GPUs of its own.
    """
    duty, memory = duty_of(jobs, job), jobs[job].profiled_memory_gib
    m.alone = is_oom_prone(s, job) or s.phase[job] == RUNNING
    somewhere = False
    for node in range(s.num_nodes):
        m.can_hold[node] = s.node_memory[node] >= jobs[job].gpu_memory_gib
        m.has_seat[node] = 0
    m.slowdown[: s.num_gpus] = np.inf
    for k in range(m.num_seats):
        gpu = m.seats[k]
        node = s.gpu_node[gpu]
        if not m.can_hold[node]:
            continue
        demand = m.demand[gpu] + duty
        by_type = slow_on(s, jobs, m, job, node)
        if m.is_empty[gpu]:
            m.slowdown[gpu] = by_type
        elif (
            m.is_open[gpu] and not m.alone and m.room_gib[gpu] >= memory and demand <= m.most_busy * m.sharing
        ):
            m.slowdown[gpu] = crowded(demand, s.num_jobs_on[gpu]) * by_type
        if m.slowdown[gpu] < np.inf:
            m.has_seat[node] = 1
            somewhere = True
    return somewhere


@compiled
def rank_gpus(m, count):
    """List the GPUs of a place by what has just been found, those on which a job is slowed least first."""
    for k in range(count):
        gpu = m.among[k]
        at = k
        while at > 0 and m.slowdown[m.ranked[at - 1]] > m.slowdown[gpu]:
            m.ranked[at] = m.ranked[at - 1]
            at -= 1
        m.ranked[at] = gpu


@compiled
def harm_to(s, jobs, m, job, gpus, other):
    """Return how much slower another job would be than now, over now, if a job came to these GPUs."""
    after = 1.0
    slot = s.first_slot[other]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        demand, beside = m.demand[gpu], s.num_jobs_on[gpu] - 1
        for k in range(len(gpus)):
            if gpus[k] == gpu:
                demand += duty_of(jobs, job)
                beside += 1
        after = max(after, crowded(demand, beside))
        slot = s.next_slot[slot]
    return max(after / m.crowd[other] - 1, 0.0)


@compiled
def harm_s(s, jobs, m, job, gpus, slowdown):
    """Return the seconds that jobs on these GPUs lose beside a job, which runs so much slower there, while both run."""
    total = 0.0
    for k in range(len(gpus)):
        for slot in range(MAX_SHARE * gpus[k], MAX_SHARE * gpus[k] + MAX_SHARE):
            other = s.job_in[slot]
            if other == NOBODY or is_seen(s, gpus[:k], other):
                continue
            slower = harm_to(s, jobs, m, job, gpus, other)
            total += slower * min(m.left_s[other], slowdown * m.left_s[job])
    return total


@compiled
def is_seen(s, gpus, job):
    """Tell whether a job is on one of these GPUs."""
    for gpu in gpus:
        if count_on(s, gpu, job) > 0:
            return True
    return False


@compiled
def relief_s(s, m, job):
    """Return the seconds that the jobs beside a job gain if it leaves them."""
    left = m.left_s[job]
    others = 0
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        for at in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            other = s.job_in[at]
            if other != NOBODY and other != job:
                others += 1
                left = min(left, m.left_s[other])
        slot = s.next_slot[slot]
    crowd = m.crowd[job]
    return (crowd - 1) / crowd * left if others > 0 else 0.0


@compiled
def without(s, jobs, m, job, gpu, evicted):
    """Return a job's slowdown on a GPU from which another is evicted; infinite if it cannot run there even then."""
    others = s.num_jobs_on[gpu] - 1
    by_type = slow_on(s, jobs, m, job, s.gpu_node[gpu])
    if others == 0:
        return by_type
    demand = m.demand[gpu] - duty_of(jobs, evicted) + duty_of(jobs, job)
    if m.room_gib[gpu] + jobs[evicted].profiled_memory_gib < jobs[job].profiled_memory_gib:
        return np.inf
    if m.alone or demand > m.most_busy * m.sharing:
        return np.inf
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        if s.job_in[slot] != NOBODY and is_oom_prone(s, s.job_in[slot]):
            return np.inf
    return crowded(demand, others) * by_type


@compiled
def may_be_evicted(s, m, job, other):
    """Tell whether a running job may be paused for another: it has longer to go, and has run for a while."""
    return (
        s.phase[other] == RUNNING
        and other != job
        and s.last_action_instant[other] != s.instant
        and s.width[other] > 0
        and m.left_s[other] > m.anew_s
        and s.clock - s.phase_began[other] >= m.settled
    )


@compiled
def open_gpu(s, jobs, m, job, gpu):
    """Write when a GPU has a seat for a job without a pause, which job to pause for one, and the slowdown then."""
    m.opens_s[gpu] = 0.0 if m.slowdown[gpu] < np.inf else np.inf
    m.evicted[gpu] = NOBODY
    m.slow_after[gpu] = np.inf
    if m.slowdown[gpu] < np.inf or m.is_kept[gpu] or not m.can_hold[s.gpu_node[gpu]]:
        return
    last = -np.inf
    first = np.inf
    longest = 0.0
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        other = s.job_in[slot]
        if other == NOBODY:
            continue
        last = max(last, m.left_s[other])
        slow = without(s, jobs, m, job, gpu, other)
        if slow == np.inf:
            continue
        first = min(first, m.left_s[other])
        if m.left_s[other] > longest and may_be_evicted(s, m, job, other):
            longest = m.left_s[other]
            m.evicted[gpu] = other
            m.slow_after[gpu] = slow
    if last > -np.inf:
        m.opens_s[gpu] = min(last, first)
