"""Heads of the queue for which a pass has found no room, and would find none again.

Under a ranking by remaining time a queued job's key is constant, and those of running jobs fall. So a job that found
too few GPUs on every node, counting all that are not held by a job that comes before it, waits until a node changes: a
job releases GPUs there, begins to pause, or has another pace. Nodes are stamped when that happens (`mark_node`), and
only those with a new stamp are looked at again. Estimates that have been exceeded rise with what was attained, so that
a finding about them holds for `LOOK_AHEAD` only.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.bounds import HAIR, is_by_time
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, RUNNING, STRICT
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold, largest_node
from gpu_cluster_gym.simulator.kernel.cluster.queues import LEAST_SHARE, attained_now, remaining_now
from gpu_cluster_gym.simulator.kernel.cluster.record import MOST_BLOCKED

LOOK_AHEAD = 300.0  # s


@compiled
def is_remembered(s, jobs, job):
    """Tell whether what is found about a queued job may be remembered: it wants GPUs, and cores do not count."""
    return (
        is_by_time(s)
        and not s.cpu_limited
        and s.discipline != STRICT
        and jobs[job].request_class < MOST_BLOCKED
        and jobs[job].num_gpus > 0
    )


@compiled
def comes_before(s, jobs, job, key):
    """Tell whether a running job surely comes before one with this key, now and for the time to look ahead."""
    left = remaining_now(s, jobs, job)
    if not s.exact:
        left = max(left, LEAST_SHARE * (attained_now(s, job) + s.rate[job] * LOOK_AHEAD))
    return left + HAIR < key


@compiled
def room_on(s, jobs, job, node):
    """Count the GPUs of a node that a queued job may get at most: all but those of jobs that come before it."""
    count = 0
    if not can_hold(s, jobs, job, node):
        return count
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        holder = s.first_owner[gpu]
        if holder == NOBODY or s.phase[holder] != RUNNING or not comes_before(s, jobs, holder, s.order[job]):
            count += 1
    return count


@compiled
def node_may_have_room(s, jobs, job, since):
    """Tell whether a node that has changed since a stamp may have room for a gang that fits one node."""
    wanted = jobs[job].num_gpus
    for node in range(s.num_nodes):
        if (
            s.node_stamp[node] > since
            and s.node_gpus[node] >= wanted
            and room_on(s, jobs, job, node) >= wanted
        ):
            return True
    return False


@compiled
def nodes_may_have_room(s, jobs, job):
    """Tell whether there may be room for a gang that takes whole nodes, and a part of one more."""
    whole = 0
    part = 0
    for node in range(s.num_nodes):
        count = room_on(s, jobs, job, node)
        if count == s.node_gpus[node]:
            whole += count
        else:
            part = max(part, count)
    return whole + part >= jobs[job].num_gpus


@compiled
def is_blocked(s, jobs, job):
    """Tell whether the first queued job of its class surely gets no GPUs in this pass; remember it if so."""
    if not is_remembered(s, jobs, job):
        return False
    at = jobs[job].request_class
    known = s.blocked_job[at] == job and s.blocked_key[at] == s.order[job] and s.clock <= s.blocked_until[at]
    since = s.blocked_stamp[at] if known else -1
    if since == s.stamp:
        return True
    if jobs[job].num_gpus <= largest_node(s, jobs, job):
        may = node_may_have_room(s, jobs, job, since)
    else:
        may = nodes_may_have_room(s, jobs, job)
    if may:
        s.blocked_job[at] = NOBODY
        return False
    if not known:
        s.blocked_job[at] = job
        s.blocked_key[at] = s.order[job]
        s.blocked_until[at] = np.inf if s.exact else s.clock + LOOK_AHEAD
    s.blocked_stamp[at] = s.stamp
    return True
