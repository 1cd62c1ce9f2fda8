"""Optimus (EuroSys 2018): every interval each worker and server goes to the job whose remaining time it cuts most.

From memory, not checked against the paper: each job starts from one worker and one server; then, one at a time, the
worker or server that cuts remaining time most for the share it takes of the scarcer resource is given, until nothing
fits or gains. Inferred: jobs get their first worker in the order of arrival; what cannot run with one worker starts
from the fewest it can run with; a job that comes between two intervals starts so where there is room. Our choice: a job
whose share has not changed is not restarted.

The shares are in `simulator.kernel.rounds.shape_shares`; how they are carried out, in `simulator.elastic_rounds`.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.elastic_rounds import SHARES, Shaping
from gpu_cluster_gym.simulator.policy import Action

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "elastic"


class Optimus:
    """The policy.

    round_s: between two divisions of the GPUs. error: deviation of the logarithm of what its estimates are wrong by,
    beside the view's.
    """

    def __init__(self, round_s: float = 300.0, error: float = 0.0) -> None:
        """Begin an episode."""
        self._error = error
        self._shaping = Shaping(SHARES, round_s)
        self._wrong_by: list[float] = []

    def __call__(self, view: "View") -> Action:
        """Return the next move."""
        if self._error:
            self._misjudge(view)
        return self._shaping(view)

    def _misjudge(self, view: "View") -> None:
        """Draw by what the estimates of jobs that have come are wrong."""
        new = len(view.jobs.phase) - len(self._wrong_by)
        for factor in np.exp(self._error * view.rng.standard_normal(new)).tolist():
            self._shaping.misjudge(view, len(self._wrong_by), factor)
            self._wrong_by.append(factor)


policy = Optimus
GRID = {"round_s": (120.0, 300.0, 600.0, 1200.0, 3600.0)}
