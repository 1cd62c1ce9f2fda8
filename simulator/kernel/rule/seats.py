"""Where a job can run: on GPUs of its own, in a share slot beside others, or in the place of a job paused for it.

Two jobs on a GPU are taken to slow each other down by CONTENTION for each GPU's worth of profiled demand beyond one,
the median of Gavel's pairs on V100s, and by a fixed LOSS for each co-located job, as Lucid's; a gang is as slow as on
its worst GPU. A seat is a share slot.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, MAX_SHARE, NOBODY, PAUSING, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import count_on
from gpu_cluster_gym.simulator.kernel.rule.spanning import is_across, slow_across, watch_across
from gpu_cluster_gym.simulator.kernel.rule.type_speeds import left_at_best, look_up_machines, slow_on
from gpu_cluster_gym.simulator.kernel.rule.ways import duty_of, pace_of

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
def must_be_alone(s, job):
    """Tell whether a job can go to GPUs of its own alone: it runs, or ran out of memory again and again."""
    return is_oom_prone(s, job) or s.phase[job] == RUNNING


@compiled
def note_kept(s, m):
    """Note which GPUs are kept: reserved ones, those of nodes that are closed, and those that are being freed."""
    for gpu in range(s.num_gpus):
        m.is_kept[gpu] = s.reserved_for[gpu] != NOBODY
    for k in range(m.num_kept):
        m.is_kept[m.kept_gpus[k]] = 1


@compiled
def is_like_last(s, m, gpu):
    """Tell whether a GPU has the same jobs, in the same slots, as the one before on its node, and is kept like it."""
    if gpu == 0 or s.gpu_node[gpu] != s.gpu_node[gpu - 1] or m.is_kept[gpu] != m.is_kept[gpu - 1]:
        return False
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        if s.job_in[slot] != s.job_in[slot - MAX_SHARE]:
            return False
    return True


@compiled
def see_gpu(s, jobs, m, gpu):
    """Write what is on a GPU, and whether it has a seat for another job."""
    demand, room = 0.0, s.node_memory[s.gpu_node[gpu]]
    closing = False
    if s.num_jobs_on[gpu] > 0:
        taken = 0.0
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            job = s.job_in[slot]
            if job != NOBODY:
                demand += duty_of(jobs, job)
                taken += jobs[job].profiled_memory_gib
                closing |= s.phase[job] == PAUSING or is_oom_prone(s, job)
        room -= taken
    count = s.num_jobs_on[gpu]
    is_empty = count == 0 and not m.is_kept[gpu]
    is_open = 0 < count < s.max_share and not m.is_kept[gpu] and not closing
    write_gpu(s, m, gpu, demand, room, is_empty, is_open)


@compiled
def write_gpu(s, m, gpu, demand, room, is_empty, is_open):
    """Write what has been read of a GPU, and on its node whether that is something else than before."""
    same = m.demand[gpu] == demand and m.room_gib[gpu] == room
    if not (same and m.is_empty[gpu] == is_empty and m.is_open[gpu] == is_open):
        m.read_anew[s.gpu_node[gpu]] = m.read_last = m.readings
    m.demand[gpu] = demand
    m.room_gib[gpu] = room
    m.is_empty[gpu] = is_empty
    m.is_open[gpu] = is_open


@compiled
def see_gpus(s, jobs, m):
    """Read what is on the GPUs."""
    m.readings += 1
    if m.limits_read[0] != m.most_busy * m.sharing or m.limits_read[1] != m.most_slow:
        m.limits_read[0], m.limits_read[1] = m.most_busy * m.sharing, m.most_slow
        m.read_anew[: s.num_nodes] = m.readings
        m.read_last = m.readings
    note_kept(s, m)
    m.empties[: s.num_nodes] = 0
    for gpu in range(s.num_gpus):
        m.is_alike[gpu] = is_like_last(s, m, gpu)
        if m.is_alike[gpu]:
            last = gpu - 1
            write_gpu(s, m, gpu, m.demand[last], m.room_gib[last], m.is_empty[last], m.is_open[last])
        else:
            see_gpu(s, jobs, m, gpu)
        m.empties[s.gpu_node[gpu]] += m.is_empty[gpu]


@compiled
def slow_where_it_is(s, jobs, m, job):
    """Write how much those beside an active job on GPUs, and their types, slow it."""
    worst, by_type = 1.0, 1.0 if not m.typed else 0.0
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        if not m.is_alike[gpu]:  # else the job is on the one before it too
            worst = max(worst, crowded(m.demand[gpu], s.num_jobs_on[gpu] - 1))
            if m.typed:
                by_type = max(by_type, slow_on(s, jobs, m, job, s.gpu_node[gpu]))
        slot = s.next_slot[slot]
    m.crowd[job] = worst
    m.type_slow[job] = by_type


@compiled
def see_job(s, jobs, m, job):
    """Write how long an active job has to go, as things are, and how much those beside it, and its GPUs, slow it."""
    left = left_at_best(s, jobs, m, job)
    m.crowd[job] = 1.0
    m.type_slow[job] = 1.0
    if s.first_slot[job] != NOBODY:
        slow_where_it_is(s, jobs, m, job)
        left *= pace_of(jobs, job, s.workers[job], s.servers[job]) * m.crowd[job] * m.type_slow[job]
        if is_across(s, jobs, m, job):
            watch_across(s, jobs, m, job)
            left *= slow_across(m, job)
    held = s.clock - s.phase_began[job]
    if s.phase[job] == LOADING:
        left += s.loading_s[job] - held
    elif s.phase[job] == PAUSING:
        left = jobs[job].pause_s - held
    m.left_s[job] = left
    pausable = s.phase[job] == RUNNING and s.last_action_instant[job] != s.instant and s.width[job] > 0
    m.evictable_s[job] = left if pausable and held >= m.settled else -np.inf


@compiled
def see(s, jobs, m):
    """Read what is on the GPUs, and how long each active job has to go."""
    look_up_machines(s, m)
    see_gpus(s, jobs, m)
    for k in range(s.num_active):
        see_job(s, jobs, m, s.events[k])


@compiled
def slow_among_others(s, m, gpu, duty, memory, by_type):
    """Return how much slower than at best a job would run beside those on a GPU; infinite where it cannot."""
    demand = m.demand[gpu] + duty
    if m.alone or m.room_gib[gpu] < memory or demand > m.most_busy * m.sharing:
        return np.inf
    return crowded(demand, s.num_jobs_on[gpu]) * by_type


@compiled
def look_for(s, jobs, m, job, since):
    """Write how much slower than at best a job would run on each GPU, infinite where it cannot; tell whether it can.

    A job that runs can go only to GPUs of its own. since: only nodes are looked at that a later reading than this one
    (`read_anew`) found otherwise, -1 for all; of the others `has_seat` alone is written.
    """
    duty, memory = duty_of(jobs, job), jobs[job].profiled_memory_gib
    m.alone = must_be_alone(s, job)
    somewhere = False
    for node in range(s.num_nodes):
        m.can_hold[node] = s.node_memory[node] >= jobs[job].gpu_memory_gib
        m.has_seat[node] = 0
        if m.read_anew[node] <= since:
            continue
        m.by_type[node] = slow_on(s, jobs, m, job, node) if m.can_hold[node] else np.inf
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            if m.is_alike[gpu]:
                m.slowdown[gpu] = m.slowdown[gpu - 1]
            elif m.is_empty[gpu]:
                m.slowdown[gpu] = m.by_type[node]
            elif m.is_open[gpu] and m.can_hold[node]:
                m.slowdown[gpu] = slow_among_others(s, m, gpu, duty, memory, m.by_type[node])
            else:
                m.slowdown[gpu] = np.inf
            m.has_seat[node] |= m.slowdown[gpu] < np.inf
        somewhere |= m.has_seat[node]
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
def has_room_without(s, jobs, m, job, gpu, evicted):
    """Tell whether a job can run on a GPU from which another is evicted."""
    if s.num_jobs_on[gpu] == 1:
        return True
    if m.alone or m.room_gib[gpu] + jobs[evicted].profiled_memory_gib < jobs[job].profiled_memory_gib:
        return False
    if m.demand[gpu] - duty_of(jobs, evicted) + duty_of(jobs, job) > m.most_busy * m.sharing:
        return False
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        if s.job_in[slot] != NOBODY and is_oom_prone(s, s.job_in[slot]):
            return False
    return True


@compiled
def slow_without(s, jobs, m, job, gpu, evicted):
    """Return a job's slowdown on a GPU from which another is evicted, and where it has room then."""
    others = s.num_jobs_on[gpu] - 1
    by_type = m.by_type[s.gpu_node[gpu]]
    if others == 0:
        return by_type
    return crowded(m.demand[gpu] - duty_of(jobs, evicted) + duty_of(jobs, job), others) * by_type


@compiled
def may_be_evicted(m, job, other):
    """Tell whether an active job may be paused for another: it has longer to go, and has run for a while."""
    return m.evictable_s[other] > m.anew_s and other != job


@compiled
def open_gpu(s, jobs, m, job, gpu):
    """Write when a GPU has a seat for a job without a pause, which job to pause for one, and the slowdown then."""
    if m.is_alike[gpu]:
        m.opens_s[gpu] = m.opens_s[gpu - 1]
        m.evicted[gpu] = m.evicted[gpu - 1]
        m.slow_after[gpu] = m.slow_after[gpu - 1]
        return
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
        if not has_room_without(s, jobs, m, job, gpu, other):
            continue
        first = min(first, m.left_s[other])
        if m.left_s[other] > longest and may_be_evicted(m, job, other):
            longest = m.left_s[other]
            m.evicted[gpu] = other
            m.slow_after[gpu] = slow_without(s, jobs, m, job, gpu, other)
    if last > -np.inf:
        m.opens_s[gpu] = min(last, first)


@compiled
def may_make_room(s, jobs, m, job, other):
    """Tell whether the pause of another job would make room for one on some GPU."""
    slot = s.first_slot[other]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        able = s.node_memory[s.gpu_node[gpu]] >= jobs[job].gpu_memory_gib and not m.is_kept[gpu]
        if able and not m.is_alike[gpu] and has_room_without(s, jobs, m, job, gpu, other):
            return True
        slot = s.next_slot[slot]
    return False
