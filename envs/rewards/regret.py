"""Minus the increase of the least total JCT in the step: idle GPUs, pauses, long jobs before short ones count at once.

This is `jct`, shaped by a potential (Ng, Harada and Russell, ICML 1999), `cost_to_go`. Undiscounted, the rewards add up
to minus the total JCT, plus what the jobs had to cost when they arrived, which no action changes. Discounted, what an
action costs beyond the horizon counts too. True run times are in the reward; no policy observes it.
"""

import numpy as np
from numpy.typing import NDArray

from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, FUTURE, RUNNING


def reward(regret: np.ndarray) -> np.ndarray:
    """Return minus the job-seconds that the step adds to the least cost."""
    return 0.0 - regret


def cost_to_go(states: np.ndarray, jobs: np.ndarray, arrived: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the job-seconds that the jobs present would still cost on one machine as fast as the cluster: (N,).

    The machine does the remaining GPU time of the jobs, the shortest first, which is the order of the least sum of
    completion times (Schrage 1968); no job ends before its own remaining run time. Jobs that do not run have to load.

    states: records (N,). jobs: (N, J). arrived: number of jobs, by submission, that count in each record (N,).
    """
    count = int(arrived.max(initial=0))
    phase, duration_s = states["phase"][:, :count], jobs["duration_s"][:, :count]
    runs = phase == RUNNING
    since_s = states["clock"][:, None] - states["banked"][:, :count]
    made_s = states["attained_s"][:, :count] + np.where(runs, states["rate"][:, :count] * since_s, 0.0)
    left_s = duration_s - made_s + np.where(runs, 0.0, jobs["load_s"][:, :count])
    work_s = left_s * jobs["num_gpus"][:, :count] / states["num_gpus"][:, None]
    present = (phase != DONE) & (phase != FUTURE) & (np.arange(count) < arrived[:, None])
    costs = np.zeros(len(states))
    for e in range(len(states)):
        some = np.flatnonzero(present[e])
        some = some[np.argsort(work_s[e, some], kind="stable")]
        costs[e] = np.maximum(work_s[e, some].cumsum(), left_s[e, some]).sum()
    return costs
