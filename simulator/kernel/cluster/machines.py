"""What jobs hold: GPUs and their slots, memory, and CPU cores."""

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
    """Tell whether a GPU is neither held nor reserved."""
    return s.first_owner[gpu] == NOBODY and s.reserved_for[gpu] == NOBODY


@compiled
def mark_node(s, node):
    """Note a change of a node that may make room for a queued job."""
    s.stamp += 1
    s.node_stamp[node] = s.stamp


@compiled
def count_free(s, gpu, change):
    """Count a GPU in (1) or out of (-1) the free ones of its node."""
    node = s.gpu_node[gpu]
    level = s.node_level[node]
    s.bucket[level, s.free[node]] -= 1
    s.free[node] += change
    s.bucket[level, s.free[node]] += 1
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
    """Tell whether a job has all its GPUs for itself."""
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
    """Tell whether an active job holds something of a node."""
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
    """Tell whether one of a job's GPUs is on a node that is closed."""
    slot = s.first_slot[job]
    while slot != NOBODY:
        if s.reserved_for[slot // MAX_SHARE] == CLOSED:
            return True
        slot = s.next_slot[slot]
    return False


@compiled
def note_change(s, node, what):
    """Note what must be found again on a node before time goes on: LOADS, or SPEEDS too."""
    if s.varying and s.changed[node] < what:
        if s.changed[node] == UNCHANGED:
            s.changes[s.num_changes] = node
            s.num_changes += 1
        s.changed[node] = what


@compiled
def note_change_around(s, job):
    """Note that speeds on the nodes of an active job must be found again."""
    if s.node_of[job] != NOBODY:
        note_change(s, s.node_of[job], SPEEDS)
    slot = s.first_slot[job]
    while slot != NOBODY:
        note_change(s, s.gpu_node[slot // MAX_SHARE], SPEEDS)
        slot = s.next_slot[slot]


@compiled
def note_coming_or_going(s, job, runs):
    """Note that an active job takes or leaves its GPUs or cores, or, with `runs`, begins or ceases to run on them.

    Only jobs on the same GPUs feel it by itself; others feel the load on memory and links, if it runs. Where several
    add to a load that are counted in the order of events, which time changes, it is found again in any case: its last
    digit may be another.
    """
    if not s.varying:
        return
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
    """Take cores of a node, or give them back where `cores` is negative."""
    s.free_cores[node] -= cores
    s.unreserved_cores[node] -= cores


@compiled
def available_cores(s, gpus):
    """Cores for each of these GPUs that their nodes could give a job, the least of all nodes.

    What is kept for GPUs without a job goes with them.
    """
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
        least = min(least, (s.unreserved_cores[node] + kept) / count)
        while k < len(gpus) and s.gpu_node[gpus[k]] == node:
            k += 1
    return max(least, 0.0)


@compiled
def at_most(cores, limit):
    """Return so many cores, or the limit if that is less by more than rounding."""
    return cores if cores <= limit + ROUNDING else max(limit, 0.0)


@compiled
def take_slot(s, job, gpu):
    """Let a job sit down on a GPU; return the slot."""
    slot = MAX_SHARE * gpu
    while s.job_in[slot] != NOBODY:
        slot += 1
    s.job_in[slot] = job
    if s.num_jobs_on[gpu] == 0:
        s.first_owner[gpu] = job
        s.unreserved_cores[s.gpu_node[gpu]] += 1.0  # the core that was kept for it
        count_free(s, gpu, -1)
    s.num_jobs_on[gpu] += 1
    s.num_shared += s.num_jobs_on[gpu] == 2
    return slot


@compiled
def hold(s, job, gpus, cores):
    """Let a job hold GPUs, with so many cores for each, or as many as there are."""
    wanted = gpus[: s.width[job]]
    s.core_count[job] = cores
    if s.varying:
        s.core_count[job] = at_most(cores, available_cores(s, wanted))
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
    s.span[job] = span
    s.num_spanning += span > 1
    s.counted[job] = s.clock
    s.num_begun += 1
    s.began[job] = s.num_begun


@compiled
def hold_cores(s, job, node, cores):
    """Let a job without GPUs hold cores of a node."""
    s.core_count[job] = at_most(cores, s.unreserved_cores[node])
    s.node_of[job] = node
    s.span[job] = 1
    s.num_on_cores += 1
    s.counted[job] = s.clock
    s.num_begun += 1
    s.began[job] = s.num_begun
    take_cores(s, node, s.core_count[job])


@compiled
def count_cores(s, job):
    """Bank the core-seconds of an active job."""
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
def leave_slot(s, jobs, job, slot):
    """Take a slot and its memory back; tell whether no job is left on the GPU."""
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
    s.unreserved_cores[node] -= 1.0
    return True


@compiled
def tidy_cores(s, node):
    """Forget what rounding has left on a node that is empty."""
    if s.free[node] == s.node_gpus[node] and abs(s.free_cores[node] - s.node_cores[node]) < ROUNDING:
        s.free_cores[node] = s.node_cores[node]
        s.unreserved_cores[node] = s.node_cores[node] - s.node_gpus[node]
