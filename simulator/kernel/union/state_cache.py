"""The state as `union` reads it before each decision: GPUs, running jobs, and the queue in order.

Reading is incremental. Nothing but cores is read again if no job has started, paused or finished since the last read;
queued jobs keep their keys while nothing that enters has changed; nodes record the read at which they last changed.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    LOADING,
    MAX_SHARE,
    NOBODY,
    PAUSING,
    QUEUED,
    RUNNING,
)
from gpu_cluster_gym.simulator.kernel.cluster.queues import loading_time
from gpu_cluster_gym.simulator.kernel.cores.sharing import insert_by_key, note_wishes
from gpu_cluster_gym.simulator.kernel.cores.tuning import list_running, watch
from gpu_cluster_gym.simulator.kernel.union.estimates import (
    left_from_start,
    left_on_fastest,
    note_learned_needs,
    refresh_run_times,
    uses_history,
    version_of_batch,
)
from gpu_cluster_gym.simulator.kernel.union.job_shapes import (
    gpu_utilization,
    note_machines,
    relative_time,
    type_slowdown_on,
)
from gpu_cluster_gym.simulator.kernel.union.seats import (
    colocation_slowdown,
    is_oom_prone,
    is_spanning,
    measure_span,
    span_slowdown,
)
from gpu_cluster_gym.simulator.kernel.union.weights import copy_entries

HOUR = 3600.0


# GPUs and active jobs.


@compiled
def note_blocked(s, m):
    """Note which GPUs are blocked: reserved GPUs, those of closed nodes, and those being freed for the pending job."""
    for gpu in range(s.num_gpus):
        m.is_blocked[gpu] = s.reserved_for[gpu] != NOBODY
    for k in range(m.num_pending):
        m.is_blocked[m.pending_gpus[k]] = 1


@compiled
def repeats_previous(s, m, gpu):
    """Return whether a GPU equals the one before it on its node: the same jobs in the same slots, blocked or not."""
    if gpu == 0 or s.gpu_node[gpu] != s.gpu_node[gpu - 1] or m.is_blocked[gpu] != m.is_blocked[gpu - 1]:
        return False
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        if s.job_in[slot] != s.job_in[slot - MAX_SHARE]:
            return False
    return True


@compiled
def read_gpu(s, jobs, m, gpu):
    """Read the jobs on a GPU, and whether it has a share slot for another."""
    demand, free_gib = 0.0, s.node_memory[s.gpu_node[gpu]]
    closing = False
    if s.num_jobs_on[gpu] > 0:
        taken = 0.0
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            job = s.job_in[slot]
            if job != NOBODY:
                demand += gpu_utilization(jobs, job)
                taken += jobs[job].profiled_memory_gib
                closing |= s.phase[job] == PAUSING or is_oom_prone(s, job)
        free_gib -= taken
    count = s.num_jobs_on[gpu]
    is_empty = count == 0 and not m.is_blocked[gpu]
    has_slot = 0 < count < s.max_share and not m.is_blocked[gpu] and not closing
    store_gpu(s, m, gpu, demand, free_gib, is_empty, has_slot)


@compiled
def store_gpu(s, m, gpu, demand, free_gib, is_empty, has_slot):
    """Store the reading of a GPU, and mark its node as changed if the reading differs from the last one."""
    same = m.demand[gpu] == demand and m.free_memory_gib[gpu] == free_gib
    if not (same and m.is_empty[gpu] == is_empty and m.has_slot[gpu] == has_slot):
        m.changed_at_read[s.gpu_node[gpu]] = m.last_change = m.num_reads
    m.demand[gpu] = demand
    m.free_memory_gib[gpu] = free_gib
    m.is_empty[gpu] = is_empty
    m.has_slot[gpu] = has_slot


@compiled
def read_gpus(s, jobs, m):
    """Read all GPUs; a GPU equal to the one before it takes its readings."""
    m.num_reads += 1
    if m.limits_at_read[0] != m.most_busy * m.sharing or m.limits_at_read[1] != m.most_slow:
        m.limits_at_read[0], m.limits_at_read[1] = m.most_busy * m.sharing, m.most_slow
        m.changed_at_read[: s.num_nodes] = m.num_reads
        m.last_change = m.num_reads
    note_blocked(s, m)
    m.num_empty[: s.num_nodes] = 0
    for gpu in range(s.num_gpus):
        m.is_repeated[gpu] = repeats_previous(s, m, gpu)
        if m.is_repeated[gpu]:
            last = gpu - 1
            store_gpu(s, m, gpu, m.demand[last], m.free_memory_gib[last], m.is_empty[last], m.has_slot[last])
        else:
            read_gpu(s, jobs, m, gpu)
        m.num_empty[s.gpu_node[gpu]] += m.is_empty[gpu]


@compiled
def note_slowdowns(s, jobs, m, job):
    """Note the slowdown of an active job by co-located jobs and by the types of its GPUs."""
    worst, type_slowdown = 1.0, 1.0 if not m.typed else 0.0
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        if not m.is_repeated[gpu]:  # else the job is on the one before it too
            worst = max(worst, colocation_slowdown(m.demand[gpu], s.num_jobs_on[gpu] - 1))
            if m.typed:
                type_slowdown = max(type_slowdown, type_slowdown_on(s, jobs, m, job, s.gpu_node[gpu]))
        slot = s.next_slot[slot]
    m.shared_slowdown[job] = worst
    m.type_slowdown[job] = type_slowdown


@compiled
def read_job(s, jobs, m, job):
    """Note the time left of an active job as it runs now, its slowdowns, and whether it may be paused."""
    left = left_on_fastest(s, jobs, m, job)
    m.shared_slowdown[job] = 1.0
    m.type_slowdown[job] = 1.0
    if s.first_slot[job] != NOBODY:
        note_slowdowns(s, jobs, m, job)
        left *= (
            relative_time(jobs, job, s.workers[job], s.servers[job])
            * m.shared_slowdown[job]
            * m.type_slowdown[job]
        )
        if is_spanning(s, jobs, m, job):
            measure_span(s, jobs, m, job)
            left *= span_slowdown(m, job)
    held = s.clock - s.phase_began[job]
    if s.phase[job] == LOADING:
        left += s.loading_s[job] - held
    elif s.phase[job] == PAUSING:
        left = jobs[job].pause_s - held
    m.left_s[job] = left
    pausable = s.phase[job] == RUNNING and s.last_action_instant[job] != s.instant and s.width[job] > 0
    m.evictable_s[job] = left if pausable and held >= m.settled else -np.inf


@compiled
def read_gpus_and_jobs(s, jobs, m):
    """Read all GPUs, and the time left of each active job."""
    note_machines(s, m)
    read_gpus(s, jobs, m)
    for k in range(s.num_active):
        read_job(s, jobs, m, s.events[k])


@compiled
def is_any_empty(s, m):
    """Return whether some GPU is empty."""
    for gpu in range(s.num_gpus):
        if m.is_empty[gpu]:
            return True
    return False


@compiled
def may_move(s, jobs, m, job):
    """Return whether a job runs on GPUs, and has run there for at least `settled`."""
    return (
        s.phase[job] == RUNNING
        and s.last_action_instant[job] != s.instant
        and s.width[job] > 0
        and s.clock - s.phase_began[job] >= m.settled
    )


# The queue, in order.


@compiled
def divides_cores(s, m):
    """Return whether `union` divides cores."""
    return m.cores > 0 and s.cpu_limited


@compiled
def order_key(s, jobs, m, job):
    """Return the order key of a job, smallest first.

    key = time left x GPUs^exponent x exp(by_duty x utilisation + by_memory x memory share
                                          + by_doubt x not predictable + by_age x ln(1 + hours since submission))
    """
    gpus, left = jobs[job].num_gpus, left_from_start(s, jobs, m, job)
    key = left * gpus**m.exponent if gpus > 1 else left
    if m.by_duty == 0 and m.by_memory == 0 and m.by_doubt == 0 and m.by_age == 0:
        return key
    weight = m.by_duty * gpu_utilization(jobs, job)
    weight += m.by_memory * jobs[job].profiled_memory_gib / s.group_memory[s.num_groups - 1]
    weight += m.by_doubt * (1 - s.predictable[job])
    weight += m.by_age * np.log1p((s.clock - jobs[job].submit_s) / HOUR)
    return key * np.exp(weight)


@compiled
def are_keys_outdated(m):
    """Return whether all keys are outdated: the weights have changed, or keys change with time."""
    current = (m.exponent, m.by_duty, m.by_memory, m.by_doubt, m.by_age, m.trust_times)
    outdated = m.by_age != 0
    for k in range(len(current)):
        outdated |= m.weights_at_cache[k] != current[k]
        m.weights_at_cache[k] = current[k]
    return outdated


@compiled
def is_cached(s, m, job):
    """Return whether the cached time left of a queued job is valid: no start since, and no new version of its batch."""
    if m.cached_start[job] != 1 + s.began[job]:
        return False
    return not uses_history(s, m) or m.cached_version[job] == version_of_batch(m, job)


@compiled
def cache_queued(s, jobs, m, job):
    """Cache the time left of a queued job, as requested and alone on the fastest GPUs, with its load, and its key."""
    m.cached_start[job] = 1 + s.began[job]
    if uses_history(s, m):
        m.cached_version[job] = version_of_batch(m, job)
    m.any_servers |= jobs[job].servers > 0
    m.left_s[job] = left_on_fastest(s, jobs, m, job) + loading_time(s, jobs, job)
    m.key[job] = order_key(s, jobs, m, job) if jobs[job].num_gpus > 0 else 0.0


@compiled
def sort_queue(s, jobs, m):
    """List the queued jobs: those with GPUs in order, CPU jobs by job.

    Insertion sort that starts from the previous order, which is nearly sorted.
    """
    outdated = are_keys_outdated(m)
    if uses_history(s, m):
        refresh_run_times(s, jobs, m)
    m.num_cpu_jobs = 0
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            job = s.queue[at]
            if outdated or not is_cached(s, m, job):
                cache_queued(s, jobs, m, job)
            if jobs[job].num_gpus > 0:
                m.is_unlisted[job] = 1
            else:
                insert_by_key(m, m.cpu_jobs, m.num_cpu_jobs, job)
                m.num_cpu_jobs += 1
    before, m.num_order = m.num_order, 0
    for at in range(before):
        insert_once(m, m.order[at])
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            insert_once(m, s.queue[at])


@compiled
def insert_once(m, job):
    """Insert a job into the order if it is not listed yet."""
    if m.is_unlisted[job]:
        m.is_unlisted[job] = 0
        insert_by_key(m, m.order, m.num_order, job)
        m.num_order += 1


@compiled
def sort_by_release(s, m):
    """Sort the GPUs by the time at which the last job on them ends; the previous order is nearly right."""
    for gpu in range(s.num_gpus):
        m.released_s[gpu] = 0.0
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            if s.job_in[slot] != NOBODY:
                m.released_s[gpu] = max(m.released_s[gpu], m.left_s[s.job_in[slot]])
    if m.by_release[0] == m.by_release[1]:
        for gpu in range(s.num_gpus):
            m.by_release[gpu] = gpu
    for k in range(1, s.num_gpus):
        gpu, at = m.by_release[k], k
        while at > 0 and m.released_s[m.by_release[at - 1]] > m.released_s[gpu]:
            m.by_release[at] = m.by_release[at - 1]
            at -= 1
        m.by_release[at] = gpu


@compiled
def list_claimants(s, jobs, m):
    """List the claimants in order: queued jobs, and running jobs on a slower GPU type than could hold them."""
    m.num_claimants = m.num_order
    copy_entries(m.order, m.claimants, m.num_order)
    if not m.typed:
        return
    for at in range(m.num_running):
        job = m.running[at]
        if m.type_slowdown[job] > 1.0 and may_move(s, jobs, m, job):
            m.key[job] = order_key(s, jobs, m, job)
            insert_by_key(m, m.claimants, m.num_claimants, job)
            m.num_claimants += 1
    sort_by_release(s, m)


@compiled
def list_takers(s, jobs, m):
    """List, in order, the jobs to which free GPUs are offered: claimants, and running jobs that could use more GPUs."""
    m.num_takers = m.num_claimants
    copy_entries(m.claimants, m.takers, m.num_claimants)
    if m.widening == 0 or m.sizing == 0 or not is_any_empty(s, m):
        return
    for at in range(m.num_running):
        job = m.running[at]
        is_claimant = m.typed > 0 and m.type_slowdown[job] > 1.0
        could_use_more = s.width[job] < jobs[job].max_workers or m.shared_slowdown[job] > 1.0
        if not is_claimant and could_use_more and may_move(s, jobs, m, job):
            m.key[job] = order_key(s, jobs, m, job) / m.widening
            insert_by_key(m, m.takers, m.num_takers, job)
            m.num_takers += 1


@compiled
def is_unchanged(s, m):
    """Return whether only cores have changed since the last call: all other actions change one of these numbers."""
    current = (
        s.instant,
        s.num_starts,
        s.num_pauses,
        s.num_queued,
        m.num_running,
        m.pending_job,
        m.num_pending,
    )
    same = True
    for k in range(len(current)):
        same &= m.state_seen[k] == current[k]
        m.state_seen[k] = current[k]
    return same


@compiled
def read_state(s, jobs, m):
    """Read the current state; only what depends on cores if nothing else has changed since the last read."""
    list_running(s, m)
    if divides_cores(s, m) and m.instant != s.instant:
        watch(s, jobs, m)
    if m.instant != s.instant:
        m.instant = s.instant
        m.has_divided = 0
    runs_on = m.typed > 0 and m.pending_job != NOBODY and s.phase[m.pending_job] == RUNNING
    if m.pending_job != NOBODY and s.phase[m.pending_job] != QUEUED and not runs_on:
        m.pending_job = NOBODY
        m.num_pending = 0
    if not is_unchanged(s, m):
        m.is_searched = 0
        read_gpus_and_jobs(s, jobs, m)
        if divides_cores(s, m):
            note_learned_needs(s, jobs, m)
        sort_queue(s, jobs, m)
        list_claimants(s, jobs, m)
        list_takers(s, jobs, m)
    if divides_cores(s, m):
        note_wishes(s, jobs, m)
    m.lacking[: s.num_nodes] = 0.0
    # Price of a GPU: each second on it delays the other waiting jobs, spread over all GPUs.
    m.gpu_price = m.price * (max(m.num_order - 1, 0) + m.expected) / s.num_gpus
