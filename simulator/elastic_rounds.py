"""Jobs given other shapes in rounds: AITurbo's and Optimus' plans, and the moves that carry them out.

A plan says in which order jobs come and, for each, which shapes would do, the best first. One pass in that order
gives each job the first for which there is room (`simulator.kernel.rounds.shape_grants`); the moves are those by
which every job gets what it was granted (`simulator.kernel.rounds.shape_moves`). How shapes are found is in
`simulator.kernel.rounds.shape_steps` and `simulator.kernel.rounds.shape_shares`.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator import measurements
from gpu_cluster_gym.simulator.compiled_policy import Keeps
from gpu_cluster_gym.simulator.decided import written_down
from gpu_cluster_gym.simulator.kernel.cluster.layout import Tier
from gpu_cluster_gym.simulator.kernel.rounds import shape_moves
from gpu_cluster_gym.simulator.kernel.rounds.shape_memory import (
    AS_TOLD,
    EVERY_JOB,
    NO_JOB,
    PROFILE,
    SHARES,
    STEPS,
    fresh_shapes,
    shape_dtype,
)
from gpu_cluster_gym.simulator.policy import Action
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.speed_model import fit

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

__all__ = ["AS_TOLD", "EVERY_JOB", "NO_JOB", "SHARES", "STEPS", "Shaping"]


class Shaping(Keeps):
    """The moves of one policy that makes a plan every so often, when a job turns predictable, comes or ends."""

    def __init__(self, way: int, every_s: float, **choices: float) -> None:
        """Know nothing yet.

        way: STEPS or SHARES. every_s: between two rounds. choices: others of `simulator.kernel.rounds.shape_memory`.
        """
        self._choices = {"way": way, "every_s": every_s} | choices
        super().__init__()

    def dtype(self, size: Tier) -> np.dtype:
        """Return the type of the record at a tier."""
        return shape_dtype(size)

    def fresh(self, states: np.ndarray) -> np.ndarray:
        """Return the record as it begins."""
        return fresh_shapes(states, self._choices)

    def misjudge(self, view: "View", job: int, factor: float) -> None:
        """Let the plans take a job that has arrived to have so many times as much left as the view tells."""
        self.kept(source_of(view).states)["error"][0, job] = factor

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant, then a wait."""
        source = source_of(view)
        memory = self.kept(source.states)
        while (what := shape_moves.next_move(source.states, 0, memory, 0, source.jobs)) == PROFILE:
            _fit(source.states, source.jobs, memory)
        return written_down(memory, what)

    def run_whole(self, states: np.ndarray, jobs: np.ndarray) -> bool:
        """Make all moves on the first record to the end, inside the kernel; tell whether every job ended."""
        memory = self.kept(states)
        while shape_moves.run(states, 0, memory, 0, jobs) == PROFILE:
            _fit(states, jobs, memory)
        return bool(states["num_done"][0] == states["num_jobs"][0])


def _fit(states: np.ndarray, jobs: np.ndarray, memory: np.ndarray) -> None:
    """Fit the profiles that are asked for."""
    for job in memory["unfitted"][0, : memory["num_unfitted"][0]].tolist():
        jobs["fitted"][job] = fit(measurements.profiled(states, jobs, job))
