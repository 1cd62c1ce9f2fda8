"""Clear GPUs of a node: mark the jobs on it that would have to be paused."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.queues import remaining_now

LEAST_RUN = 60.0  # s a job has run before it may be displaced, against thrashing


@compiled
def may_displace(s, jobs, victim, effort):
    """Tell whether a running job may be a victim of one that needs `effort` seconds."""
    return (
        may_pause(s, victim)
        and s.width[victim] > 0
        and is_alone(s, victim)
        and s.clock - s.phase_began[victim] >= LEAST_RUN
        and remaining_now(s, jobs, victim) > effort
    )


@compiled
def note_who_may_be_displaced(s, jobs, node, effort):
    """Write down what remains of the jobs on a node that may be victims of one that needs `effort` seconds.

    Return the most that remains of any, 0 where there is none, and how many GPUs they could leave to it.
    """
    most = 0.0
    gpus = 0
    last = NOBODY
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        job = s.first_owner[gpu]
        if job != NOBODY and job != last:
            s.left[job] = remaining_now(s, jobs, job) if may_displace(s, jobs, job, effort) else -1.0
            most = max(most, s.left[job])
            last = job
        gpus += job != NOBODY and s.left[job] > 0 and s.reserved_for[gpu] == NOBODY
    return most, gpus


@compiled
def free_on(s, node):
    """Count the GPUs of a node that are free or already to be freed by marked victims."""
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        holder = s.first_owner[gpu]
        if s.reserved_for[gpu] == NOBODY and (holder == NOBODY or s.marked[holder]):
            count += 1
    return count


@compiled
def gpus_on(s, job, node):
    """Count the GPUs that a job holds on a node and that are not reserved for another."""
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        if s.first_owner[gpu] == job and s.reserved_for[gpu] == NOBODY:
            count += 1
    return count


@compiled
def longest_on(s, node):
    """Return the unmarked job on a node with most time remaining that may be displaced, or NOBODY."""
    best = NOBODY
    most = 0.0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        job = s.first_owner[gpu]
        if job == NOBODY or s.marked[job] or s.reserved_for[gpu] != NOBODY:
            continue
        left = s.left[job]
        if left > most or (left == most and job < best):
            best = job
            most = left
    return best


@compiled
def clear(s, node, wanted, first):
    """Mark victims on a node until `wanted` GPUs are to be had, longest remaining first, none in vain.

    They are listed in `victims[first:]`; returns the end of the list, or -1 (and marks nothing) if that fails.
    """
    end = first
    have = free_on(s, node)
    while have < wanted:
        victim = longest_on(s, node)
        if victim == NOBODY:
            unmark(s, first, end)
            return -1
        s.marked[victim] = 1
        s.victims[end] = victim
        end += 1
        have += gpus_on(s, victim, node)
    k = first
    while k < end:
        spare = gpus_on(s, s.victims[k], node)
        if have - spare >= wanted:
            have -= spare
            s.marked[s.victims[k]] = 0
            for later in range(k, end - 1):
                s.victims[later] = s.victims[later + 1]
            end -= 1
        else:
            k += 1
    return end


@compiled
def unmark(s, first, end):
    """Forget the victims listed in `victims[first:end]`."""
    for k in range(first, end):
        s.marked[s.victims[k]] = 0


@compiled
def list_gpus(s, node, count, given):
    """List the lowest `count` GPUs of a node that are free or held by marked victims in `gpus[given:]`."""
    gpu = s.node_first[node]
    end = given + count
    while given < end:
        holder = s.first_owner[gpu]
        if s.reserved_for[gpu] == NOBODY and (holder == NOBODY or s.marked[holder]):
            s.gpus[given] = gpu
            given += 1
        gpu += 1
    return end
