"""Which CPU jobs are to run slower so that the memory of a node keeps up: CODA's contention eliminator, inferred."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.decided import THROTTLE, propose
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.readings import drawn_read, read_bandwidth

LEVELS = 10  # of Intel's memory bandwidth allocation, in steps of 10 %; from memory, not checked against the manual
RELAXED = 0.95  # share of a node's bandwidth below which a CPU job is released


@compiled
def throttle_one(s, jobs, m):
    """Propose one step of throttling or of releasing a CPU job; tell whether there is one.

    Where more bandwidth is drawn than a node's memory gives, and jobs on its GPUs may suffer, the CPU job that draws
    most goes down a level. One goes up again where the node then stays below RELAXED of what it gives.
    """
    if not s.bandwidth_binds:
        return False
    read_bandwidth(s, jobs, m)
    down, up = NOBODY, NOBODY
    most, lowest = 0.0, 2.0
    for at in range(m.num_running):
        job = m.running[at]
        if jobs[job].num_gpus > 0:
            continue
        node, level, drawn = s.node_of[job], s.throttle[job], drawn_read(s, jobs, m, job)
        slow = m.drawn[node] > s.node_gbs and s.free[node] < s.node_gpus[node]
        if slow and drawn > most and level > 1.5 / LEVELS:
            most, down = drawn, job
        if level < min(lowest, 1.0) and m.drawn[node] + drawn / (level * LEVELS) <= RELAXED * s.node_gbs:
            lowest, up = level, job
    job = down if down != NOBODY else up
    if job == NOBODY:
        return False
    step = -1 if down != NOBODY else 1
    propose(m, THROTTLE, job, (np.round(s.throttle[job] * LEVELS) + step) / LEVELS)
    return True


@compiled
def any_throttled(s, m):
    """Tell whether one of the running jobs, which have been listed, is throttled."""
    for at in range(m.num_running):
        if s.throttle[m.running[at]] < 1:
            return True
    return False
