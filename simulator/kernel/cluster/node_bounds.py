"""Bounds on the remaining time of the jobs of each node, so that a scheduling pass need not examine every running job.

A node's bounds are the latest time at which an estimate is used up, the earliest hypothetical start of a job
that never stopped, the minimum preemption overhead, and the maximum number of GPUs. `note_pace` loosens them
whenever the speed or estimate of a running job changes. `tighten` recomputes them when an examination of the
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
    LEAST_SECONDS,
    LEAST_SHARE,
    attained_now,
    estimate_now,
)

HAIR = 1e-3  # s; exceeds the rounding error of any time in an episode


@compiled
def overhead_of(jobs, job):
    """Return the seconds of holding GPUs without progress that a preemption of the job costs."""
    return jobs[job].pause_s + jobs[job].load_s


@compiled
def widen(s, jobs, job, node):
    """Extend the bounds of a node so that they hold for a running job."""
    attained = attained_now(s, job)
    whole = jobs[job].duration_s if s.exact else estimate_now(s, jobs, job)
    # At rate 1 attained time grows as fast as the clock, so that the time at which the estimate is used up is
    # constant.
    until = s.clock + (whole - attained) if s.rate[job] == 1.0 else np.inf
    s.used_up_at[node] = max(s.used_up_at[node], until)
    s.runs_since[node] = min(s.runs_since[node], s.clock - attained)
    s.least_overhead[node] = min(s.least_overhead[node], overhead_of(jobs, job))
    s.widest[node] = max(s.widest[node], s.width[job])


@compiled
def note_pace(s, jobs, job):
    """Extend the bounds for a job whose speed or estimate has changed, and stamp its nodes."""
    slot = s.first_slot[job]
    last = NOBODY
    while slot != NOBODY:
        node = s.gpu_node[slot // MAX_SHARE]
        if node != last:
            widen(s, jobs, job, node)
            mark_node(s, node)
            last = node
        slot = s.next_slot[slot]


@compiled
def tighten(s, jobs, node):
    """Recompute the bounds of a node."""
    s.used_up_at[node] = -np.inf
    s.runs_since[node] = np.inf
    s.least_overhead[node] = np.inf
    s.widest[node] = 0
    last = NOBODY
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + s.max_share):
            job = s.job_in[slot]
            if job != last and job != NOBODY and s.phase[job] == RUNNING:
                widen(s, jobs, job, node)
                last = job


@compiled
def most_left(s, node):
    """Return an upper bound on the estimated remaining time of any job running on a node, s."""
    left = s.used_up_at[node] - s.clock
    if not s.exact:
        # The estimate of a job that exceeds it grows with its attained time, which `runs_since` bounds; see
        # `left_of`.
        left = max(left, LEAST_SHARE * (s.clock - s.runs_since[node]), LEAST_SECONDS)
    return left + HAIR


@compiled
def is_by_time(s):
    """Return whether the key of a running job is its remaining time, to which the bounds apply."""
    if s.key == WEIGHTED:
        return s.exponent == 0.0
    return s.key == REMAINING or (s.key == TRUE_REMAINING and s.exact)
