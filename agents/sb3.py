"""PPO that goes on from what something else finds or teaches in the first steps."""

from typing import Any

from stable_baselines3 import PPO


class TwoPhases(PPO):
    """PPO of Stable-Baselines3 with another phase before it: networks, environments, curves, callbacks are the same."""

    def __init__(self, *args: Any, first: int, **kwargs: Any) -> None:
        """Take what PPO takes; first: steps of the phase before it."""
        super().__init__(*args, **kwargs)
        self.first = first

    @property
    def in_first(self) -> bool:
        """Whether PPO is still to begin."""
        return self.num_timesteps < self.first

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        """Count the steps of PPO alone, by which its learning rate falls."""
        super()._update_current_progress_remaining(
            max(0, num_timesteps - self.first), max(1, total_timesteps - self.first)
        )
