"""Acquisition and release of GPUs and cores by jobs: starts, reservations, failures and out-of-memory errors.

A reservation keeps GPUs that are free, or held by pausing jobs, for a job that starts when the last of them is
released. Jobs take their peak memory when they start or grow; if the memory of a GPU overflows, a victim fails.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    ANYONE,
    CHARGED,
    CLOSED,
    EVICTED,
    FAILING,
    GROWER,
    GROWING,
    LOADING,
    MAX_FAILURES,
    MAX_SHARE,
    MIN_CORES,
    MODULUS,
    MULTIPLIER,
    NOBODY,
    PAUSING,
    QUEUED,
    RESERVED,
    RESTARTING,
    RETURNED,
    ROUNDING,
    RUNNING,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import (
    available_cores,
    count_cores,
    count_free,
    hold,
    hold_cores,
    is_alone,
    note_occupancy_change,
    release_slot,
    reset_core_rounding,
    take_cores,
)
from gpu_cluster_gym.simulator.kernel.cluster.progress import bank, run, schedule
from gpu_cluster_gym.simulator.kernel.cluster.queues import enqueue, loading_time
from gpu_cluster_gym.simulator.kernel.cluster.speed import (
    cores_of_servers,
    set_shape,
)


@compiled
def release(s, jobs, job):
    """Release all that a job holds; a reserved GPU goes to the job that it is reserved for."""
    note_occupancy_change(s, job, s.phase[job] == RUNNING)
    count_cores(s, job)
    slot = s.first_slot[job]
    s.first_slot[job] = NOBODY
    s.tenant_gpus[s.tenant[job]] -= s.width[job]
    s.num_spanning -= s.span[job] > 1
    if s.node_of[job] != NOBODY:
        s.num_on_cores -= 1
        take_cores(s, s.node_of[job], -s.core_count[job])
        s.node_of[job] = NOBODY
    # Loads and speeds are recomputed from what is left; the slots go back one by one.
    while slot != NOBODY:
        after = s.next_slot[slot]
        gpu = slot // MAX_SHARE
        if release_slot(s, jobs, job, slot):
            hand_over(s, gpu)
        slot = after
    s.charged[job] = 0
    s.throttle[job] = 1.0
    set_shape(s, job, jobs[job].num_gpus, jobs[job].num_gpus, jobs[job].servers)  # as requested


@compiled
def hand_over(s, gpu):
    """Count a GPU that no job holds any more as free, or as available to the job that it is reserved for."""
    reserved_for = s.reserved_for[gpu]
    if reserved_for == CLOSED:
        reset_core_rounding(s, s.gpu_node[gpu])
        return
    if reserved_for == NOBODY:
        count_free(s, gpu, 1)
        reset_core_rounding(s, s.gpu_node[gpu])
        return
    s.tenant_gpus[s.tenant[reserved_for]] += 1
    # A moving job may still be PAUSING: it then becomes ready in `end_pause`.
    s.awaited[reserved_for] -= 1
    if s.awaited[reserved_for] == 0 and s.phase[reserved_for] == RESERVED:
        s.ready[s.num_ready] = reserved_for
        s.num_ready += 1


@compiled
def reserve(s, job, gpus, workers, servers, cores, node):
    """Reserve GPUs, free or about to be, for a job, with the shape and the cores per GPU that it will have."""
    s.next_width[job] = len(gpus)
    s.next_workers[job] = workers
    s.next_servers[job] = servers
    s.next_cores[job] = cores
    s.next_node[job] = node
    s.awaited[job] = 0
    for gpu in gpus:
        if s.first_owner[gpu] == NOBODY:
            count_free(s, gpu, -1)
            s.tenant_gpus[s.tenant[job]] += 1
        else:
            s.awaited[job] += 1
        s.reserved_for[gpu] = job


@compiled
def release_reserved(s, job):
    """Cancel the reservation of a job's GPUs."""
    for gpu in range(s.num_gpus):
        if s.reserved_for[gpu] == job:
            s.reserved_for[gpu] = NOBODY
            if s.first_owner[gpu] == NOBODY:
                count_free(s, gpu, 1)
                s.tenant_gpus[s.tenant[job]] -= 1
    s.awaited[job] = 0
    s.moves[job] = 0


@compiled
def cancel_reservation(s, jobs, job):
    """Cancel a job's reservation: the job is queued again, or will be when its pause ends."""
    release_reserved(s, job)
    if s.phase[job] == RESERVED:
        join_queue(s, jobs, job)


@compiled
def start_ready(s, jobs):
    """Start the jobs whose reserved GPUs have all been released, in order of job."""
    while s.num_ready > 0:
        first = 0
        for k in range(s.num_ready):
            if s.ready[k] < s.ready[first]:
                first = k
        job = s.ready[first]
        s.num_ready -= 1
        s.ready[first] = s.ready[s.num_ready]
        start_reserved(s, jobs, job)


@compiled
def start_reserved(s, jobs, job):
    """Start a job on the GPUs reserved for it, the last of which has been released.

    It is queued again if there are no cores for its servers, or for workers without GPUs.
    """
    gpus = s.inherited
    count = 0
    for gpu in range(s.num_gpus):
        if s.reserved_for[gpu] == job:
            gpus[count] = gpu
            count += 1
    release_reserved(s, job)
    # GPUs are counted as free again for this check and taken once more by `begin`.
    if not has_reserved_cores(s, job, gpus[:count]):
        join_queue(s, jobs, job)
        return
    s.wait_s[job] += s.clock - s.phase_began[job]
    set_shape(s, job, s.next_width[job], s.next_workers[job], s.next_servers[job])
    begin(s, jobs, job, gpus, s.next_cores[job], s.next_node[job])


@compiled
def has_reserved_cores(s, job, gpus):
    """Return whether the cores without which a reserved job's shape cannot run are available."""
    if len(gpus) == 0:
        node = s.next_node[job]
        return not s.closed[node] and s.next_cores[job] <= s.unreserved_cores[node] + ROUNDING
    return can_serve(s, gpus, s.next_workers[job], s.next_servers[job])


@compiled
def can_serve(s, gpus, workers, servers):
    """Return whether the nodes of these free GPUs have cores for the servers and to feed the workers."""
    cores = cores_of_servers(servers, workers, len(gpus))
    return cores == 0 or cores + MIN_CORES <= available_cores(s, gpus) + ROUNDING


@compiled
def begin(s, jobs, job, gpus, cores, node):
    """Let a job hold free GPUs, or cores of a node: it starts up or loads its checkpoint, and then runs.

    Its shape has been set.
    """
    s.last_action_instant[job] = s.instant
    if s.evicted[job] == EVICTED:
        s.evicted[job] = RETURNED
        s.num_evicted -= 1
    if s.width[job] > 0:
        hold(s, job, gpus, cores)
    else:
        hold_cores(s, job, node, cores)
    # Allocate memory only after the phase is set: the allocation may fail this very job.
    if not grows_later(s, jobs, job):
        s.charged[job] = GROWING
    idle_s = loading_time(s, jobs, job)
    s.loading_s[job] = idle_s
    if np.isnan(s.start_s[job]):
        s.start_s[job] = s.clock
    if idle_s > 0:
        s.phase[job] = LOADING
        s.phase_began[job] = s.clock
        schedule(s, job, s.clock + idle_s)
    else:
        run(s, jobs, job)
    note_occupancy_change(s, job, s.phase[job] == RUNNING)
    if s.charged[job] == GROWING:
        allocate_peak_memory(s, jobs, job)


@compiled
def allocate_peak_memory(s, jobs, job):
    """Allocate a job's peak memory; fail victims until no GPU of the job overflows."""
    # The first overflowing GPU decides who fails; a failure may free enough memory for all others.
    gpu = charge(s, jobs, job)
    while gpu != NOBODY:
        fail(s, jobs, victim_on(s, gpu, job))
        gpu = first_over(s, job)


@compiled
def first_over(s, job):
    """Return the first GPU of an active job whose memory overflows, or NOBODY."""
    slot = s.first_slot[job]
    while slot != NOBODY:
        if s.free_memory[slot // MAX_SHARE] < -ROUNDING:
            return slot // MAX_SHARE
        slot = s.next_slot[slot]
    return NOBODY


@compiled
def fail(s, jobs, job):
    """Fail a job that ran out of memory: it loses all progress and is queued again after a delay."""
    account_phase(s, job)
    # All time of running becomes lost time, so that jct = wait + run + overhead + lost still holds.
    s.lost_s[job] += s.attained_s[job] + s.delay_s[job]
    s.lost_gpu_s[job] += s.run_gpu_s[job]
    s.run_gpu_s[job] = 0.0
    s.attained_s[job] = 0.0
    s.delay_s[job] = 0.0
    s.saved[job] = 0
    s.oom_restarts[job] += 1
    if s.oom_restarts[job] >= MAX_FAILURES:
        s.endless = FAILING
    restart_later(s, jobs, job)


@compiled
def fail_to_checkpoint(s, jobs, job):
    """Fail a job by itself or with its node: it returns to its last checkpoint and is queued again after a delay."""
    account_phase(s, job)
    # While loading, the checkpoint is intact and no progress has been made since.
    if s.phase[job] != LOADING:
        lose_since_checkpoint(s, job)
    s.saved[job] = s.attained_s[job] > 0
    s.failures[job] += 1
    if s.failures[job] >= MAX_FAILURES:
        s.endless = FAILING
    restart_later(s, jobs, job)


@compiled
def lose_since_checkpoint(s, job):
    """Remove the progress since the last checkpoint, and its share of the time since the job last started running."""
    every = s.checkpoint_every
    # Checkpoints are written at multiples of `checkpoint_every` s of progress; a pause or load saves
    # progress, too.
    least = max(np.floor(s.attained_s[job] / every * (1.0 + ROUNDING)) * every, s.checkpointed_s[job])
    made = s.attained_s[job] - s.checkpointed_s[job]
    if least >= s.attained_s[job] or made <= 0:
        return
    wall = s.attained_s[job] + s.delay_s[job]
    # The wall-clock time since the last start is lost in proportion to the progress lost.
    gone = (s.attained_s[job] - least) / made * (wall - s.checkpointed_wall_s[job])
    s.attained_s[job] = least
    s.delay_s[job] = wall - gone - least
    s.lost_s[job] += gone
    s.run_gpu_s[job] -= s.width[job] * gone
    s.lost_gpu_s[job] += s.width[job] * gone


@compiled
def account_phase(s, job):
    """Account for the time of an active job's current phase."""
    if s.phase[job] == RUNNING:
        bank(s, job)
    elif s.phase[job] == LOADING or s.phase[job] == PAUSING:
        account_overhead(s, job)


@compiled
def account_overhead(s, job):
    """Account for the time that a job has paused or loaded."""
    spent = s.clock - s.phase_began[job]
    s.overhead_s[job] += spent
    s.overhead_gpu_s[job] += s.width[job] * spent


@compiled
def restart_later(s, jobs, job):
    """Release all that a failed job holds, and queue it again after a delay."""
    s.last_action_instant[job] = s.instant
    # A moving job has GPUs reserved for it elsewhere.
    if s.moves[job]:
        release_reserved(s, job)
    release(s, jobs, job)
    s.phase[job] = RESTARTING
    s.phase_began[job] = s.clock
    schedule(s, job, s.clock + s.restart_delay)


@compiled
def join_queue(s, jobs, job):
    """Put a job into the queue."""
    s.phase[job] = QUEUED
    s.num_queued += 1
    s.joined[s.num_joins % len(s.joined)] = job
    s.num_joins += 1
    enqueue(s, jobs, job)


@compiled
def drawn(s, count):
    """Draw one of `count` numbers uniformly."""
    s.rng_state = s.rng_state * MULTIPLIER % MODULUS
    return s.rng_state * count // MODULUS


@compiled
def grows_later(s, jobs, job):
    """Return whether a co-located job has not run long enough to need its peak memory.

    A job with exclusive GPUs has it from the start, which changes nothing: otherwise the instant of growth
    would reveal how long the job will run.
    """
    grown = s.peak_at * jobs[job].duration_s * (1.0 - ROUNDING)
    return s.max_share > 1 and s.attained_s[job] < grown and not is_alone(s, job)


@compiled
def charge(s, jobs, job):
    """Allocate a job's peak memory on all its GPUs; return the first that overflows, or NOBODY."""
    s.charged[job] = CHARGED
    over = NOBODY
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        s.free_memory[gpu] -= jobs[job].gpu_memory_gib
        if s.free_memory[gpu] < -ROUNDING and over == NOBODY:
            over = gpu
        slot = s.next_slot[slot]
    return over


@compiled
def victim_on(s, gpu, grower):
    """Return the job that fails on a GPU whose memory `grower` has made overflow, by the rule `oom_victim`."""
    if s.oom_victim == GROWER:
        return grower
    chosen = NOBODY
    count = 0
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        count += s.job_in[slot] != NOBODY and s.charged[s.job_in[slot]] == CHARGED
    # `random`: an index drawn among the jobs whose memory is allocated on this GPU.
    wanted = drawn(s, count) if s.oom_victim == ANYONE else 0
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        job = s.job_in[slot]
        if job == NOBODY or s.charged[job] != CHARGED:
            continue
        if s.oom_victim == ANYONE:
            if wanted == 0:
                return job
            wanted -= 1
        # `newcomer`: the job that started last.
        elif chosen == NOBODY or s.began[job] > s.began[chosen]:
            chosen = job
    return chosen
