"""What is seen in the slots: the first queued jobs and how they can be picked, the longest running ones."""

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import queues
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.queues import first_open, open_all
from gpu_cluster_gym.simulator.kernel.slots.describing import describe, describe_running, describe_way
from gpu_cluster_gym.simulator.kernel.slots.displacing import (
    CANNOT,
    note_least_effort,
    rule_would,
    ways_to_pick,
)
from gpu_cluster_gym.simulator.kernel.slots.features import (
    HIGHEST,
    LOWEST,
    MAY_PAUSE,
    NUM_FEATURES,
    NUM_RUNNING,
)
from gpu_cluster_gym.simulator.kernel.slots.sight import forget_all, sort_ends
from gpu_cluster_gym.simulator.kernel.slots.standing import know_all


@compiled
def insert(s, listed, count, most, job):
    """Insert a job by its key into a sorted list of at most `most`; return the new length."""
    k = count
    while k > 0 and queues.before(s.order, job, listed[k - 1]):
        if k < most:
            listed[k] = listed[k - 1]
        k -= 1
    if k == most:
        return count
    listed[k] = job
    return min(count + 1, most)


@compiled
def first_in_order(s, jobs, sight, out):
    """List the first queued jobs in the order of the active ranking, and know all; return how many are listed.

    Those that the list holds from the last look are taken first: they are nearly those of now.
    """
    know_all(s, jobs, sight)
    most = len(out)
    count = 0
    area = 0.0
    sight.looks += 1
    for k in range(most):
        job = out[k]
        if job != NOBODY and s.phase[job] == QUEUED and sight.seen[job] != sight.looks:
            sight.seen[job] = sight.looks
            count = insert(s, out, count, most, job)
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            job = s.queue[at]
            area += sight.area[job]
            comes_later = 0 < most == count and s.order[job] > s.order[out[most - 1]]
            if not comes_later and sight.seen[job] != sight.looks:
                count = insert(s, out, count, most, job)
    sight.queued_area = area
    out[count:] = NOBODY
    return count


@compiled
def most_remaining(s, sight, out):
    """List the running jobs with most time remaining, longest first, equal ones by job; return how many are listed.

    `sort_ends` has been called.
    """
    count = 0
    end = sight.num_ends
    while end > 0 and count < len(out):
        first = end - 1
        while first > 0 and sight.left[first - 1] == sight.left[end - 1]:
            first -= 1
        for k in range(first, end):
            if s.phase[sight.ends[k]] == RUNNING and count < len(out):
                out[count] = sight.ends[k]
                count += 1
        end = first
    return count


@compiled
def show(s, listed, count, job):
    """Put a job into the last slot, unless it is listed or there is none; tell whether it was put there."""
    if job == NOBODY or count < len(listed):
        return False
    for k in range(count):
        if listed[k] == job:
            return False
    listed[count - 1] = job
    return True


@compiled
def try_slots(s, jobs, sight, listed, count, features, mask):
    """Find how each slot's job can be picked; return the rule's own choice if that is among them, else NOBODY."""
    own = NOBODY
    for k in range(count):
        job = listed[k]
        way = ways_to_pick(s, jobs, sight, job)
        mask[k] = way != CANNOT
        describe_way(s, jobs, sight, job, way, features, k)
        if own == NOBODY and not s.exhausted[jobs[job].request_class]:
            if rule_would(s, jobs, sight.effort[job], way):
                own = job
            else:
                s.exhausted[jobs[job].request_class] = 1
    return own


@compiled
def choice_beyond(s, jobs, sight):
    """Return the rule's own choice among the request classes of which no job has been tried, or NOBODY."""
    job = first_open(s)
    while job != NOBODY:
        if rule_would(s, jobs, sight.effort[job], ways_to_pick(s, jobs, sight, job)):
            return job
        s.exhausted[jobs[job].request_class] = 1
        job = first_open(s)
    return NOBODY


@compiled
def look(s, jobs, sight, listed, features, mask):
    """List the first queued jobs in order, with how they can be picked; return their number and the own choice.

    `forget` has been called. listed: jobs of the last look, or any others, or NOBODY.
    """
    features[:] = 0.0
    mask[:] = 0
    open_all(s)
    count = first_in_order(s, jobs, sight, listed)
    sort_ends(s, jobs, sight)
    if not sight.are_listed:
        note_least_effort(s, sight, listed, count)
    own = try_slots(s, jobs, sight, listed, count, features, mask)
    if own == NOBODY and s.num_queued > count:
        own = choice_beyond(s, jobs, sight)
        if show(s, listed, count, own):
            way = ways_to_pick(s, jobs, sight, own)
            features[count - 1, :] = 0.0
            mask[count - 1] = 1
            describe_way(s, jobs, sight, own, way, features, count - 1)
    return count, own


@entry
def observe_queue(states, e, jobs, sights, listed, seen, mask):
    """Describe the first queued jobs in order; `mask[k]` tells which could be picked, the last is left alone.

    The rule's own choice is always among them: in the last slot, if it comes later in the order. Features are within
    [LOWEST, HIGHEST].

    listed: int64 (K,), the jobs, -1 beyond the queue. seen: float32, see `describe`. mask: int8 (K + 1,). Returns
    how many slots are used.
    """
    s = states[e]
    sight = sights[0]
    slots = len(listed)
    features = seen[: slots * NUM_FEATURES].reshape(slots, NUM_FEATURES)
    forget_all(s, sight)
    count, own = look(s, jobs, sight, listed, features, mask)
    describe(s, jobs, sight, count, own, listed, seen)
    return count


@compiled
def share_machines(s, out):
    """Write what is free: the share of each GPU's memory, then that of each node's cores."""
    for gpu in range(s.num_gpus):
        share = s.free_memory[gpu] / s.node_memory[s.gpu_node[gpu]]
        out[gpu] = min(max(share, 0.0), 1.0)
    for node in range(s.num_nodes):
        share = s.free_cores[node] / max(s.node_cores[node], 1.0)
        out[s.num_gpus + node] = min(max(share, 0.0), 1.0)


@compiled
def show_running(s, jobs, sight, listed, seen):
    """Describe the running jobs with most time remaining, and the machines; `look` has been called."""
    size = len(listed) * NUM_RUNNING
    features = seen[:size].reshape(len(listed), NUM_RUNNING)
    listed[:] = NOBODY
    features[:] = 0.0
    for k in range(most_remaining(s, sight, listed)):
        describe_running(s, jobs, sight, listed[k], features[k])
    for k in range(size):
        seen[k] = min(max(seen[k], LOWEST), HIGHEST)
    share_machines(s, seen[size:])


@entry
def observe_running(states, e, jobs, sights, listed, seen, mask):
    """Describe the running jobs with most time remaining, and the machines; `mask[k]` tells which may be paused.

    `observe_queue` has been called, with these sights.

    listed: int64 (R,), -1 beyond. seen: float32, R times RUNNING_FEATURES, within [LOWEST, HIGHEST], then the free
    share of the memory of each GPU and of the cores of each node. mask: int8 (R,).
    """
    show_running(states[e], jobs, sights[0], listed, seen)
    for k in range(len(listed)):
        mask[k] = seen[k * NUM_RUNNING + MAY_PAUSE] > 0
