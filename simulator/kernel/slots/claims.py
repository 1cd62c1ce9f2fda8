"""Claims: reservations of GPUs that running jobs still hold, for a queued job that fits nowhere.

The job starts when the last of its GPUs is released, because its holder has ended or was paused. Without claims a wide
job starves: whatever is released goes to a narrow job before enough of it has come together.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.actions import start_as
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, PAUSING
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold, choose
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_begin
from gpu_cluster_gym.simulator.kernel.rankings.room import ends_in

UNKNOWN, NO, YES = range(3)  # whether the jobs of a request class may claim


@compiled
def is_claimable(s, gpu):
    """Return whether a GPU may be claimed: it is open, not reserved, and not shared."""
    return s.reserved_for[gpu] == NOBODY and s.num_jobs_on[gpu] <= 1


@compiled
def holds_up(s, gpu):
    """Return whether a job that does not pause holds a GPU that is reserved for another job."""
    holder = s.first_owner[gpu]
    return (
        s.reserved_for[gpu] >= 0
        and holder != NOBODY
        and holder != s.reserved_for[gpu]
        and s.phase[holder] != PAUSING
    )


@compiled
def pending_claim(s):
    """Return the job whose claim waits for a job that does not pause, or NOBODY."""
    for gpu in range(s.num_gpus):
        if holds_up(s, gpu):
            return s.reserved_for[gpu]
    return NOBODY


@compiled
def count_claimable(s, room):
    """Write the number of GPUs of each node that may be claimed."""
    for node in range(s.num_nodes):
        room[node] = 0
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            room[node] += is_claimable(s, gpu)


@compiled
def next_part(s, jobs, job, missing):
    """Return how many GPUs a gang that misses some takes on its next node: all, or those of the largest node left."""
    largest = 0
    for node in range(s.num_nodes):
        if not s.taken[node] and can_hold(s, jobs, job, node):
            largest = max(largest, s.node_gpus[node])
    return min(missing, largest)


@compiled
def forget_choice(s):
    """Mark the chosen nodes as not taken."""
    for k in range(s.num_chosen):
        s.taken[s.chosen_node[k]] = 0
    s.num_chosen = 0


@compiled
def is_enough(s, jobs, job, room):
    """Return whether the GPUs that may be claimed on each node, `room`, are enough for a job."""
    s.num_chosen = 0
    missing = jobs[job].num_gpus
    part = next_part(s, jobs, job, missing)
    while part > 0:
        node = 0
        while node < s.num_nodes and (s.taken[node] or room[node] < part or not can_hold(s, jobs, job, node)):
            node += 1
        if node == s.num_nodes:
            break
        choose(s, node, part)
        missing -= part
        part = next_part(s, jobs, job, missing)
    forget_choice(s)
    return missing == 0


@allocating
def list_claimants(s, jobs, listed, out):
    """Write 1 for each of the listed queued jobs, -1 for none, that may claim GPUs now, else 0.

    No job may while a claim is pending. No job of one GPU may: any GPU that is released is enough for it.
    """
    out[:] = 0
    if s.num_queued == 0 or pending_claim(s) != NOBODY:
        return
    room, known = np.empty(s.num_nodes, np.int64), np.zeros(s.num_classes, np.int8)
    count_claimable(s, room)
    for k in range(len(listed)):
        job = listed[k]
        if job == NOBODY or jobs[job].num_gpus < 2 or s.last_action_instant[job] == s.instant:
            continue
        request_class = jobs[job].request_class
        if known[request_class] == UNKNOWN:
            able = may_begin(s, jobs, job) and is_enough(s, jobs, job, room)
            known[request_class] = YES if able else NO
        out[k] = known[request_class] == YES


@allocating
def place_claim(s, jobs, job):
    """Write the GPUs that a job would claim into `gpus`, in ascending order; return whether there are enough.

    They are on the node where enough of them are expected to be released first, by the profiles and estimates that a
    view shows; of equals on the first. A gang takes node after node.
    """
    free_s = np.full(s.num_gpus, np.inf)
    for gpu in range(s.num_gpus):
        if is_claimable(s, gpu):
            holder = s.first_owner[gpu]
            free_s[gpu] = 0.0 if holder == NOBODY else ends_in(s, jobs, holder)
    s.num_chosen = 0
    missing, count = jobs[job].num_gpus, 0
    part = next_part(s, jobs, job, missing)
    while part > 0:
        best, earliest = NOBODY, np.inf
        for node in range(s.num_nodes):
            if s.taken[node] or s.node_gpus[node] < part or not can_hold(s, jobs, job, node):
                continue
            first = s.node_first[node]
            in_order = np.sort(free_s[first : first + s.node_gpus[node]])
            if in_order[part - 1] < earliest:
                best, earliest = node, in_order[part - 1]
        if best == NOBODY:
            break
        first = s.node_first[best]
        for _ in range(part):
            gpu = first + np.argmin(free_s[first : first + s.node_gpus[best]])
            free_s[gpu] = np.inf
            s.gpus[count] = gpu
            count += 1
        choose(s, best, part)
        missing -= part
        part = next_part(s, jobs, job, missing)
    forget_choice(s)
    s.gpus[:count].sort()
    return missing == 0 and count > 0


@compiled
def claim(s, jobs, job):
    """Reserve the GPUs that a queued job would claim; return whether there are enough."""
    if not may_begin(s, jobs, job) or not place_claim(s, jobs, job):
        return False
    count = jobs[job].num_gpus
    start_as(s, jobs, job, s.gpus[:count], count, jobs[job].servers, jobs[job].cores_each, NOBODY, True)
    return True


@compiled
def wait_of_claim(s, jobs, job):
    """Return the seconds until the last GPU that is reserved for a job is expected to be released."""
    wait_s = 0.0
    for gpu in range(s.num_gpus):
        if s.reserved_for[gpu] == job and s.first_owner[gpu] != NOBODY:
            wait_s = max(wait_s, ends_in(s, jobs, s.first_owner[gpu]))
    return wait_s


@entry
def claimants(states, e, jobs, listed, out):
    """Write 1 for each of the listed queued jobs that may claim GPUs now, else 0; return the job of a pending claim.

    listed: int64 (K,), -1 where empty. out: int8 (K,). The job is -1 if no claim is pending.
    """
    list_claimants(states[e], jobs, listed, out)
    return pending_claim(states[e])


@entry
def place(states, e, jobs, job):
    """Write the GPUs that a queued job would claim into the record's `gpus`; return whether there are enough."""
    return may_begin(states[e], jobs, job) and place_claim(states[e], jobs, job)
