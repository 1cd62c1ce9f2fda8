"""Which GPUs a job gets: the placement rules, over whatever GPUs a pass may allocate."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import BEST_FIT, FIRST_FIT, NOBODY, ROUNDING


@compiled
def can_hold(s, jobs, job, node):
    """Tell whether the GPUs of a node are large enough for the job."""
    return s.node_memory[node] >= jobs[job].gpu_memory_gib


@compiled
def has_cores(s, jobs, job, node, count, cores):
    """Tell whether a node has the cores that `count` of the job's GPUs ask for; `cores[node]` are unreserved.

    One core for each of the GPUs has been kept for it.
    """
    return not s.cpu_limited or cores[node] + count + ROUNDING >= jobs[job].cores_each * count


@compiled
def largest_node(s, jobs, job):
    """GPUs of the largest node that can hold the job; 0 where none can."""
    for level in range(s.num_levels):
        if s.level_memory[level] >= jobs[job].gpu_memory_gib:
            return s.level_largest[level]
    return 0


@compiled
def surely_no_room(s, jobs, job):
    """Tell, without a look at each node, that the free GPUs cannot hold the job."""
    wanted = jobs[job].num_gpus
    if wanted > s.num_free:
        return True
    largest = largest_node(s, jobs, job)
    if wanted > largest or s.num_nodes == 1:
        return False
    for level in range(s.num_levels):
        if s.level_memory[level] >= jobs[job].gpu_memory_gib:
            for free in range(wanted, largest + 1):
                if s.bucket[level, free] > 0:
                    return False
    return True


@compiled
def pick_node(s, jobs, job, room, cores, wanted):
    """Return the node on which the rule puts `wanted` GPUs, among those not taken, or NOBODY."""
    best = NOBODY
    for node in range(s.num_nodes):
        if room[node] < wanted or s.taken[node] or not can_hold(s, jobs, job, node):
            continue
        if not has_cores(s, jobs, job, node, wanted, cores):
            continue
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
    """Return the largest wholly available node of at most `missing` GPUs, lowest-numbered, or NOBODY."""
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
    """Note that the placement takes `count` GPUs of a node."""
    s.chosen_node[s.num_chosen] = node
    s.chosen_gpus[s.num_chosen] = count
    s.num_chosen += 1
    s.taken[node] = 1


@compiled
def choose_nodes(s, jobs, job, room, cores):
    """Find nodes for the whole gang, `room[node]` GPUs and `cores[node]` cores on each; tell whether it fits.

    A gang that some node could hold stays on one. A larger one takes idle nodes of the largest size that does
    not exceed what is missing, and the rule for the rest.
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
    """Find a node for a CPU job by the placement rule, `cores[node]` being unreserved; tell whether there is one."""
    best = NOBODY
    for node in range(s.num_nodes):
        if s.closed[node] or cores[node] + ROUNDING < jobs[job].cores_each:
            continue
        better = cores[node] < cores[best] if s.placement == BEST_FIT else cores[node] > cores[best]
        if best == NOBODY or (s.placement != FIRST_FIT and better):
            best = node
    s.chosen_node[0] = best
    s.num_chosen = 0
    return best != NOBODY


@compiled
def place(s, jobs, job):
    """Place a job by the placement rule; tell whether it fits.

    Its GPUs, all free, are then the first in `gpus`; the node of a CPU job is the first in `chosen_node`.
    """
    if jobs[job].num_gpus == 0:
        return choose_for_cpu_job(s, jobs, job, s.unreserved_cores)
    if surely_no_room(s, jobs, job) or not choose_nodes(s, jobs, job, s.free, s.unreserved_cores):
        return False
    free_gpus_of_choice(s, jobs, job)
    return True
