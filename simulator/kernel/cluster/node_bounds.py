"""Bounds on the remaining time of the jobs of each node, so that a scheduling pass need not examine every running job.

A node's bounds are the latest time at which an estimate is used up, the earliest hypothetical start of a job
that never stopped, the minimum preemption overhead, and the maximum number of GPUs. `update_bounds` loosens them
whenever the speed or estimate of a running job changes. `recompute_bounds` recomputes them when an examination of the
node finds less than they promise.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    MAX_SHARE,
    NOBODY,
    REMAINING,
    RUNNING,
    TRUE_REMAINING,
    WEIGHTED,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import mark_node
from gpu_cluster_gym.simulator.kernel.cluster.queues import (
    MIN_REMAINING_S,
    MIN_REMAINING_SHARE,
    attained_now,
    estimate_now,
)

TIME_MARGIN_S = 1e-3  # s; exceeds the rounding error of any time in an episode


@compiled
def overhead_of(jobs, job):
    """Return the seconds of holding GPUs without progress that a preemption of the job costs."""
    return jobs[job].pause_s + jobs[job].load_s


@compiled
def include_in_bounds(s, jobs, job, node):
    """Extend the bounds of a node so that they hold for a running job."""
    attained = attained_now(s, job)
    whole = jobs[job].duration_s if s.exact else estimate_now(s, jobs, job)
    # At rate 1 attained time grows as fast as the clock, so that the time at which the estimate is used up is
    # constant.
    until = s.clock + (whole - attained) if s.rate[job] == 1.0 else np.inf
    s.estimates_end_at[node] = max(s.estimates_end_at[node], until)
    s.earliest_start[node] = min(s.earliest_start[node], s.clock - attained)
    s.min_overhead_s[node] = min(s.min_overhead_s[node], overhead_of(jobs, job))
    s.widest[node] = max(s.widest[node], s.width[job])


@compiled
def update_bounds(s, jobs, job):
    """Extend the bounds for a job whose speed or estimate has changed, and stamp its nodes."""
    slot = s.first_slot[job]
    last = NOBODY
    while slot != NOBODY:
        node = s.gpu_node[slot // MAX_SHARE]
        if node != last:
            include_in_bounds(s, jobs, job, node)
            mark_node(s, node)
            last = node
        slot = s.next_slot[slot]


@compiled
def recompute_bounds(s, jobs, node):
    """Recompute the bounds of a node."""
    s.estimates_end_at[node] = -np.inf
    s.earliest_start[node] = np.inf
    s.min_overhead_s[node] = np.inf
    s.widest[node] = 0
    last = NOBODY
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + s.max_share):
            job = s.job_in[slot]
            if job != last and job != NOBODY and s.phase[job] == RUNNING:
                include_in_bounds(s, jobs, job, node)
                last = job


@compiled
def max_remaining(s, node):
    """Return an upper bound on the estimated remaining time of any job running on a node, s."""
    left = s.estimates_end_at[node] - s.clock
    if not s.exact:
        # The estimate of a job that exceeds it grows with its attained time, which `earliest_start` bounds; see
        # `left_of`.
        left = max(left, MIN_REMAINING_SHARE * (s.clock - s.earliest_start[node]), MIN_REMAINING_S)
    return left + TIME_MARGIN_S


@compiled
def is_by_time(s):
    """Return whether the key of a running job is its remaining time, to which the bounds apply."""
    if s.key == WEIGHTED:
        return s.exponent == 0.0
    return s.key == REMAINING or (s.key == TRUE_REMAINING and s.exact)
