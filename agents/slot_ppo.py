"""PPO that discounts by simulated time instead of by the number of decisions.

Many decisions share one instant while hours may pass between others, so the discount factor of a step is
exp(-elapsed / tau), with the elapsed seconds from `info["elapsed"]`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from torch import Tensor


class TimedBuffer(RolloutBuffer):
    """A rollout buffer with the simulated seconds of each step."""

    elapsed_s: NDArray[np.float32]
    """(steps, environments)"""

    def __init__(self, *args: Any, tau_s: float | None, **kwargs: Any) -> None:
        """Store the time constant, s; None discounts nothing."""
        self.tau_s = np.inf if tau_s is None else tau_s
        super().__init__(*args, **kwargs)

    def reset(self) -> None:
        """Clear the rollout."""
        super().reset()
        self.elapsed_s = np.zeros((self.buffer_size, self.n_envs), np.float32)

    def compute_returns_and_advantage(self, last_values: Tensor, dones: NDArray[np.bool_]) -> None:
        """Estimate advantages (Schulman et al. 2016) and returns with a discount factor for each step.

        delta_t = r_t + g_t V_t+1 - V_t and A_t = delta_t + lambda g_t A_t+1, with g_t = exp(-elapsed_t / tau), or 0
        where the episode ended.
        """
        ended = np.vstack([self.episode_starts[1:], dones])
        factors = np.exp(-self.elapsed_s / self.tau_s) * (1.0 - ended)
        next_values = np.vstack([self.values[1:], last_values.cpu().numpy().ravel()])
        deltas = self.rewards + factors * next_values - self.values
        advantage = np.zeros(self.n_envs, np.float32)
        for step in reversed(range(self.buffer_size)):
            advantage = deltas[step] + self.gae_lambda * factors[step] * advantage
            self.advantages[step] = advantage
        self.returns = self.advantages + self.values


class TimedPPO(PPO):
    """PPO of Stable-Baselines3 on a `TimedBuffer`."""

    rollout_buffer: TimedBuffer

    def _update_info_buffer(
        self, infos: list[dict[str, Any]], dones: NDArray[np.bool_] | None = None
    ) -> None:
        """Store the elapsed time, just before the step is added to the buffer."""
        super()._update_info_buffer(infos, dones)
        self.rollout_buffer.elapsed_s[self.rollout_buffer.pos] = [info["elapsed"] for info in infos]
