"""Learn to choose among moves, with every lever: PPO, or a student of look-ahead, on one network that scores moves."""

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import CombinedExtractor
from stable_baselines3.common.vec_env import VecMonitor

from gpu_cluster_gym.agents.checkpoint import new_network
from gpu_cluster_gym.agents.learner import SAMPLING_SEED, Learner, Played, refuse_endless
from gpu_cluster_gym.agents.move_network import MoveNetwork, flat
from gpu_cluster_gym.agents.scoring import ScoringPolicy
from gpu_cluster_gym.agents.student import Student
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv, batch
from gpu_cluster_gym.envs.moves import MovesBatch
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.simulator.rule import Rule


class MovesLearner(Learner):
    """PPO or a student, whose network begins as the rule over moves."""

    @property
    def start(self) -> Rule:
        """The rule that the agent is compared with."""
        return Rule()

    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environments, whose own choices are those of the rule at which it begins."""
        return super().environment() | {"base_weights": asdict(self.begun.rule)}

    def model(self) -> PPO:
        """Return the algorithm with its environments, nothing learned yet."""
        training = self.training
        choices = self.environment() | {"futures": training.futures, "tau_s": training.tau_s}
        if training.algorithm == "ppo" and training.reward == "rollout_advantage":
            choices |= {"reward": training.reward}
        envs = batch(training.environments, self.scenario, count=training.windows, **choices)
        keywords: dict[str, Any] = self.ppo() | {
            "gamma": training.discount,
            "policy_kwargs": {
                "made": partial(new_network, training),
                "features_extractor_class": CombinedExtractor,
            },
        }
        if training.algorithm == "student":
            teacher = partial(choosing(envs).advantages_s, training.instead)
            return Student(ScoringPolicy, VecMonitor(ClusterVecEnv(envs)), teacher=teacher, **keywords)
        return PPO(ScoringPolicy, VecMonitor(ClusterVecEnv(envs)), **keywords)

    def network(self, model: PPO) -> MoveNetwork:
        """Return the network, actor and critic."""
        if isinstance(model, Student):
            return model.playing()
        network: Any = model.policy.mlp_extractor
        assert isinstance(network, MoveNetwork)
        return network

    def play(self, model: PPO, envs: GPUClusterVectorEnv, *, sampled: bool) -> Played:
        """Play every window; what is told besides is the share of choices that the rule would have made."""
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

    Returns the results table and the share of choices that the rule would have made too.
    """
    windows = list(envs.env.windows[: envs.num_envs])
    lists = choosing(envs).lists
    seen, _ = envs.reset(options={"window": windows})
    going = np.ones(envs.num_envs, bool)
    agreed = choices = 0
    while going.any():
        actions = np.zeros(envs.num_envs, np.int64)
        actions[going] = network.choose(flat({name: part[going] for name, part in seen.items()}), generator)
        agreed += int((actions == lists["own"])[going].sum())
        choices += int(going.sum())
        seen, _, ended, cut, _ = envs.step(actions)
        refuse_endless(cut, windows[int(cut.argmax())])
        going &= ~ended
    tables = [envs.results(i) for i in range(envs.num_envs)]
    return pd.concat(tables, ignore_index=True), agreed / choices
