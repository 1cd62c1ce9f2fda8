"""Teach one network what is best on each workload, by what it sees; PPO goes on from there.

The teachers are the constants that a search found for each workload (`baselines/constants`): policy distillation (Rusu
et al. 2016, arXiv 1511.06295) by regression of offsets. Half of the choices while it is taught are its own, so that it
sees what becomes of them, and all that was seen is kept (DAgger: Ross, Gordon and Bagnell, AISTATS 2011). No workload
is named to it: it has to tell them apart by the load, as on a trace of one's own.
"""

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from gpu_cluster_gym.agents.sb3 import TwoPhases
from gpu_cluster_gym.agents.stepping import take_step
from gpu_cluster_gym.traces import stream

ITS_OWN = 0.5  # share of the choices while it is taught; the others are the teacher's
LESSONS, SIZE = 600, 512  # gradient steps after each rollout, and what is looked at in each
RATE = 2e-3  # of Adam


class Distilled(TwoPhases):
    """PPO that begins with a network which knows the offsets of several teachers, an environment's each."""

    def __init__(self, *args: Any, offsets: np.ndarray, **kwargs: Any) -> None:
        """Take what PPO takes; offsets: what is taught in each environment, (N, weights), -1 to 1."""
        super().__init__(*args, **kwargs)
        self._offsets = offsets.astype(np.float32)
        self._rng = stream(self.seed or 0, "lessons")
        self._seen: list[np.ndarray] = []
        policy: Any = self.policy
        actor = [*policy.mlp_extractor.policy_net.parameters(), *policy.action_net.parameters()]
        self._optimizer = torch.optim.Adam(actor, lr=RATE)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play, and keep what is seen; then as PPO does."""
        if not self.in_first:
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        callback.on_rollout_start()
        normalized = self.get_vec_normalize_env()
        for _ in range(n_rollout_steps):
            last: Any = self._last_obs
            original: Any = normalized.get_original_obs() if normalized else last
            self._seen.append(original.copy())
            own, _ = self.policy.predict(last, deterministic=True)
            let = self._rng.random(env.num_envs) < ITS_OWN
            if not take_step(self, env, np.where(let[:, None], own, self._offsets), callback):
                return False
        callback.on_rollout_end()
        return True

    def train(self) -> None:
        """Learn from batches of all that was seen, while it is taught; then as PPO does."""
        if not self._seen:
            return super().train()
        normalized = self.get_vec_normalize_env()
        raw = np.concatenate(self._seen)
        seen = torch.as_tensor(normalized.normalize_obs(raw) if normalized else raw)
        taught = torch.from_numpy(np.tile(self._offsets, (len(self._seen), 1)))
        policy: Any = self.policy
        errors = []
        for _ in range(LESSONS):
            some = torch.from_numpy(self._rng.integers(len(seen), size=SIZE))
            error = (policy.get_distribution(seen[some]).mode() - taught[some]).square().mean()
            self._optimizer.zero_grad()
            error.backward()
            self._optimizer.step()
            errors.append(error.item())
        self.logger.record("train/error", float(np.mean(errors)))
        if not self.in_first:
            self._seen = []
        return None
