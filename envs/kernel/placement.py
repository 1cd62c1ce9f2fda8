"""Which GPUs a job gets: the placement rules, over whatever GPUs a walk may hand out."""

from envs.kernel._compile import compiled
from envs.kernel.layout import BEST_FIT, FIRST_FIT, NOBODY


@compiled
def can_hold(s, jobs, job, node):
    """Tell whether the GPUs of a node are large enough for the job."""
    return s.node_memory[node] >= jobs[job].memory


@compiled
def largest_node(s, jobs, job):
    """GPUs of the largest node that can hold the job; 0 where none can."""
    for level in range(s.num_levels):
        if s.level_memory[level] >= jobs[job].memory:
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
        if s.level_memory[level] >= jobs[job].memory:
            for free in range(wanted, largest + 1):
                if s.bucket[level, free] > 0:
                    return False
    return True


@compiled
def pick_node(s, jobs, job, room, wanted):
    """Return the node on which the rule puts `wanted` GPUs, among those not taken, or NOBODY."""
    best = NOBODY
    for node in range(s.num_nodes):
        if room[node] < wanted or s.taken[node] or not can_hold(s, jobs, job, node):
            continue
        if s.placement == FIRST_FIT:
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
def pick_idle_node(s, jobs, job, room, missing):
    """Return the largest wholly available node of at most `missing` GPUs, lowest-numbered, or NOBODY."""
    best = NOBODY
    for node in range(s.num_nodes):
        size = s.node_gpus[node]
        if size == 0 or room[node] < size or size > missing or s.taken[node]:
            continue
        if (best == NOBODY or size > s.node_gpus[best]) and can_hold(s, jobs, job, node):
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
def choose_nodes(s, jobs, job, room):
    """Find nodes for the whole gang, `room[node]` GPUs to be had on each; tell whether it fits.

    A gang that some node could hold stays on one. A larger one takes idle nodes of the largest size that does
    not exceed what is missing, and the rule for the rest.
    """
    s.num_chosen = 0
    missing = jobs[job].num_gpus
    if missing > largest_node(s, jobs, job):
        while missing > 0:
            node = pick_idle_node(s, jobs, job, room, missing)
            if node == NOBODY:
                break
            choose(s, node, s.node_gpus[node])
            missing -= s.node_gpus[node]
    if missing > 0:
        node = pick_node(s, jobs, job, room, missing)
        if node != NOBODY:
            choose(s, node, missing)
            missing = 0
    for k in range(s.num_chosen):
        s.taken[s.chosen_node[k]] = 0
    return missing == 0


@compiled
def free_gpus_of_choice(s, jobs, job):
    """Write the lowest free GPUs of the chosen nodes into `gpus`; return their number."""
    count = 0
    for k in range(s.num_chosen):
        gpu = s.node_first[s.chosen_node[k]]
        still = s.chosen_gpus[k]
        while still > 0:
            if s.holder[gpu] == NOBODY and s.heir[gpu] == NOBODY:
                s.gpus[count] = gpu
                count += 1
                still -= 1
            gpu += 1
    return count


@compiled
def place(s, jobs, job):
    """Place a job on free GPUs by the rule in force; return how many GPUs `gpus` now names, or 0."""
    if surely_no_room(s, jobs, job) or not choose_nodes(s, jobs, job, s.free):
        return 0
    return free_gpus_of_choice(s, jobs, job)
