"""Minus the step's increase of the least possible total JCT, such as by idle GPUs, pauses or long jobs first.

This is `jct`, shaped by a potential (Ng, Harada and Russell, ICML 1999), `cost_to_go`. Undiscounted, the rewards add up
to minus the total JCT, plus what the jobs had to cost when they arrived, which no action changes. Discounted, what an
action costs beyond the horizon counts too. True run times are in the reward; no policy observes it.
"""

import numpy as np
from numpy.typing import NDArray

from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, FUTURE, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.plan import entry


def reward(regret: np.ndarray) -> np.ndarray:
    """Return minus the job-seconds that the step adds to the least cost."""
    return 0.0 - regret


def cost_to_go(states: np.ndarray, jobs: np.ndarray, arrived: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the job-seconds that the jobs present would still cost on one machine as fast as the cluster: (N,).

    The machine does the remaining GPU time of the jobs, the shortest first, which is the order of the least sum of
    completion times (Schrage 1968); no job ends before its own remaining run time. Jobs that do not run have to load.

    states: records (N,). jobs: (N, J). arrived: number of jobs, by submission, that count in each record (N,).
    """
    costs = np.zeros(len(states))
    _fill(states, jobs, arrived, costs)
    return costs


@entry
def _fill(
    states: np.ndarray, jobs: np.ndarray, arrived: NDArray[np.int64], costs: NDArray[np.float64]
) -> None:
    left_s, work_s = np.empty(jobs.shape[1]), np.empty(jobs.shape[1])
    for e in range(len(costs)):
        s = states[e]
        present = 0
        for j in range(arrived[e]):
            if s.phase[j] == DONE or s.phase[j] == FUTURE:
                continue
            left_s[present] = jobs[e, j].duration_s - s.attained_s[j]
            if s.phase[j] == RUNNING:
                left_s[present] -= s.rate[j] * (s.clock - s.banked[j])
            else:
                left_s[present] += jobs[e, j].load_s
            work_s[present] = left_s[present] * jobs[e, j].num_gpus / s.num_gpus
            present += 1
        before_s = 0.0
        for k in np.argsort(work_s[:present], kind="mergesort"):
            before_s += work_s[k]
            costs[e] += max(before_s, left_s[k])
