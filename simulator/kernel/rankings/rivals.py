"""Rivals of the queue: the running jobs that a pass of a preemptive ranking may displace."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import heaps
from gpu_cluster_gym.simulator.kernel.cluster.bounds import is_by_time, most_left, tighten
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone, is_on_closed
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.queues import order_of


@compiled
def is_rival(s, jobs, head, job):
    """Tell whether an active job comes after `head` and may be paused for it; its key is written down."""
    if not may_pause(s, job) or s.width[job] == 0 or not is_alone(s, job):
        return False
    if s.failing and is_on_closed(s, job):
        return False
    s.order[job] = order_of(s, jobs, job)
    return heaps.before(s.order, head, job)


@compiled
def gather_on(s, jobs, head, node, count):
    """Add the rivals whose first GPU is on a node to the candidates; return their number."""
    before = count
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        job = s.first_owner[gpu]
        if job != NOBODY and s.first_slot[job] // MAX_SHARE == gpu and is_rival(s, jobs, head, job):
            s.candidates[count] = job
            count += 1
    if count == before:
        tighten(s, jobs, node)
    return count


@compiled
def gather_rivals(s, jobs, head):
    """Collect the running jobs that come after `head`, the first in the queue; return their number.

    Those before it keep their GPUs whatever happens, as does a loading job, one beside another, one on a node that is
    closed, one without GPUs, and one that was started at this very instant.
    """
    count = 0
    if is_by_time(s) and not s.pooled:
        for node in range(s.num_nodes):
            if most_left(s, node) >= s.order[head]:
                count = gather_on(s, jobs, head, node, count)
        return count
    for k in range(s.num_active):
        if is_rival(s, jobs, head, s.events[k]):
            s.candidates[count] = s.events[k]
            count += 1
    return count
