"""CPU jobs throttled so that the memory of a node keeps up, as CODA does, in plain Python."""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Throttle

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVELS = 10  # of Intel's memory bandwidth allocation, in steps of 10 %; from memory, not checked against the manual


def throttling(view: "View", share: float = 1.0, relaxed: float = 0.95) -> Throttle | None:
    """Return one step of throttling or of releasing a CPU job, None if there is nothing to do.

    Where more than a share of the bandwidth of a node's memory is drawn, and jobs on its GPUs may suffer, the CPU job
    that draws most goes down a level. A job goes up a level where the node then stays below `relaxed` times that.
    """
    limit = share * view.bandwidth_limit_gbs
    if np.isinf(limit):
        return None
    on_cpu = view.running[view.jobs.is_cpu_job[view.running]]
    node, level, drawn = view.jobs.node[on_cpu], view.jobs.throttle[on_cpu], view.jobs.drawn_gbs[on_cpu]
    total = view.nodes.drawn_gbs
    slow = (total > limit) & (view.nodes.free_gpus < view.nodes.num_gpus)
    down = slow[node] & (drawn > 0) & (level > 1.5 / LEVELS)
    if down.any():
        return _step(on_cpu, level, int(np.argmax(np.where(down, drawn, 0.0))), -1)
    up = (level < 1) & (total[node] + drawn / (level * LEVELS) <= relaxed * limit)
    return _step(on_cpu, level, int(np.argmin(np.where(up, level, 2.0))), 1) if up.any() else None


def _step(jobs: np.ndarray, level: np.ndarray, which: int, steps: int) -> Throttle:
    return Throttle(int(jobs[which]), (round(level[which] * LEVELS) + steps) / LEVELS)
