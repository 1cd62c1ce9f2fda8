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
from gpu_cluster_gym.simulator.vocabulary import DONE

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

ANY_USER = -1


@dataclass
class Qssf:
    """State of the policy in one episode.

    history: weight of the rolling estimate relative to the profile, from 0 to 1.
    newest: weight of the most recently finished job in the rolling estimate.
    """

    history: float = 0.5
    newest: float = 0.3

    def __post_init__(self) -> None:
        self._seen = np.zeros(0, bool)
        self._instant, self._order = -1, np.empty(0, np.int64)  # the queue in order at an instant
        self._rolling: dict[tuple[int, int], float] = {}  # log seconds by user and size class

    def __call__(self, view: "View") -> Action:
        """Start the job with the least predicted GPU-time that fits, CPU jobs first, or wait."""
        queue = view.queue
        if self._instant != view.instant:
            self._instant = view.instant
            self._learn(view)
            self._order = self._order[:0]
        self._order = self._order[np.isin(self._order, queue)]  # predictions change with time alone
        if len(self._order) < len(queue):
            self._order = self._by_service(view, queue)
        return view.start_first(self._order) or Wait()

    def _by_service(self, view: "View", queue: np.ndarray) -> np.ndarray:
        """Return the queue by predicted GPU-time."""
        asked = np.column_stack([view.jobs.user, view.jobs.num_gpus, view.jobs.estimate_s])[queue].tolist()
        service = [self._predicted_s(int(user), int(gpus), seconds) * gpus for user, gpus, seconds in asked]
        order: np.ndarray = queue[np.argsort(service, kind="stable")]
        return order

    def _predicted_s(self, user: int, gpus: int, estimate_s: float) -> float:
        """Return the weighted geometric mean of rolling estimate and profile, s."""
        size, profile = gpus.bit_length(), float(np.log(max(estimate_s, 1.0)))
        past = self._rolling.get((user, size), self._rolling.get((ANY_USER, size), profile))
        return float(np.exp(self.history * past + (1 - self.history) * profile))

    def _learn(self, view: "View") -> None:
        """Update the rolling estimates with the jobs that have finished since the last call."""
        new = view.jobs.phase == DONE
        new[: len(self._seen)] &= ~self._seen
        self._seen = view.jobs.phase == DONE
        for job in np.flatnonzero(new).tolist():
            size = int(view.jobs.num_gpus[job]).bit_length()
            ran = float(np.log(max(view.jobs.ran_s[job], 1.0)))
            for like in ((int(view.jobs.user[job]), size), (ANY_USER, size)):
                # exponential moving average: newest * ran + (1 - newest) * previous, or ran if there is no previous
                self._rolling[like] = ran + (1 - self.newest) * (self._rolling.get(like, ran) - ran)


policy = Qssf
GRID = {"history": (0.0, 0.25, 0.5, 0.75, 1.0), "newest": (0.1, 0.3, 0.6)}
