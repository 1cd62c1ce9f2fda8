"""How long the jobs of a node may still take at most, so that a pass need not look at each running job.

Bounds of a node: when the estimates of its running jobs are used up, when the first of them began if it had never
stopped, what pausing one costs at least, and how many GPUs the widest has. `note_pace` loosens them whenever the pace
or the estimate of a running job changes; they are found anew (`tighten`) where a look at the node finds less than they
promise.
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

HAIR = 1e-3  # s; more than rounding makes of any time of an episode


@compiled
def overhead_of(jobs, job):
    """Seconds of GPUs held without progress that a preemption of the job costs."""
    return jobs[job].pause_s + jobs[job].load_s


@compiled
def widen(s, jobs, job, node):
    """Let the bounds of a node hold for a running job too."""
    attained = attained_now(s, job)
    whole = jobs[job].duration_s if s.exact else estimate_now(s, jobs, job)
    until = s.clock + (whole - attained) if s.rate[job] == 1.0 else np.inf
    s.used_up_at[node] = max(s.used_up_at[node], until)
    s.runs_since[node] = min(s.runs_since[node], s.clock - attained)
    s.least_overhead[node] = min(s.least_overhead[node], overhead_of(jobs, job))
    s.widest[node] = max(s.widest[node], s.width[job])


@compiled
def note_pace(s, jobs, job):
    """Let the bounds hold for a job whose pace or estimate is new."""
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
    """Find the bounds of a node anew."""
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
    """Seconds of run time that any job running on a node has left at most, as every policy estimates it."""
    left = s.used_up_at[node] - s.clock
    if not s.exact:
        left = max(left, LEAST_SHARE * (s.clock - s.runs_since[node]), LEAST_SECONDS)
    return left + HAIR


@compiled
def is_by_time(s):
    """Tell whether the key of a running job is its remaining time, which the bounds are of."""
    if s.key == WEIGHTED:
        return s.exponent == 0.0
    return s.key == REMAINING or (s.key == TRUE_REMAINING and s.exact)
