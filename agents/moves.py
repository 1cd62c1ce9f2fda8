"""Agents that choose among moves, with every lever: a student of look-ahead, or PPO, on a network that scores moves.

The student: every few steps all moves of a list are tried in simulated futures (`simulator.kernel.moves.rollouts`).
The network regresses the advantage of each over the rule's own move, in job-seconds,

    score of k - score of own = SHARPNESS x advantage of k / scale,

where the scale is the root mean square of the advantages in the first rollout, and targets are clipped to `CLIP`
scales. The move with the highest logit is chosen, so `base_logit_scale` / `SHARPNESS`, in scales, is the margin by
which another move must beat the rule's own. Each validation also tries smaller margins (`MARGINS`), and keeps the best.

Most moves during training are the rule's, so that the states are those that it leads to; some are the network's, and
some are random. All observations are kept (similar to DAgger: Ross, Gordon and Bagnell, AISTATS 2011). With its own
moves only, a network that has seen little would soon see nothing but the results of its mistakes.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import CombinedExtractor
from stable_baselines3.common.vec_env import VecEnv, VecMonitor
from torch import Tensor

from gpu_cluster_gym.agents.checkpoint import new_network
from gpu_cluster_gym.agents.networks import Listed, MoveNetwork, ScoringPolicy, flat
from gpu_cluster_gym.agents.ppo import SAMPLING_SEED, Learner, Played, TwoPhases, play_windows, take_step
from gpu_cluster_gym.agents.training import MovesTraining
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv, batch
from gpu_cluster_gym.envs.moves import MovesBatch
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.traces import stream

SHARPNESS = 10.0
CLIP = 5.0  # limit of a regression target, in scales
EVERY = 4  # steps of an environment per labelled one: neighbouring lists are much alike
MARGINS = (1.0, 0.5, 0.25, 0.125)  # factors of the initial margin
RANDOM_SHARE, OWN_SHARE = 0.1, 0.2  # shares of the moves during training; the others are the rule's


class MovesLearner(Learner):
    """A student of look-ahead or PPO, whose network is initialised as the rule."""

    training: MovesTraining

    @property
    def start(self) -> Rule:
        """The default rule, to which scores are relative."""
        return Rule()

    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environments, in which the initial rule lists the moves."""
        return super().environment() | {"base_weights": asdict(self.initial.rule)}

    def model(self) -> TwoPhases:
        """Return the untrained algorithm with its environments."""
        training = self.training
        choices = self.environment() | {"futures": training.futures, "tau_s": training.tau_s}
        if training.algorithm == "ppo":
            choices |= {"reward": training.reward}
        envs = batch(training.num_envs, self.scenario, count=training.windows, **choices)
        keywords: dict[str, Any] = self.ppo() | {
            "gamma": training.gamma,
            "policy_kwargs": {
                "made": partial(new_network, training),
                "features_extractor_class": CombinedExtractor,
            },
        }
        if training.algorithm == "student":
            teacher = partial(choosing(envs).advantages_s, training.allowed_moves)
            return Student(ScoringPolicy, VecMonitor(ClusterVecEnv(envs)), teacher=teacher, **keywords)
        return TwoPhases(ScoringPolicy, VecMonitor(ClusterVecEnv(envs)), **keywords)

    def network(self, model: PPO) -> MoveNetwork:
        """Return the network, actor and critic."""
        if isinstance(model, Student):
            return model.playing()
        network: Any = model.policy.mlp_extractor
        assert isinstance(network, MoveNetwork)
        return network

    def play(self, model: PPO, envs: GPUClusterVectorEnv, *, sampled: bool) -> Played:
        """Play every window; the metric is the share of moves that are the rule's own."""
        assert isinstance(envs, GPUClusterVectorEnv)
        generator = torch.Generator().manual_seed(SAMPLING_SEED) if sampled else None
        table, agreement = play(envs, self.network(model), generator)
        return Played(table, {"agreement_with_start": agreement})


def choosing(envs: GPUClusterVectorEnv) -> MovesBatch:
    """Return the environments of a batch whose actions are moves."""
    assert isinstance(envs, GPUClusterVectorEnv)
    assert isinstance(envs.batch, MovesBatch)
    return envs.batch


def play(
    envs: GPUClusterVectorEnv, network: MoveNetwork, generator: torch.Generator | None = None
) -> tuple[pd.DataFrame, float]:
    """Play environment i on its window i to the end, all side by side; greedily without a generator.

    Return the results table and the share of moves that are the rule's own.
    """
    lists = choosing(envs).lists
    own: list[np.ndarray] = []

    def choose(seen: dict[str, np.ndarray], going: np.ndarray) -> np.ndarray:
        own.append(lists["own"][going])
        return network.choose(flat({name: part[going] for name, part in seen.items()}), generator).numpy()

    table, chosen = play_windows(envs, choose)
    return table, float((chosen == np.concatenate(own)).mean())


class Student(TwoPhases):
    """Supervised learning in place of PPO's updates, with the same network, environments, curves and callbacks."""

    counters = ("margin", "_scale")
    _rng: np.random.Generator

    def __init__(self, *args: Any, teacher: Callable[[], np.ndarray], **kwargs: Any) -> None:
        """Take the arguments of PPO, and the function that returns the current advantages_s, (environments, K)."""
        super().__init__(*args, **kwargs)
        self._teacher = teacher
        self._rng = stream(self.seed or 0, "choices at random")
        self._seen: list[Tensor] = []
        self._advantages_s: list[Tensor] = []
        self._scale = 0.0
        self.margin = 1.0
        """Margin in use, a factor of the initial one: one of `MARGINS`."""

    @property
    def network(self) -> MoveNetwork:
        """The network that scores moves."""
        network: Any = self.policy.mlp_extractor
        assert isinstance(network, MoveNetwork)
        return network

    @property
    def margins(self) -> tuple[float, ...]:
        """Margins to validate: the initial one only, before any training."""
        return MARGINS if self._scale else MARGINS[:1]

    def playing(self) -> MoveNetwork:
        """Return a copy of the network with the current margin: its scores are divided by it."""
        network = copy.deepcopy(self.network)
        with torch.no_grad():
            network.score.weight.mul_(1 / self.margin)
            network.score.bias.mul_(1 / self.margin)
        return network

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all observations so far, and their advantages."""
        kept = {"seen": self._seen, "advantages_s": self._advantages_s}
        return {name: torch.cat(parts).numpy() for name, parts in kept.items() if parts}

    def put_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the observations, and their advantages."""
        if arrays:
            self._seen, self._advantages_s = (
                [torch.from_numpy(arrays[name])] for name in ("seen", "advantages_s")
            )

    def play(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play, and keep the teacher's advantages of every few lists of moves."""
        callback.on_rollout_start()
        network = self.playing()
        for step in range(n_rollout_steps):
            seen: Any = self._last_obs
            vectors = flat(seen)
            if step % EVERY == 0:
                self._seen.append(vectors)
                self._advantages_s.append(torch.from_numpy(self._teacher().astype(np.float32)))
            if not take_step(self, env, self.choices(network, vectors), callback):
                return False
        callback.on_rollout_end()
        return True

    def choices(self, network: MoveNetwork, vectors: Tensor) -> np.ndarray:
        """Return a move for each list: the rule's own, sometimes the network's, or a random one."""
        seen = Listed.of(vectors)
        drawn = self._rng.random(len(vectors))
        own = seen.own.int().argmax(1).numpy()
        chosen = np.where(drawn < RANDOM_SHARE + OWN_SHARE, network.choose(vectors).numpy(), own)
        reach = network.reach(seen).numpy()
        at_random = np.where(reach, self._rng.random(reach.shape), -1.0).argmax(1)
        return np.where(drawn < RANDOM_SHARE, at_random, chosen)

    def train(self) -> None:
        """Regress on batches of all observations: as many as `n_epochs` passes over the last rollout have."""
        self._update_learning_rate(self.policy.optimizer)
        seen, advantages_s = torch.cat(self._seen), torch.cat(self._advantages_s)
        self._seen, self._advantages_s = [seen], [advantages_s]
        if not self._scale:
            others = advantages_s[self.network.others(Listed.of(seen))]
            self._scale = float(others[others != 0].square().mean().nan_to_num().sqrt()) or 1.0
        batches = max(1, self.n_steps // EVERY * self.n_envs // self.batch_size)
        losses = []
        for _ in range(self.n_epochs * batches):
            some = torch.from_numpy(self._rng.integers(len(seen), size=self.batch_size))
            loss = self.loss(seen[some], advantages_s[some])
            self.policy.optimizer.zero_grad()
            loss.backward()
            self.policy.optimizer.step()
            losses.append(loss.item())
        self.logger.record("train/loss", float(np.mean(losses)))
        self.logger.record("train/num_lists", len(seen))
        self.logger.record("train/margin", self.network.base_logit_scale / SHARPNESS * self.margin)

    def loss(self, vectors: Tensor, advantages_s: Tensor) -> Tensor:
        """Return the mean squared error, in scales, of the advantages of moves other than the rule's own."""
        seen = Listed.of(vectors)
        scores = self.network.scores(seen)
        others = self.network.others(seen)
        over_own = (scores - (scores * seen.own).sum(1, keepdim=True)) / SHARPNESS
        error = over_own - (advantages_s / self._scale).clamp(-CLIP, CLIP)
        return (error.square() * others).sum() / others.sum().clamp(min=1)
