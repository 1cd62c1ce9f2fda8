"""Floors: agents of the default action kind that know nothing; a scheduler that learned anything is above them.

They act through the observation and the legal actions of `gymnasium.make("GPUCluster-v2")`: the queue slots, and the
victims that its rule pauses, are chosen for them. An agent that is not better than these owes its result to that rule.
"""

import numpy as np

from gpu_cluster_gym.envs.agent_policy import PlainAgent


class RandomLegal(PlainAgent):
    """Random legal actions, uniform, from the random numbers of the episode: each seed and window has its own."""

    def __init__(self) -> None:
        """Take the default keywords of the environment."""
        super().__init__(self._choose)

    def _choose(self, observation: object, legal: np.ndarray) -> np.int64:
        assert self._view is not None
        chosen: np.int64 = self._view.rng.choice(np.flatnonzero(legal))
        return chosen


class FirstLegal(PlainAgent):
    """The first legal action, which waits only where nothing can start."""

    def __init__(self) -> None:
        """Take the default keywords of the environment."""
        super().__init__(lambda observation, legal: legal.argmax())


FLOORS: dict[str, type[PlainAgent]] = {"random_legal": RandomLegal, "first_legal": FirstLegal}
"""Floors by name."""
