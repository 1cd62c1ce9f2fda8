"""Search constants first, by CMA-ES, and let PPO go on from them: the actor's biases, then the whole network.

A candidate holds one offset of each weight through whole windows, and is judged by its mean return on windows that all
candidates of a generation play. CMA-ES (Hansen 2016, arXiv 1604.00772) learns how weights go together, which the noise
of PPO, each weight's for itself, does not.
"""

import math
from itertools import groupby
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from gpu_cluster_gym.agents.constants import Searching, evolution_of
from gpu_cluster_gym.agents.sb3 import TwoPhases
from gpu_cluster_gym.simulator.rule_policy import REACH
from gpu_cluster_gym.traces import stream

TOGETHER = 4  # candidates that play each window side by side, where environments share out so
ENDLESS = -100.0  # what a window counts in which jobs pause one another for ever, %


class SearchFirst(TwoPhases):
    """PPO that begins with a search."""

    def __init__(self, *args: Any, sigma: float, **kwargs: Any) -> None:
        """Take what PPO takes; first: steps that CMA-ES takes; sigma: of its first candidates, in scales."""
        super().__init__(*args, **kwargs)
        self._rng = stream(self.seed or 0, "search of constants")
        self._best, self._went_on = self._biases().numpy().copy(), False
        self._evolution = evolution_of(REACH * self._best, Searching(sigma=sigma), self._rng)
        self._candidates: list[np.ndarray] = []
        self._returns = np.empty(0)

    def keep(self) -> None:
        """Remember the constants that are in the network now as those to go on from."""
        self._best = self._biases().numpy().copy()

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play a generation; then as PPO does."""
        if not self.in_first:
            if not self._went_on:
                callback.on_rollout_start()  # the last constants may be the best
                self._go_on(env)
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        callback.on_rollout_start()
        self._candidates = self._evolution.ask()
        together = side_by_side(env)
        numbers = groups_of_windows(env, self._rng, together)
        means: list[float] = []
        for begin in range(0, len(self._candidates), together):
            some = np.array(self._candidates[begin : begin + together])
            returns = self._play(env, callback, numbers, some[np.arange(env.num_envs) % len(some)])
            if returns is None:
                return False
            means += [returns[k :: len(some)].mean() for k in range(len(some))]
        self._returns = np.array(means)
        callback.on_rollout_end()
        return True

    def train(self) -> None:
        """Let CMA-ES learn from a generation, and put its mean into the network; then as PPO does."""
        if not self._candidates:
            return super().train()
        self._evolution.tell(self._candidates, -self._returns)
        self._candidates = []
        self._put_in(self._evolution.mean / REACH)
        self.logger.record("train/sigma", float(self._evolution.sigma))
        return None

    def _play(
        self, env: VecEnv, callback: BaseCallback, numbers: list[int], offsets: np.ndarray
    ) -> np.ndarray | None:
        """Hold offsets (N, weights), in scales, through windows; return what each environment is paid, % of its own."""
        env.set_options([{"window": number} for number in numbers])
        env.reset()
        actions = np.clip(offsets / REACH, -1.0, 1.0).astype(np.float32)
        returns, going = np.zeros(env.num_envs), np.ones(env.num_envs, bool)
        while going.any():
            _, rewards, dones, infos = env.step(actions)
            self.num_timesteps += env.num_envs
            cut = np.array([info["TimeLimit.truncated"] for info in infos])
            returns += np.where(cut, ENDLESS, rewards) * going
            self._update_info_buffer([info for info, on in zip(infos, going, strict=True) if on])
            callback.update_locals({"rewards": rewards[going], "infos": infos})
            if not callback.on_step():
                return None
            going &= ~dones
        return returns

    def _go_on(self, env: VecEnv) -> None:
        """Begin PPO at the best constants."""
        self._put_in(self._best)
        self._last_obs = env.reset()  # type: ignore[assignment]
        self._last_episode_starts = np.ones(env.num_envs, bool)
        self._went_on = True

    def _biases(self) -> torch.Tensor:
        policy: Any = self.policy
        found: torch.Tensor = policy.action_net.bias.detach()
        return found

    def _put_in(self, offsets: np.ndarray) -> None:
        with torch.no_grad():
            self._biases().copy_(torch.as_tensor(np.clip(offsets, -1.0, 1.0), dtype=torch.float32))


def side_by_side(env: VecEnv) -> int:
    """Return how many candidates can play at once, so that each plays as often on each workload."""
    of_workload = (len(list(each)) for _, each in groupby(env.get_attr("batch"), key=id))
    return math.gcd(TOGETHER, *of_workload)


def groups_of_windows(env: VecEnv, rng: np.random.Generator, size: int) -> list[int]:
    """Return a random window for each environment, shared by each `size` neighbours that have the same windows."""
    numbers: list[int] = []
    every = env.get_attr("windows")
    for i, windows in enumerate(every):
        alike = i % size > 0 and windows == every[i - 1]
        numbers.append(numbers[-1] if alike else int(rng.choice(windows)))
    return numbers
