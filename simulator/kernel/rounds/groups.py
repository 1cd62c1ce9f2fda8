"""Groups of GPUs that a queued job may share: those with the same jobs on them, with memory and cores for one more.

A gang shares GPUs that all have the same members, so that one group of jobs slows it down and not the worst of many.
Memory is counted as profiled, or not at all.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, ROUNDING
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_begin
from gpu_cluster_gym.simulator.kernel.union.seats import is_oom_prone

NO, MEMORY, ALL = range(3)  # beside a group: too little memory, enough memory, enough memory and cores


@compiled
def members_of(s, gpu, members):
    """Write the jobs on a GPU, the last first; return whether another job may join them."""
    members[:] = NOBODY
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + s.max_share):
        job = s.job_in[slot]
        if job == NOBODY:
            continue
        if is_oom_prone(s, job):
            return False
        at = len(members) - 1
        while at > 0 and members[at - 1] < job:
            members[at] = members[at - 1]
            at -= 1
        members[at] = job
    return 0 < s.num_jobs_on[gpu] < s.max_share and s.reserved_for[gpu] == NOBODY


@compiled
def compare(one, other):
    """Return -1, 0 or 1 where the first members come before the others, are the same, or come after them."""
    for k in range(len(one)):
        if one[k] != other[k]:
            return -1 if one[k] < other[k] else 1
    return 0


@compiled
def find_group(members, count, wanted):
    """Return the first of some sorted groups whose members do not come before `wanted`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if compare(members[middle], wanted) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@entry
def open_groups(states, e, members, group_of):
    """Write the groups that another job may join, those of the earliest jobs first; return their number.

    members: (GPUs, `max_share`), jobs of each group, the last first. group_of: (GPUs,), group of each, NOBODY for none.
    """
    s = states[e]
    count = 0
    here = np.empty(members.shape[1], members.dtype)
    for gpu in range(s.num_gpus):
        group_of[gpu] = NOBODY
        if not members_of(s, gpu, here):
            continue
        at = find_group(members, count, here)
        if at == count or compare(members[at], here) != 0:
            for later in range(count, at, -1):
                members[later] = members[later - 1]
            members[at] = here
            count += 1
    for gpu in range(s.num_gpus):
        if members_of(s, gpu, here):
            group_of[gpu] = find_group(members, count, here)
    return count


@compiled
def memory_left(s, jobs, gpu):
    """Return the memory of a GPU less the profiled memory of the jobs on it, GiB."""
    taken = 0.0
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + s.max_share):
        if s.job_in[slot] != NOBODY:
            taken += jobs[s.job_in[slot]].profiled_memory_gib
    return s.node_memory[s.gpu_node[gpu]] - taken


@allocating
def left_on_each(s, jobs, knows_memory):
    """Return the memory left on each GPU, GiB; infinite where memory is not known."""
    left = np.full(s.num_gpus, np.inf)
    if knows_memory:
        for gpu in range(s.num_gpus):
            left[gpu] = memory_left(s, jobs, gpu)
    return left


@compiled
def most_by_cores(s, jobs, job, node):
    """Return the number of GPUs of a node that its unreserved cores allow a job to share."""
    if not s.cpu_limited:
        return s.num_gpus
    return int((s.unreserved_cores[node] + ROUNDING) // max(jobs[job].cores_each, 1.0))


@allocating
def shared_ones(s, group_of, num_groups):
    """Return the GPUs of groups, node by node, and the number of GPUs of the largest group."""
    gpus, sizes = np.empty(s.num_gpus, np.int64), np.zeros(num_groups, np.int64)
    count = largest = 0
    for node in range(s.num_nodes):
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            if group_of[gpu] != NOBODY:
                gpus[count] = gpu
                count += 1
                sizes[group_of[gpu]] += 1
                largest = max(largest, sizes[group_of[gpu]])
    return gpus[:count], largest


@compiled
def count_seats(s, jobs, job, left, group_of, gpus, seats):
    """Write the number of GPUs of each group with memory for a job, and of those with cores as well.

    gpus: of groups, node by node. seats: (3, groups), of which the last row is scratch.
    """
    by_memory, by_cores, here = seats[0], seats[1], seats[2]
    seats[:] = 0
    node = NOBODY
    able, most = False, 0
    for gpu in gpus:
        if s.gpu_node[gpu] != node:
            node = s.gpu_node[gpu]
            able, most = can_hold(s, jobs, job, node), most_by_cores(s, jobs, job, node)
            here[:] = 0
        if left[gpu] >= jobs[job].profiled_memory_gib:
            group = group_of[gpu]
            by_memory[group] += 1
            if able and here[group] < most:
                here[group] += 1
                by_cores[group] += 1


@entry
def may_join(states, e, jobs, order, knows_memory, group_of, found):
    """Write for each job and group whether the job may join it, NO, MEMORY or ALL; return the number of ALL.

    found: (jobs, groups).
    """
    s = states[e]
    left = left_on_each(s, jobs, knows_memory)
    gpus, largest = shared_ones(s, group_of, found.shape[1])
    seats = np.empty((3, found.shape[1]), np.int64)
    by_memory, by_cores = seats[0], seats[1]
    found[:] = NO
    count = 0
    for k in range(len(order)):
        job = order[k]
        if not 0 < jobs[job].num_gpus <= largest:
            continue
        if is_oom_prone(s, job) or s.last_action_instant[job] == s.instant or not may_begin(s, jobs, job):
            continue
        count_seats(s, jobs, job, left, group_of, gpus, seats)
        for group in range(found.shape[1]):
            if by_cores[group] >= jobs[job].num_gpus:
                found[k, group] = ALL
                count += 1
            elif by_memory[group] >= jobs[job].num_gpus:
                found[k, group] = MEMORY
    return count


@entry
def join(states, e, jobs, job, group, knows_memory, group_of):
    """Write GPUs of a group for a job, on as few nodes as possible, into `gpus` of the record; return their number."""
    s = states[e]
    left = left_on_each(s, jobs, knows_memory)
    seats, taken = np.zeros(s.num_nodes, np.int64), 0
    for gpu in range(s.num_gpus):
        node = s.gpu_node[gpu]
        fits = can_hold(s, jobs, job, node) and left[gpu] >= jobs[job].profiled_memory_gib
        if group_of[gpu] == group and fits and seats[node] < most_by_cores(s, jobs, job, node):
            seats[node] += 1
    while taken < jobs[job].num_gpus and seats.max() > 0:
        node = np.argmax(seats)
        gpu = s.node_first[node]
        while seats[node] > 0 and taken < jobs[job].num_gpus:
            if group_of[gpu] == group and left[gpu] >= jobs[job].profiled_memory_gib:
                s.gpus[taken] = gpu
                taken += 1
                seats[node] -= 1
            gpu += 1
        seats[node] = 0
    return taken
