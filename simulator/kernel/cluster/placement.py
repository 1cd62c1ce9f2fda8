"""Placement rules: which of the available GPUs a job gets."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import BEST_FIT, FIRST_FIT, NOBODY, ROUNDING
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_begin


@compiled
def may_use(s, jobs, job, node):
    """Return whether the job's constraints allow a node."""
    return (jobs[job].barred >> s.node_group[node]) & 1 == 0


@compiled
def can_hold(s, jobs, job, node):
    """Return whether the job may use a node, and its GPUs have enough memory for the job."""
    return s.node_memory[node] >= jobs[job].gpu_memory_gib and may_use(s, jobs, job, node)


@compiled
def group_holds(s, jobs, job, group):
    """Return whether the nodes of a group can hold the job."""
    return s.group_memory[group] >= jobs[job].gpu_memory_gib and (jobs[job].barred >> group) & 1 == 0


@compiled
def holding_groups(s, jobs, job):
    """Return the groups of nodes that can hold the job as the bits of one number."""
    found = 0
    for group in range(s.num_groups):
        if group_holds(s, jobs, job, group):
            found |= 1 << group
    return found


@compiled
def has_cores(s, jobs, job, node, count, cores):
    """Return whether a node has the requested cores for `count` GPUs of the job; `cores[node]` are unreserved.

    One core per GPU without a job is kept, and comes in addition.
    """
    return not s.cpu_limited or cores[node] + count + ROUNDING >= jobs[job].cores_each * count


@compiled
def largest_node(s, jobs, job):
    """Return the number of GPUs of the largest node that can hold the job; 0 if there is none."""
    largest = 0
    for group in range(s.num_groups):
        if group_holds(s, jobs, job, group):
            largest = max(largest, s.group_largest[group])
    return largest


@compiled
def surely_no_room(s, jobs, job):
    """Return True if the free GPUs cannot hold the job, judged without examining each node."""
    wanted = jobs[job].num_gpus
    if wanted > s.num_free:
        return True
    largest = largest_node(s, jobs, job)
    # Gangs that span nodes need the full search.
    if wanted > largest or s.num_nodes == 1:
        return False
    for group in range(s.num_groups):
        if group_holds(s, jobs, job, group):
            for free in range(wanted, largest + 1):
                if s.bucket[group, free] > 0:
                    return False
    return True


@compiled
def pick_node(s, jobs, job, room, cores, wanted):
    """Return the node on which the rule places `wanted` GPUs, among those not taken, or NOBODY."""
    best = NOBODY
    for node in range(s.num_nodes):
        if room[node] < wanted or s.taken[node] or not can_hold(s, jobs, job, node):
            continue
        if not has_cores(s, jobs, job, node, wanted, cores):
            continue
        # An exact fit cannot be improved on, and the first node wins ties.
        if s.placement == FIRST_FIT or (s.placement == BEST_FIT and room[node] == wanted):
            return node
        if best == NOBODY:
            best = node
        elif s.placement == BEST_FIT:
            if room[node] < room[best]:
                best = node
        elif room[node] > room[best]:
            best = node
    return best


@compiled
def pick_idle_node(s, jobs, job, room, cores, missing):
    """Return the largest idle node of at most `missing` GPUs, the lowest index among equals, or NOBODY."""
    best = NOBODY
    for node in range(s.num_nodes):
        size = s.node_gpus[node]
        if size == 0 or room[node] < size or size > missing or s.taken[node]:
            continue
        if not can_hold(s, jobs, job, node) or not has_cores(s, jobs, job, node, size, cores):
            continue
        if best == NOBODY or size > s.node_gpus[best]:
            best = node
    return best


@compiled
def choose(s, node, count):
    """Record that the placement takes `count` GPUs of a node."""
    s.chosen_node[s.num_chosen] = node
    s.chosen_gpus[s.num_chosen] = count
    s.num_chosen += 1
    s.taken[node] = 1


@compiled
def choose_nodes(s, jobs, job, room, cores):
    """Choose nodes for the whole gang, given the available GPUs and cores of each node; return whether it fits.

    A gang that some node could hold stays on one node. A larger gang takes idle nodes of the largest size that
    does not exceed the missing number, and the rule places the rest.
    """
    s.num_chosen = 0
    missing = jobs[job].num_gpus
    if missing > largest_node(s, jobs, job):
        while missing > 0:
            node = pick_idle_node(s, jobs, job, room, cores, missing)
            if node == NOBODY:
                break
            choose(s, node, s.node_gpus[node])
            missing -= s.node_gpus[node]
    if missing > 0:
        node = pick_node(s, jobs, job, room, cores, missing)
        if node != NOBODY:
            choose(s, node, missing)
            missing = 0
    for k in range(s.num_chosen):
        s.taken[s.chosen_node[k]] = 0
    return missing == 0


@compiled
def free_gpus_of_choice(s, jobs, job):
    """Write the lowest free GPUs of the chosen nodes into `gpus`."""
    count = 0
    for k in range(s.num_chosen):
        gpu = s.node_first[s.chosen_node[k]]
        still = s.chosen_gpus[k]
        while still > 0:
            if s.first_owner[gpu] == NOBODY and s.reserved_for[gpu] == NOBODY:
                s.gpus[count] = gpu
                count += 1
                still -= 1
            gpu += 1


@compiled
def choose_for_cpu_job(s, jobs, job, cores):
    """Choose a node for a CPU job by the placement rule, by unreserved cores `cores[node]`; return whether it fits."""
    best = NOBODY
    for node in range(s.num_nodes):
        if s.closed[node] or cores[node] + ROUNDING < jobs[job].cores_each or not may_use(s, jobs, job, node):
            continue
        better = cores[node] < cores[best] if s.placement == BEST_FIT else cores[node] > cores[best]
        if best == NOBODY or (s.placement != FIRST_FIT and better):
            best = node
    s.chosen_node[0] = best
    s.num_chosen = 0
    return best != NOBODY


@compiled
def place(s, jobs, job):
    """Place a job by the placement rule; return whether it fits, and its tenant's quota lets it start.

    The first elements of `gpus` are then its GPUs, all free; for a CPU job `chosen_node[0]` is its node.
    """
    if not may_begin(s, jobs, job):
        return False
    if jobs[job].num_gpus == 0:
        return choose_for_cpu_job(s, jobs, job, s.unreserved_cores)
    if surely_no_room(s, jobs, job) or not choose_nodes(s, jobs, job, s.free, s.unreserved_cores):
        return False
    free_gpus_of_choice(s, jobs, job)
    return True
