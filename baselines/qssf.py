"""Quasi-shortest service first: by the GPU-time that a user's earlier jobs predict; no job is paused.

Claim: users repeat themselves, so history orders the queue nearly as well as the true run times would (QSSF in Helios,
SC 2021). From memory, not checked against the paper: priority is GPUs x a weighted sum of a learned prediction, in
place of which the profile stands here, and of a rolling estimate over the user's like jobs that have ended, for a new
user over all users'. Our choice: both are of logarithms, as run times differ by orders of magnitude; alike are jobs of
as many GPUs, to a factor of two; without any history it is the profile alone. Left out: names, not told here.
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
    """One episode of the policy.

    history: weight of the rolling estimate against the profile. newest: weight of the last job to end in that estimate.
    """

    history: float = 0.5
    newest: float = 0.3

    def __post_init__(self) -> None:
        self._seen = np.zeros(0, bool)
        self._rolling: dict[tuple[int, int], float] = {}  # of user and class of size: logarithm of seconds

    def __call__(self, view: "View") -> Action:
        """Start the job of least predicted GPU-time that fits, CPU jobs before it, or wait."""
        self._learn(view)
        queue = view.queue
        asked = np.column_stack([view.jobs.user, view.jobs.num_gpus, view.jobs.estimate_s])[queue].tolist()
        service = [self._predicted_s(int(user), int(gpus), seconds) * gpus for user, gpus, seconds in asked]
        return view.start_first(queue[np.argsort(service, kind="stable")]) or Wait()

    def _predicted_s(self, user: int, gpus: int, estimate_s: float) -> float:
        size, profile = gpus.bit_length(), float(np.log(max(estimate_s, 1.0)))
        past = self._rolling.get((user, size), self._rolling.get((ANY_USER, size), profile))
        return float(np.exp(self.history * past + (1 - self.history) * profile))

    def _learn(self, view: "View") -> None:
        new = view.jobs.phase == DONE
        new[: len(self._seen)] &= ~self._seen
        self._seen = view.jobs.phase == DONE
        for job in np.flatnonzero(new).tolist():
            size = int(view.jobs.num_gpus[job]).bit_length()
            ran = float(np.log(max(view.jobs.ran_s[job], 1.0)))
            for like in ((int(view.jobs.user[job]), size), (ANY_USER, size)):
                self._rolling[like] = ran + (1 - self.newest) * (self._rolling.get(like, ran) - ran)


policy = Qssf
GRID = {"history": (0.0, 0.25, 0.5, 0.75, 1.0), "newest": (0.1, 0.3, 0.6)}
