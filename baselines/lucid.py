"""Shortest service first on shared GPUs, where two jobs share if neither is too busy for it.

Claim: queueing by predicted time and packing by a coarse class of utilisation, without touching a job that runs, is
enough to beat schedulers that pause (Lucid, ASPLOS 2023). From memory, not checked against the paper: priority by
predicted duration x GPUs, no job is paused, classes 0, 1 and 2, pairs up to a sum of 2. Inferred: classes by profiled
utilisation alone, at these limits (Lucid learns them, also from memory utilisation); an empty GPU is preferred, else
the partner with the smallest sum; jobs that do not fit are skipped; memory must suffice. Left out: its profiling stage
and its learned predictions, which the scenario's estimates replace.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.baselines._sharing import by_rank
from gpu_cluster_gym.simulator.policy import Action, Wait
from gpu_cluster_gym.simulator.search import Joins

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "sharing"

MAX_SUM = 2  # of the classes of jobs that share


@dataclass
class Lucid:
    """One episode of the policy.

    limits: profiled utilisations at which class 1 and class 2 begin.
    """

    limits: tuple[float, float] = (0.25, 0.5)

    def __post_init__(self) -> None:
        self._limits = np.array(self.limits)

    def __call__(self, view: "View") -> Action:
        """Start the shortest job that fits on empty GPUs, else the shortest that finds a partner, else wait."""
        queue = view.queue
        jobs = view.jobs_of(queue)
        order = queue[np.argsort(jobs.estimate_s * jobs.num_gpus, kind="stable")]
        if start := view.start_first(order):
            return start
        joins = Joins(view, order)
        if not len(joins.job):
            return Wait(ticks=False)
        there = np.where(joins.members >= 0, self._classes(view, joins.members), 0).sum(axis=1)
        total = there[joins.group] + self._classes(view, order)[joins.job]
        cost = np.where(total <= MAX_SUM, by_rank(joins, total), np.inf)
        return joins.cheapest(cost) or Wait(ticks=False)

    def _classes(self, view: "View", jobs: np.ndarray) -> np.ndarray:
        """Return the classes of jobs, int64 in the shape of `jobs`; where a job is -1, that of job 0."""
        some = view.jobs_of(np.maximum(jobs, 0).ravel())
        classes: np.ndarray = self._limits.searchsorted(some.gpu_utilization, side="right")
        return classes.reshape(jobs.shape)


policy = Lucid
GRID = {"limits": ((0.1, 0.3), (0.25, 0.75), (0.4, 0.6), (0.5, 0.8), (0.5, 1.0), (0.7, 1.0))}
