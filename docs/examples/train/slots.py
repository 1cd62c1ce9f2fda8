"""Policies of Stable-Baselines3 that score every action with the same weights, whatever its slot.

A job moves from slot to slot as others leave, so a network with separate weights for each slot has to learn everything
64 times, and learns nothing in two minutes. `maskable_ppo`, `sb3_ppo` and `sb3_dqn` in this folder use these policies.
"""

import argparse
from collections.abc import Callable
from math import prod
from typing import Any
from zlib import crc32

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import Tensor, nn

from gpu_cluster_gym.agents.vec_env import ClusterVecEnv
from gpu_cluster_gym.evaluate import main

UNLIKELY = 10.0  # by which the score of an illegal action is lower
RARE = (
    -6.0
)  # score with which pauses begin, and claims beside starts that fit: a random agent ruins its own schedule


class SlotScores(BaseFeaturesExtractor):
    """Scores of all actions (..., K + R + 1) by observations `sets` (..., n), from each job and the totals."""

    def __init__(self, space: gymnasium.Space[Any], choices: dict[str, Any], hidden: int = 32) -> None:
        """Read the layout of observations. choices: keywords of the environment."""
        env: Any = gymnasium.make("gpu_cluster_gym:GPUCluster-v2", **choices).unwrapped
        self.shapes = env.shapes
        self.may_pause, self.fits = (
            env.columns["running"].index("may_pause"),
            env.columns["queue"].index("fits"),
        )
        super().__init__(space, self.shapes["queue"][0] + self.shapes["running"][0] + 1)
        totals = self.shapes["totals"][0]

        def scorer(inputs: int, bias: float = 0.0) -> nn.Module:
            layers = nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
            last = nn.Linear(hidden, 1)
            nn.init.constant_(last.bias, bias)
            return nn.Sequential(*layers, last)

        self.start = scorer(self.shapes["queue"][1] + totals)
        self.pause = scorer(self.shapes["running"][1] + totals, RARE)
        self.wait, self.claim = scorer(totals), nn.Parameter(torch.tensor(RARE))

    def forward(self, seen: Tensor) -> Tensor:
        """Return the scores: starts, pauses, waiting."""
        parts = seen.split([prod(shape) for shape in self.shapes.values()], dim=-1)
        queue, totals, legal, running = (
            part.unflatten(-1, shape) for part, shape in zip(parts, self.shapes.values(), strict=True)
        )
        starts, pauses = (
            scorer(torch.cat([rows, totals.unsqueeze(-2).expand(*rows.shape[:-1], -1)], dim=-1)).squeeze(-1)
            for scorer, rows in ((self.start, queue), (self.pause, running))
        )
        starts = starts + self.claim * (1.0 - queue[..., self.fits])
        may = torch.cat([legal[..., :-1], running[..., self.may_pause], legal[..., -1:]], dim=-1)
        return torch.cat([starts, pauses, self.wait(totals)], dim=-1) - UNLIKELY * (1.0 - may)


def slot_critic(space: gymnasium.Space[Any], choices: dict[str, Any]) -> nn.Sequential:
    """Return a critic: scores of its own, and a layer on top of them."""
    scores = SlotScores(space, choices)
    return nn.Sequential(scores, nn.Linear(scores.features_dim, 64), nn.Tanh(), nn.Linear(64, 1))


def scaled(env: gymnasium.Env[Any, Any], factor: float = 0.05) -> gymnasium.Env[Any, Any]:
    """Return an environment whose rewards are of the order of 1."""
    return gymnasium.wrappers.TransformReward(env, lambda reward: factor * float(reward))


def trained(file: str, choices: dict[str, Any]) -> SlotScores:
    """Return a saved network. choices: keywords of the environment."""
    network = SlotScores(gymnasium.spaces.Box(-1, 1), choices)
    network.load_state_dict(torch.load(file, weights_only=True))
    return network


@torch.no_grad()
def sample(network: Callable[[Tensor], Tensor], seen: Any, mask: Any, temperature: float = 1.0) -> int:
    """Return a legal action, sampled by the softmax of the scores; it depends on the observation alone."""
    generator = torch.Generator().manual_seed(crc32(seen.tobytes()))
    scores = network(torch.from_numpy(seen)).masked_fill(~torch.from_numpy(mask), -torch.inf)
    return int(torch.multinomial((scores / temperature).softmax(-1), 1, generator=generator))


def training_envs(count: int, choices: dict[str, Any]) -> VecNormalize:
    """Return a batch of environments that draw training windows, with rewards divided by their running deviation."""
    batch: Any = gymnasium.make_vec("gpu_cluster_gym:GPUCluster-v2", count, autoreset="Disabled", **choices)
    return VecNormalize(VecMonitor(ClusterVecEnv(batch), info_keywords=("jct_ratio",)), norm_obs=False)


def keywords(choices: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return `policy_kwargs` for the policies below. choices: keywords of the environment."""
    extractor = {"features_extractor_class": SlotScores, "features_extractor_kwargs": {"choices": choices}}
    return extractor | others


class JctCurve(BaseCallback):
    """Logs `jct/of_fifo`, the first chart of TensorBoard: mean JCT over FIFO's in the last 100 training windows."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        if ended := self.model.ep_info_buffer:
            self.logger.record_mean("jct/of_fifo", sum(each["jct_ratio"] for each in ended) / len(ended))


class ScoresAreLogits:
    """The logits of the actor are the scores; the critic has an extractor of its own, and a layer on top of it."""

    def __init__(self, *args: Any, **given: Any) -> None:
        """Take the arguments of the policy."""
        net_arch = {"pi": [], "vf": [64]}
        super().__init__(*args, share_features_extractor=False, net_arch=net_arch, **given)  # type: ignore[call-arg]

    def _build(self: Any, lr_schedule: Any) -> None:
        super()._build(lr_schedule)  # type: ignore[misc]
        self.add_module("action_net", nn.Identity())
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)


class SlotPolicy(ScoresAreLogits, ActorCriticPolicy):
    """Policy of PPO."""


class SlotAdvantages(SlotScores):
    """The scores, and the value of the state, which is the same for all actions (a dueling network)."""

    def __init__(self, space: gymnasium.Space[Any], choices: dict[str, Any], hidden: int = 32) -> None:
        """Read the layout of observations. choices: keywords of the environment."""
        super().__init__(space, choices, hidden)
        layers = nn.Linear(self.shapes["totals"][0], hidden), nn.Tanh(), nn.Linear(hidden, 1)
        self.level = nn.Sequential(*layers)

    def forward(self, seen: Tensor) -> Tensor:
        """Return the values of actions: starts, pauses, waiting."""
        begin = prod(self.shapes["queue"])
        level: Tensor = self.level(seen[..., begin : begin + self.shapes["totals"][0]])
        return super().forward(seen) + level


class TimedTransitions(ReplayBuffer):
    """Stores the actions that were executed, and discounts by simulated time, in addition to `gamma` for each step.

    Otherwise illegal actions get the values of the legal ones in their place. DQN multiplies the value of the next
    state by 1 - `done`, so `done` is the share by which rewards of later steps are discounted.
    """

    horizon_s = 7200.0  # simulated time in which the discount factor falls to 1 / e

    def add(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]
    ) -> None:
        """Store a step of each environment."""
        executed = np.array([info["executed"] for info in infos])
        elapsed = np.array([info["elapsed"] for info in infos])
        lost = np.where(done, 1.0, -np.expm1(-elapsed / self.horizon_s))
        super().add(obs, next_obs, executed.reshape(action.shape), reward, lost, infos)


class SlotValues(DQNPolicy):
    """Policy of DQN, whose values of actions are the scores."""

    def make_q_net(self) -> QNetwork:
        """Return the network."""
        network = super().make_q_net()
        network.add_module("q_net", nn.Identity())
        return network


def command(name: str, train: Callable[[int, int], None], workload: str) -> None:
    """Train by the options of the command line, then print a table of test windows. name: of the example."""
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int, help="steps of training; 100000 take about two minutes")
    parser.add_argument("--seed", type=int, default=0, help="seed of the network and of the windows drawn")
    parser.add_argument("--windows", default="24", help="test windows of the table at the end")
    chosen = parser.parse_args()
    train(chosen.steps, chosen.seed)
    score(name, workload, chosen.windows)


def score(name: str, workload: str, windows: str) -> None:
    """Print a table of test windows. name: of the example."""
    beside = ["random_legal", f"docs.examples.train.{name}:policy", "first_legal", "fifo", "sjf", "srtf"]
    main(["--policy", *beside, "--workload", workload, "--windows", windows])
