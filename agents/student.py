"""A student of look-ahead: it learns what each move wins in imagined futures, and makes the one that wins most.

At every few choices all moves of a list are tried in imagined futures (`simulator.kernel.moves.rollouts`), and the
network learns by regression what each wins over the rule's own choice,

    score of k - score of own = SHARPNESS x won of k / scale,

with the scale the root of the mean square of what was won in the first rollout, and no more than `MOST` of it. Its
choice is the highest logit, so `base_scale` / `SHARPNESS` of the scale is the margin by which another move must win, at
first: each validation tries smaller ones too (`MARGINS`), and keeps the best.
While learning most choices are the rule's, so that what is seen is what becomes of it, some the network's own and some
drawn at random; all that was seen is kept (in the manner of DAgger: Ross, Gordon and Bagnell, AISTATS 2011). With its
own choices alone a network that has seen little soon sees nothing but what becomes of its mistakes.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from gpu_cluster_gym.agents.move_network import Listed, MoveNetwork, flat
from gpu_cluster_gym.agents.stepping import take_step
from gpu_cluster_gym.traces import stream

SHARPNESS = 10.0
MOST = 5.0  # times the scale that a move counts as winning or losing
EVERY = 4  # choices of an environment, of which one is looked at: neighbours are much alike
MARGINS = (1.0, 0.5, 0.25, 0.125)  # times the one with which it begins
AT_RANDOM, ITS_OWN = 0.1, 0.2  # shares of the choices while learning; the others are the rule's


class Student(PPO):
    """Supervised learning in the place of PPO: network, environments, curves and callbacks are those of PPO."""

    def __init__(self, *args: Any, teacher: Callable[[], np.ndarray], **kwargs: Any) -> None:
        """Take what PPO takes, and what tells job-seconds that each listed move wins now, (environments, places)."""
        super().__init__(*args, **kwargs)
        self._teacher = teacher
        self._rng = stream(self.seed or 0, "choices at random")
        self._seen: list[Tensor] = []
        self._won: list[Tensor] = []
        self._scale = 0.0
        self.margin = 1.0
        """By which another move must win where it plays, of `MARGINS`."""

    @property
    def network(self) -> MoveNetwork:
        """What scores moves."""
        network: Any = self.policy.mlp_extractor
        assert isinstance(network, MoveNetwork)
        return network

    @property
    def margins(self) -> tuple[float, ...]:
        """Those to try; the first alone while nothing has been learned."""
        return MARGINS if self._scale else MARGINS[:1]

    def playing(self) -> MoveNetwork:
        """Return a copy of the network as it plays: scores over the margin of now, which is as if it were smaller."""
        network = copy.deepcopy(self.network)
        with torch.no_grad():
            network.score.weight.mul_(1 / self.margin)
            network.score.bias.mul_(1 / self.margin)
        return network

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play, and keep what the teacher says of every few lists of moves."""
        callback.on_rollout_start()
        network = self.playing()
        for step in range(n_rollout_steps):
            seen: Any = self._last_obs
            vectors = flat(seen)
            if step % EVERY == 0:
                self._seen.append(vectors)
                self._won.append(torch.from_numpy(self._teacher().astype(np.float32)))
            if not take_step(self, env, self.choices(network, vectors), callback):
                return False
        callback.on_rollout_end()
        return True

    def choices(self, network: MoveNetwork, vectors: Tensor) -> np.ndarray:
        """Return a place for each list: the rule's choice, now and then the network's, or one at random."""
        seen = Listed.of(vectors)
        drawn = self._rng.random(len(vectors))
        own = seen.own.int().argmax(1).numpy()
        chosen = np.where(drawn < AT_RANDOM + ITS_OWN, network.choose(vectors).numpy(), own)
        reach = network.reach(seen).numpy()
        at_random = np.where(reach, self._rng.random(reach.shape), -1.0).argmax(1)
        return np.where(drawn < AT_RANDOM, at_random, chosen)

    def train(self) -> None:
        """Learn from batches of all that has been seen: as many as `n_epochs` passes over the last rollout take."""
        self._update_learning_rate(self.policy.optimizer)
        seen, won = torch.cat(self._seen), torch.cat(self._won)
        self._seen, self._won = [seen], [won]
        if not self._scale:
            others = won[self.network.others(Listed.of(seen))]
            self._scale = float(others[others != 0].square().mean().nan_to_num().sqrt()) or 1.0
        taught = max(1, self.n_steps // EVERY * self.n_envs // self.batch_size)
        losses = []
        for _ in range(self.n_epochs * taught):
            which = torch.from_numpy(self._rng.integers(len(seen), size=self.batch_size))
            loss = self.error(seen[which], won[which])
            self.policy.optimizer.zero_grad()
            loss.backward()
            self.policy.optimizer.step()
            losses.append(loss.item())
        self.logger.record("train/error", float(np.mean(losses)))
        self.logger.record("train/lists_taught", len(seen))
        self.logger.record("train/margin", self.network.base_scale / SHARPNESS * self.margin)

    def error(self, vectors: Tensor, won: Tensor) -> Tensor:
        """Return the mean square, in scales, by which the network is wrong about moves other than the rule's own."""
        seen = Listed.of(vectors)
        scores = self.network.scores(seen)
        others = self.network.others(seen)
        over_own = (scores - (scores * seen.own).sum(1, keepdim=True)) / SHARPNESS
        wrong = over_own - (won / self._scale).clamp(-MOST, MOST)
        return (wrong.square() * others).sum() / others.sum().clamp(min=1)
