"""Ledger of the machines: which jobs hold which GPUs, slots and CPU cores, and what must be recomputed."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    CHARGED,
    CLOSED,
    LOADS,
    MAX_SHARE,
    NOBODY,
    ROUNDING,
    SPEEDS,
    UNCHANGED,
)


@compiled
def is_free(s, gpu):
    """Return whether a GPU is neither held nor reserved."""
    return s.first_owner[gpu] == NOBODY and s.reserved_for[gpu] == NOBODY


@compiled
def mark_node(s, node):
    """Stamp a node whose change may let a queued job start."""
    s.stamp += 1
    s.node_stamp[node] = s.stamp


@compiled
def count_free(s, gpu, change):
    """Add a GPU to (change = 1) or remove it from (change = -1) the free GPUs of its node."""
    node = s.gpu_node[gpu]
    group = s.node_group[node]
    s.bucket[group, s.free[node]] -= 1
    s.free[node] += change
    s.bucket[group, s.free[node]] += 1
    s.num_free += change
    if change > 0:
        mark_node(s, node)


@compiled
def count_on(s, gpu, job):
    """Return 1 if a job holds a GPU, else 0."""
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        if s.job_in[slot] == job:
            return 1
    return 0


@compiled
def is_alone(s, job):
    """Return whether no other job holds any of a job's GPUs."""
    if s.num_shared == 0:
        return True
    slot = s.first_slot[job]
    while slot != NOBODY:
        if s.num_jobs_on[slot // MAX_SHARE] > 1:
            return False
        slot = s.next_slot[slot]
    return True


@compiled
def is_on(s, job, node):
    """Return whether an active job holds GPUs or cores of a node."""
    if s.node_of[job] == node:
        return True
    slot = s.first_slot[job]
    while slot != NOBODY:
        if s.gpu_node[slot // MAX_SHARE] == node:
            return True
        slot = s.next_slot[slot]
    return False


@compiled
def is_on_closed(s, job):
    """Return whether one of a job's GPUs is on a closed node."""
    slot = s.first_slot[job]
    while slot != NOBODY:
        if s.reserved_for[slot // MAX_SHARE] == CLOSED:
            return True
        slot = s.next_slot[slot]
    return False


@compiled
def note_change(s, node, what):
    """Request recomputation on a node before time advances: of its loads (LOADS), or of all speeds too (SPEEDS)."""
    # A node is listed once; SPEEDS overrides LOADS.
    if s.varying and s.changed[node] < what:
        if s.changed[node] == UNCHANGED:
            s.changes[s.num_changes] = node
            s.num_changes += 1
        s.changed[node] = what


@compiled
def note_change_around(s, job):
    """Request recomputation of all speeds on the nodes of an active job."""
    if s.node_of[job] != NOBODY:
        note_change(s, s.node_of[job], SPEEDS)
    slot = s.first_slot[job]
    while slot != NOBODY:
        note_change(s, s.gpu_node[slot // MAX_SHARE], SPEEDS)
        slot = s.next_slot[slot]


@compiled
def note_occupancy_change(s, job, runs):
    """Request recomputation where a job acquires or releases resources or, with `runs`, starts or stops running.

    Only jobs on the same GPUs are affected directly. All others are affected through the load on host memory
    and links, and only if the job runs.
    """
    if not s.varying:
        return
    # Loads are sums over jobs in the order of the event heap, which changes over time. With several summands
    # the last digit may differ, so that the sum is recomputed in any case.
    runs |= s.num_on_cores > 1 or s.num_spanning > 2
    if runs and s.node_of[job] != NOBODY:
        note_change(s, s.node_of[job], LOADS)
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        if s.num_jobs_on[gpu] > 1:
            note_change(s, s.gpu_node[gpu], SPEEDS)
        elif runs:
            note_change(s, s.gpu_node[gpu], LOADS)
        slot = s.next_slot[slot]


@compiled
def take_cores(s, node, cores):
    """Take cores from a node, or return them if `cores` is negative."""
    s.free_cores[node] -= cores
    s.unreserved_cores[node] -= cores


@compiled
def available_cores(s, gpus):
    """Return the cores per GPU that the nodes of these GPUs could give a job: the minimum over nodes."""
    least = 1e9
    k = 0
    while k < len(gpus):
        node = s.gpu_node[gpus[k]]
        count = 0
        kept = 0
        for gpu in gpus:
            if s.gpu_node[gpu] == node:
                count += 1
                kept += s.num_jobs_on[gpu] == 0
        # The one core kept for each GPU without a job becomes available together with that GPU.
        least = min(least, (s.unreserved_cores[node] + kept) / count)
        while k < len(gpus) and s.gpu_node[gpus[k]] == node:
            k += 1
    return max(least, 0.0)


@compiled
def capped(cores, limit):
    """Return the requested cores, or the limit if it is smaller by more than rounding."""
    return cores if cores <= limit + ROUNDING else max(limit, 0.0)


@compiled
def take_slot(s, job, gpu):
    """Put a job into the first empty slot of a GPU; return the slot."""
    slot = MAX_SHARE * gpu
    while s.job_in[slot] != NOBODY:
        slot += 1
    s.job_in[slot] = job
    if s.num_jobs_on[gpu] == 0:
        s.first_owner[gpu] = job
        s.unreserved_cores[s.gpu_node[gpu]] += 1.0  # the core that was kept for this GPU
        count_free(s, gpu, -1)
    s.num_jobs_on[gpu] += 1
    s.num_shared += s.num_jobs_on[gpu] == 2
    return slot


@compiled
def hold(s, job, gpus, cores):
    """Let a job hold GPUs, with this number of cores per GPU, or fewer if they are not available."""
    wanted = gpus[: s.width[job]]
    s.core_count[job] = cores
    if s.varying:
        s.core_count[job] = capped(cores, available_cores(s, wanted))
    # Build the linked list of slots from the last GPU to the first, and count the nodes on the way (GPUs are
    # sorted).
    chain = NOBODY
    span = 0
    before = NOBODY
    for k in range(len(wanted) - 1, -1, -1):
        gpu = wanted[k]
        slot = take_slot(s, job, gpu)
        s.next_slot[slot] = chain
        chain = slot
        node = s.gpu_node[gpu]
        take_cores(s, node, s.core_count[job])
        span += node != before
        before = node
    s.first_slot[job] = chain
    s.tenant_gpus[s.tenant[job]] += len(wanted)
    s.span[job] = span
    s.num_spanning += span > 1
    s.counted[job] = s.clock
    s.num_starts += 1
    s.began[job] = s.num_starts


@compiled
def hold_cores(s, job, node, cores):
    """Let a job without GPUs hold cores of a node."""
    s.core_count[job] = capped(cores, s.unreserved_cores[node])
    s.node_of[job] = node
    s.span[job] = 1
    s.num_on_cores += 1
    s.counted[job] = s.clock
    s.num_starts += 1
    s.began[job] = s.num_starts
    take_cores(s, node, s.core_count[job])


@compiled
def count_cores(s, job):
    """Accumulate the core-seconds of an active job up to now."""
    s.core_s[job] += s.core_count[job] * max(s.width[job], 1) * (s.clock - s.counted[job])
    s.counted[job] = s.clock


@compiled
def oldest_job_on(s, gpu):
    """Return the job that has held a GPU longest, or NOBODY."""
    oldest = NOBODY
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        job = s.job_in[slot]
        if job != NOBODY and (oldest == NOBODY or s.began[job] < s.began[oldest]):
            oldest = job
    return oldest


@compiled
def release_slot(s, jobs, job, slot):
    """Release a slot with its memory and cores; return whether no job is left on the GPU."""
    gpu = slot // MAX_SHARE
    node = s.gpu_node[gpu]
    s.job_in[slot] = NOBODY
    s.num_jobs_on[gpu] -= 1
    s.num_shared -= s.num_jobs_on[gpu] == 1
    s.first_owner[gpu] = oldest_job_on(s, gpu)
    take_cores(s, node, -s.core_count[job])
    mark_node(s, node)
    if s.num_jobs_on[gpu] > 0:
        if s.charged[job] == CHARGED:
            s.free_memory[gpu] += jobs[job].gpu_memory_gib
        return False
    s.free_memory[gpu] = s.node_memory[node]
    # The GPU is empty: its full memory is available, and one core is kept for it again.
    s.unreserved_cores[node] -= 1.0
    return True


@compiled
def reset_core_rounding(s, node):
    """Reset the cores of an idle node to their exact number, removing rounding errors."""
    if s.free[node] == s.node_gpus[node] and abs(s.free_cores[node] - s.node_cores[node]) < ROUNDING:
        s.free_cores[node] = s.node_cores[node]
        s.unreserved_cores[node] = s.node_cores[node] - s.node_gpus[node]
