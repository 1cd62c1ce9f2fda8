"""Quasi-shortest service first: order by the GPU-time predicted from a user's earlier jobs, without preemption.

Claim: users repeat similar jobs, so history orders the queue nearly as well as true run times (QSSF in Helios, SC
2021). From memory, not checked against the paper: the priority is GPUs x a weighted sum of a learned prediction, for
which the profile is used here, and of a rolling estimate over the user's similar finished jobs; a new user takes the
estimate over all users.

Inferred: both are averaged as logarithms, since run times differ by orders of magnitude; jobs are similar if their
numbers of GPUs have the same binary length; without history it is the profile alone. Left out: job names, which the
view does not contain.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait
from gpu_cluster_gym.simulator.search import Ended, may_any_start
from gpu_cluster_gym.simulator.vocabulary import QUEUED

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import Jobs, View

ANY_USER = 0  # row of the rolling estimates; user 0 has row 1
SIZES = 64  # more than the binary length of a number of GPUs


@dataclass
class Qssf:
    """State of the policy in one episode.

    history: weight of the rolling estimate relative to the profile, from 0 to 1.
    newest: weight of the most recently finished job in the rolling estimate.
    """

    history: float = 0.5
    newest: float = 0.3

    def __post_init__(self) -> None:
        self._ended = Ended()
        self._instant, self._order = -1, np.empty(0, np.int64)  # the queue in order at an instant
        self._rolling = np.full((1, SIZES), np.nan)  # log seconds by user and size class, nan without history

    def __call__(self, view: "View") -> Action:
        """Start the job with the least predicted GPU-time that fits, CPU jobs first, or wait."""
        if self._instant != view.instant:
            self._instant = view.instant
            self._learn(view)
            self._order = self._order[:0]
        if not may_any_start(view):
            return Wait()
        queue = view.queue
        # Predictions do not change within an instant.
        self._order = self._order[view.jobs_of(self._order).phase == QUEUED]
        if len(self._order) < len(queue):
            self._order = queue[np.argsort(self._predicted_gpu_s(view.jobs_of(queue)), kind="stable")]
        return view.start_first(self._order) or Wait()

    def _predicted_gpu_s(self, jobs: "Jobs") -> np.ndarray:
        """Return the weighted geometric mean of rolling estimate and profile, times the GPUs: (jobs,)."""
        profile, size = np.log(np.maximum(jobs.estimate_s, 1.0)), np.frexp(jobs.num_gpus)[1]
        row = np.where(jobs.user + 1 < len(self._rolling), jobs.user + 1, ANY_USER)
        past = self._rolling[row, size]
        past = np.where(np.isnan(past), self._rolling[ANY_USER, size], past)
        past = np.where(np.isnan(past), profile, past)
        service: np.ndarray = np.exp(self.history * past + (1 - self.history) * profile) * jobs.num_gpus
        return service

    def _learn(self, view: "View") -> None:
        """Update the rolling estimates with the jobs that have finished since the last call."""
        if not len(new := self._ended.new(view)):
            return
        jobs = view.jobs_of(new)
        if (new_users := int(jobs.user.max()) + 2 - len(self._rolling)) > 0:
            self._rolling = np.vstack([self._rolling, np.full((new_users, SIZES), np.nan)])
        ran_s, size = np.log(np.maximum(jobs.ran_s, 1.0)), np.frexp(jobs.num_gpus)[1]
        for user, length, ran in zip(jobs.user.tolist(), size.tolist(), ran_s.tolist(), strict=True):
            for like in ((user + 1, length), (ANY_USER, length)):
                # exponential moving average: newest * ran + (1 - newest) * previous, or ran if there is no previous
                past = self._rolling[like]
                self._rolling[like] = ran if np.isnan(past) else ran + (1 - self.newest) * (past - ran)


policy = Qssf
GRID = {"history": (0.0, 0.25, 0.5, 0.75, 1.0), "newest": (0.1, 0.3, 0.6)}
