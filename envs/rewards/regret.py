"""Minus the step's increase of the least possible total JCT, such as by idle GPUs, pauses or long jobs first.

This is `jct`, shaped by a potential (Ng, Harada and Russell, ICML 1999), `least_cost`. Undiscounted, and if the episode
ends with all jobs done, the rewards add up to minus the total JCT, plus what the jobs had to cost when they arrived,
which no action changes. Discounted, what an action costs beyond the horizon counts too. True run times are in the
reward; no policy observes it.
"""

import numpy as np
from numpy.typing import NDArray

from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, FUTURE, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.plan import entry

LEAST_RUN_S = 10.0
"""Least run time in a slowdown, s, as in `evaluation.metrics`."""


def reward(regret: np.ndarray) -> np.ndarray:
    """Return minus the job-seconds that the step adds to the least cost."""
    return 0.0 - regret


def least_cost(
    states: np.ndarray, jobs: np.ndarray, arrived: NDArray[np.int64], per_run_time_s: float = 0.0
) -> NDArray[np.float64]:
    """Return the job-seconds that jobs have cost so far, and the least that those present will still cost: (N,).

    The latter is that of one machine as fast as the cluster: it does their remaining GPU time in the order of that time
    per weight, which is the order of the least weighted sum of completion times (Smith 1956); no job ends before its
    own remaining run time. Jobs that do not run have to load.

    states: records (N,). jobs: (N, J). arrived: number of jobs, by submission, whose future counts (N,).
    per_run_time_s: the weight of a job is this time divided by its run time alone, at least `LEAST_RUN_S`, so that the
    sum is that of slowdowns times this time; 0: all weights are 1.
    """
    costs = np.zeros(len(states))
    _fill(states, jobs, arrived, per_run_time_s, costs)
    return costs


@entry
def _fill(
    states: np.ndarray,
    jobs: np.ndarray,
    arrived: NDArray[np.int64],
    per_run_time_s: float,
    costs: NDArray[np.float64],
) -> None:
    left_s, work_s, weight, order = np.empty((4, jobs.shape[1]))
    for e in range(len(costs)):
        s = states[e]
        present = 0
        for j in range(s.num_arrived):
            if s.phase[j] == FUTURE:
                continue
            own = per_run_time_s / max(jobs[e, j].duration_s, LEAST_RUN_S) if per_run_time_s > 0.0 else 1.0
            if s.phase[j] == DONE:
                costs[e] += own * (s.finish_s[j] - jobs[e, j].submit_s)
                continue
            costs[e] += own * (s.clock - jobs[e, j].submit_s)
            if j >= arrived[e]:
                continue
            left_s[present] = jobs[e, j].duration_s - s.attained_s[j]
            if s.phase[j] == RUNNING:
                left_s[present] -= s.rate[j] * (s.clock - s.banked[j])
            else:
                left_s[present] += jobs[e, j].load_s
            work_s[present] = left_s[present] * jobs[e, j].num_gpus / s.num_gpus
            weight[present], order[present] = own, work_s[present] / own
            present += 1
        before_s = 0.0
        for k in np.argsort(order[:present], kind="mergesort"):
            before_s += work_s[k]
            costs[e] += weight[k] * max(before_s, left_s[k])
