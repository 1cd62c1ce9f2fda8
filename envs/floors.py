"""Floors: agents of the default action kind that know nothing; a scheduler that learned anything is above them.

They act through the observation and the legal actions of `gymnasium.make("GPUCluster-v2")`: no rule orders the queue or
chooses a job to pause for them.
"""

import zlib

import numpy as np

from gpu_cluster_gym.envs.agent_policy import CompiledPlainAgent
from gpu_cluster_gym.simulator.policy import Action
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import stream

NO_ACTION = -1  # never legal


class RandomLegal(CompiledPlainAgent):
    """Random legal actions, uniform, by random numbers that depend on the jobs of the window alone."""

    def __init__(self) -> None:
        """Take the default keywords of the environment."""
        super().__init__(self._choose)

    def __call__(self, view: View) -> Action:
        """Return the next move of an action drawn at random."""
        if view is not self._view:
            self._begin(source_of(view).jobs)
        return super().__call__(view)

    def run_compiled(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Run the first record to the end."""
        self._begin(jobs)
        return super().run_compiled(states, jobs, histories)

    def _begin(self, jobs: np.ndarray) -> None:
        self._rng = stream(zlib.crc32(jobs["submit_s"].tobytes()), "actions")

    def _choose(self, observation: object, legal: np.ndarray) -> int:
        numbers = np.flatnonzero(legal)
        return int(numbers[int(len(numbers) * self._rng.random())])


class FirstLegal(CompiledPlainAgent):
    """The first legal action, pauses after all others: the first job that fits starts, else the agent waits."""

    def __init__(self) -> None:
        """Take the default keywords of the environment."""
        super().__init__(lambda observation, legal: NO_ACTION, illegal="first_legal")


FLOORS: dict[str, type[CompiledPlainAgent]] = {"random_legal": RandomLegal, "first_legal": FirstLegal}
"""Floors by name."""
