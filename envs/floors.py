"""Floors: weak baselines of the default action kind, which use no information but the action mask.

They act through the observation and the legal actions of `gymnasium.make("GPUCluster-v2")`: no rule orders the queue or
chooses a job to pause for them.
"""

from typing import Any

import numpy as np

from gpu_cluster_gym.envs.agent_policy import CompiledPlainAgent, DrawingAgent

NO_ACTION = -1  # never legal


class RandomLegal(DrawingAgent):
    """Random legal actions, uniform, by random numbers that depend on the jobs of the window alone."""

    def __init__(self, **choices: Any) -> None:
        """Take keywords of the environment."""
        super().__init__(self._choose, **choices)

    def _seeds(self, jobs: np.ndarray) -> np.ndarray:
        """Return all submission times: uniform draws give nothing away."""
        submit_s: np.ndarray = jobs["submit_s"]
        return submit_s

    def _choose(self, observation: object, legal: np.ndarray) -> int:
        numbers = np.flatnonzero(legal)
        return int(numbers[int(len(numbers) * self._rng.random())])


class FirstLegal(CompiledPlainAgent):
    """The first legal action, pauses after all others: the first queued job starts, or claims GPUs, else it waits."""

    def __init__(self, **choices: Any) -> None:
        """Take keywords of the environment."""
        super().__init__(lambda observation, legal: NO_ACTION, illegal="first_legal", **choices)


FLOORS: dict[str, type[RandomLegal | FirstLegal]] = {"random_legal": RandomLegal, "first_legal": FirstLegal}
"""Floors by name."""
