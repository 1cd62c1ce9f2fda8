"""Warm starts of steering agents: a search for constants by CMA-ES, or distillation of known constants, before PPO.

Search: a candidate is one constant offset of each weight. Its value is the mean return on windows that all candidates
of a generation play. CMA-ES (Hansen 2016, arXiv 1604.00772) learns the correlations between weights, which the
independent noise of PPO does not. PPO then starts from the best validated candidate, in the biases of the actor.

Distillation (Rusu et al. 2016, arXiv 1511.06295): the network regresses the constants that a search found for each
workload (`baselines/constants`), in lessons (`agents.lessons`). It is not given the workload: it has to recognise it by
the load, as it must on a trace of the user's.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import cma
import numpy as np
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from gpu_cluster_gym.agents.lessons import LessonsFirst
from gpu_cluster_gym.agents.ppo import TwoPhases
from gpu_cluster_gym.simulator.rule_policy import REACH
from gpu_cluster_gym.traces import stream

POPULATION = 16  # candidates of a generation
TOGETHER = 4  # candidates that play each window side by side, where the environments divide evenly
STALLED = -100.0  # return of a window in which jobs pause one another forever, %


class SearchFirst(TwoPhases):
    """PPO after a search for constants.

    history: mean return of each candidate, for each generation so far.
    """

    counters = ("_ppo_started",)
    _rng: np.random.Generator

    def __init__(self, *args: Any, sigma: float, **kwargs: Any) -> None:
        """Take the arguments of PPO.

        first: steps of the search.
        sigma: initial standard deviation of the candidates, in scales of the weights.
        """
        super().__init__(*args, **kwargs)
        self._rng = stream(self.seed or 0, "search of constants")
        self._best, self._ppo_started = self._biases().numpy().copy(), False
        choices = {
            "popsize": POPULATION,
            "randn": lambda *shape: self._rng.standard_normal(shape),
            "seed": np.nan,  # leaves NumPy's global generator alone
            "verbose": -9,
        }
        self._evolution = cma.CMAEvolutionStrategy(REACH * self._best, sigma, choices)
        self._candidates: list[np.ndarray] = []
        self._returns = np.empty(0)
        self.history: list[np.ndarray] = []

    @property
    def begins_anew(self) -> bool:
        """Whether the next rollout is a generation, or the first of PPO."""
        return not self._ppo_started

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the best constants, and the returns of all generations."""
        return {"best": self._best} | {f"returns/{k}": each for k, each in enumerate(self.history)}

    def put_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the best constants, and repeat the search from its returns."""
        self._best[:] = arrays["best"]
        self.replay([arrays[f"returns/{k}"] for k in range(len(arrays) - 1)])

    def keep(self) -> None:
        """Remember the current constants as the start of PPO."""
        self._best = self._biases().numpy().copy()

    def play(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play a generation of the search, or a rollout of PPO."""
        if not self.in_first:
            if not self._ppo_started:
                callback.on_rollout_start()  # validates the last constants, which may be the best
                self._start_ppo(env)
            return super().play(env, callback, rollout_buffer, n_rollout_steps)
        callback.on_rollout_start()
        self._candidates = self._evolution.ask()
        together = side_by_side(env)
        numbers = groups_of_windows(env, self._rng, together)
        means: list[float] = []
        for begin in range(0, len(self._candidates), together):
            # Environment i plays candidate i modulo `together`; each candidate plays every window of the generation.
            some = np.array(self._candidates[begin : begin + together])
            returns = self._play(env, callback, numbers, some[np.arange(env.num_envs) % len(some)])
            if returns is None:
                return False
            means += [returns[k :: len(some)].mean() for k in range(len(some))]
        self._returns = np.array(means)
        callback.on_rollout_end()
        return True

    def train(self) -> None:
        """Update CMA-ES by a generation, and set the network to its mean; or update PPO."""
        if not self._candidates:
            return super().train()
        self._learn(self._returns)
        self._set_biases(self._evolution.mean / REACH)
        self.logger.record("train/sigma", float(self._evolution.sigma))
        return None

    def replay(self, history: Sequence[np.ndarray]) -> None:
        """Repeat the generations of a search from their returns, without playing them."""
        assert self.env is not None
        for returns in history:
            self._candidates = self._evolution.ask()
            groups_of_windows(
                self.env, self._rng, side_by_side(self.env)
            )  # takes the draws of that generation
            self._learn(returns)

    def _learn(self, returns: np.ndarray) -> None:
        """Update CMA-ES by the mean return of each candidate."""
        self._evolution.tell(self._candidates, -returns)  # CMA-ES minimises
        self.history.append(returns)
        self._candidates = []

    def _play(
        self, env: VecEnv, callback: BaseCallback, numbers: list[int], offsets: np.ndarray
    ) -> np.ndarray | None:
        """Play windows with constant offsets (N, weights), in scales; return the return of each environment, %.

        Return None where a callback stops training.
        """
        env.set_options([{"window": number} for number in numbers])
        env.reset()
        actions = np.clip(offsets / REACH, -1.0, 1.0).astype(np.float32)
        returns, going = np.zeros(env.num_envs), np.ones(env.num_envs, bool)
        while going.any():
            _, rewards, dones, infos = env.step(actions)
            self.num_timesteps += env.num_envs
            cut = np.array([info["TimeLimit.truncated"] for info in infos])
            returns += np.where(cut, STALLED, rewards) * going
            self._update_info_buffer([info for info, on in zip(infos, going, strict=True) if on])
            callback.update_locals({"rewards": rewards[going], "infos": infos})
            if not callback.on_step():
                return None
            going &= ~dones
        return returns

    def _start_ppo(self, env: VecEnv) -> None:
        self._set_biases(self._best)
        self._last_obs = env.reset()  # type: ignore[assignment]
        self._last_episode_starts = np.ones(env.num_envs, bool)
        self._ppo_started = True

    def _biases(self) -> torch.Tensor:
        policy: Any = self.policy
        found: torch.Tensor = policy.action_net.bias.detach()
        return found

    def _set_biases(self, offsets: np.ndarray) -> None:
        with torch.no_grad():
            self._biases().copy_(torch.as_tensor(np.clip(offsets, -1.0, 1.0), dtype=torch.float32))


def side_by_side(env: VecEnv) -> int:
    """Return the number of candidates that can play at once, so that each plays each workload equally often."""
    of_workload = (len(list(each)) for _, each in groupby(env.get_attr("batch"), key=id))
    return math.gcd(TOGETHER, *of_workload)


def groups_of_windows(env: VecEnv, rng: np.random.Generator, size: int) -> list[int]:
    """Return a random window for each environment, shared by each `size` neighbours of the same windows."""
    numbers: list[int] = []
    every = env.get_attr("windows")
    for i, windows in enumerate(every):
        alike = i % size > 0 and windows == every[i - 1]
        numbers.append(numbers[-1] if alike else int(rng.choice(windows)))
    return numbers


class Distilled(LessonsFirst):
    """PPO after distillation of constants, those of its workload for each environment."""

    lesson_steps, plays_greedily = 600, True

    def __init__(self, *args: Any, offsets: np.ndarray, **kwargs: Any) -> None:
        """Take the arguments of PPO.

        first: steps of the distillation.
        offsets: the teacher's offsets in each environment, (N, weights), -1 to 1.
        """
        self._offsets = offsets.astype(np.float32)
        super().__init__(*args, stream_name="lessons", **kwargs)

    def imitating_parameters(self) -> Iterable[torch.nn.Parameter]:
        """Return the parameters of the actor."""
        policy: Any = self.policy
        return [*policy.mlp_extractor.policy_net.parameters(), *policy.action_net.parameters()]

    def teach(self, seen: np.ndarray) -> np.ndarray:
        """Return the constants: (N, weights)."""
        return self._offsets

    def error(self, seen: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean squared difference of the most likely actions and the constants."""
        policy: Any = self.policy
        error: torch.Tensor = (policy.get_distribution(seen).mode() - targets).square().mean()
        return error
