"""Let jobs share GPUs by the best matching of all running jobs with all queued jobs, instead of one pair at a time.

Claim: jobs that use different resources at the same time can be interleaved on the same GPUs, and a maximum-weight
matching finds the pairs (Muri, SIGCOMM 2022). From memory, not checked against the paper: the weight is the
interleaving efficiency, the mean share of time in which resources are in use. For jobs a and b, and the two resources
modelled here, the GPU and all others, it is

    (A_a + I_a + A_b + I_b) / (2 T),   T = max(A_a, I_b) + max(I_a, A_b),

where A and I are the milliseconds of an iteration in which a job's GPUs are busy and idle. Our simplification: running
jobs keep their GPUs, so the matching is bipartite; it has as many pairs as possible, and the least cost among those.
Empty GPUs come first, by arrival; the memory test is that of `xonar`. Left out: groups of up to four, regrouping by
preemption, priority by service. With `score=7` this is `xonar` with that score and the best matching, not a greedy one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from gpu_cluster_gym.baselines._sharing import profile
from gpu_cluster_gym.baselines.xonar import scores_beside
from gpu_cluster_gym.simulator.policy import Action, Wait
from gpu_cluster_gym.simulator.search import Joins

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


@dataclass
class Muri:
    """One episode of the policy. score: number of the Xonar score to match by; None for the interleaving efficiency."""

    score: int | None = None

    def __call__(self, view: "View") -> Action:
        """Start the first job that fits on empty GPUs, otherwise the first pair of the best matching; or wait."""
        order = view.queue
        if start := view.start_first(order):
            return start
        joins = Joins(view, order)
        if not len(joins.job):
            return Wait()
        cost, fits = self._costs(view, joins), joins.by_memory.T
        forbidden = 1 + 2 * cost.max(initial=0.0) * max(cost.shape)  # more than all other pairs together
        for group, job in zip(*linear_sum_assignment(np.where(fits, cost, forbidden)), strict=True):
            if fits[group, job] and (start := joins.start(int(job), int(group))):
                return start
        return Wait()

    def _costs(self, view: "View", joins: Joins) -> np.ndarray:
        """Return the costs of all pairs of a group and a job: (groups, jobs)."""
        shape = len(joins.members), len(joins.order)
        members, jobs = np.repeat(joins.members, shape[1], axis=0), np.tile(joins.order, shape[0])
        if self.score is not None:
            return scores_beside(view, members, jobs, self.score).reshape(shape)
        return inefficiency(view, members, jobs).reshape(shape)


def inefficiency(view: "View", members: np.ndarray, jobs: np.ndarray) -> np.ndarray:
    """Return 1 - the mean interleaving efficiency of each job with its members (pairs, `max_share`): (pairs,)."""
    a, b = profile(view, members), profile(view, jobs[:, None])
    period = np.maximum(a.active, b.idle) + np.maximum(a.idle, b.active)
    used = (a.active + a.idle + b.active + b.idle) / np.where(period > 0, 2 * period, 1.0)
    mean: np.ndarray = np.where(members >= 0, 1 - used, 0.0).sum(axis=1) / (members >= 0).sum(axis=1)
    return mean


policy = Muri
GRID = {"score": (None, 1, 3, 5, 7)}
LEVER = "sharing"
