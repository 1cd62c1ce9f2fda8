"""Imitation before PPO: the network learns a teacher's actions in the states that its own actions lead to.

After the first rollouts, half of the actions are the network's own; all observations are stored with the teacher's
actions (DAgger: Ross, Gordon and Bagnell, AISTATS 2011).
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from gpu_cluster_gym.agents.ppo import TwoPhases, moments_of, put_moments, take_step
from gpu_cluster_gym.traces import stream

OWN_SHARE = 0.5  # share of the network's own actions; the others are the teacher's
BATCH, RATE = 512, 2e-3  # batch size of a gradient step, and learning rate of Adam


class LessonsFirst(TwoPhases):
    """Base class of algorithms whose network imitates a teacher before PPO.

    lesson_steps: gradient steps after each rollout. teacher_rollouts: rollouts of the teacher's actions alone.
    plays_greedily: whether the network's own actions are its most likely ones.
    """

    lesson_steps: int
    teacher_rollouts = 0
    plays_greedily: bool
    _rng: np.random.Generator

    def __init__(self, *args: Any, stream_name: str, **kwargs: Any) -> None:
        """Take the arguments of PPO, and the name of the stream of random numbers."""
        super().__init__(*args, **kwargs)
        self._rng = stream(self.seed or 0, stream_name)
        self._seen: list[np.ndarray] = []
        self._targets: list[np.ndarray] = []
        self._optimizer = torch.optim.Adam(self.imitating_parameters(), lr=RATE)

    @abstractmethod
    def imitating_parameters(self) -> Iterable[torch.nn.Parameter]:
        """Return the parameters that imitation updates."""

    @abstractmethod
    def teach(self, seen: np.ndarray) -> np.ndarray:
        """Return the teacher's actions for the observations of all environments (N, ...)."""

    @abstractmethod
    def error(self, seen: Tensor, targets: Tensor) -> Tensor:
        """Return the loss on a batch of observations and the teacher's actions, the targets."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the stored observations and actions, and the optimizer's moments; nothing after the first phase."""
        if not self._seen:
            return {}
        lessons = {"seen": np.array(self._seen), "taught": np.array(self._targets)}
        return lessons | moments_of(self._optimizer)

    def put_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the stored observations and actions, and the moments."""
        self._seen, self._targets = list(arrays.get("seen", ())), list(arrays.get("taught", ()))
        own = ("seen", "taught")
        put_moments(self._optimizer, {name: it for name, it in arrays.items() if name not in own})

    def play(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play a rollout; in the first phase, store observations before normalisation, and the teacher's actions."""
        if not self.in_first:
            return super().play(env, callback, rollout_buffer, n_rollout_steps)
        callback.on_rollout_start()
        normalized = self.get_vec_normalize_env()
        share = OWN_SHARE if len(self._seen) >= self.teacher_rollouts * n_rollout_steps else 0.0
        for _ in range(n_rollout_steps):
            last: Any = self._last_obs
            original: Any = normalized.get_original_obs() if normalized else last
            self._seen.append(original.copy())
            self._targets.append(self.teach(original))
            own, _ = self.policy.predict(last, deterministic=self.plays_greedily)
            is_own = self._rng.random(env.num_envs) < share
            chosen = np.where(is_own.reshape(-1, *(1,) * (own.ndim - 1)), own, self._targets[-1])
            if not take_step(self, env, chosen, callback):
                return False
        callback.on_rollout_end()
        return True

    def train(self) -> None:
        """Take gradient steps on batches of all stored observations; after the first phase, update PPO."""
        if not self._seen:
            return super().train()
        normalized, raw = self.get_vec_normalize_env(), np.concatenate(self._seen)
        seen = torch.as_tensor(normalized.normalize_obs(raw) if normalized else raw)
        targets = torch.from_numpy(np.concatenate(self._targets))
        errors = []
        for _ in range(self.lesson_steps):
            some = torch.from_numpy(self._rng.integers(len(seen), size=BATCH))
            error = self.error(seen[some], targets[some])
            self._optimizer.zero_grad()
            error.backward()
            self._optimizer.step()
            errors.append(error.item())
        self.logger.record("train/loss", float(np.mean(errors)))
        if not self.in_first:
            self._seen, self._targets = [], []
        return None
