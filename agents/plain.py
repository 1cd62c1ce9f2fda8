"""Learner of the action `plain`: masked PPO with a shared scorer of queue slots, initialised as a heuristic."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

from gpu_cluster_gym.agents.checkpoint import new_network
from gpu_cluster_gym.agents.networks import ScoringPolicy
from gpu_cluster_gym.agents.ppo import SAMPLING_SEED, Learner, Played, refuse_stalled
from gpu_cluster_gym.agents.slot_network import SlotNetwork
from gpu_cluster_gym.agents.slot_ppo import TimedBuffer, TimedPPO
from gpu_cluster_gym.agents.training import PlainTraining
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv, batch
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.simulator.policy import Ranking


class PlainLearner(Learner):
    """PPO that discounts by simulated time, with a network initialised as the base policy."""

    training: PlainTraining

    @property
    def start(self) -> Ranking:
        """The base policy."""
        return self.training.base_policy

    def model(self) -> TimedPPO:
        """Return the untrained algorithm with its environments."""
        training = self.training
        choices = training.environment() | {"reward": training.reward, "count": training.windows}
        envs = batch(training.num_envs, self.scenario, **choices)
        return TimedPPO(
            ScoringPolicy,
            VecMonitor(ClusterVecEnv(envs)),
            **self.ppo(),
            gamma=1.0,  # time is discounted by the buffer
            rollout_buffer_class=TimedBuffer,
            rollout_buffer_kwargs={"tau_s": training.tau_s},
            policy_kwargs={"made": partial(new_network, training)},
        )

    def network(self, model: PPO) -> SlotNetwork:
        """Return the network of actor and critic."""
        network = model.policy.mlp_extractor
        assert isinstance(network, SlotNetwork)
        return network

    def play(self, model: PPO, envs: GPUClusterVectorEnv, *, sampled: bool) -> Played:
        """Play every window; also return the share of choices that agree with the base policy."""
        generator = torch.Generator().manual_seed(SAMPLING_SEED) if sampled else None
        table, agreement = play(envs, self.network(model), generator)
        return Played(table, {"agreement_with_start": agreement})

    def step_metrics(self, infos: list[dict[str, Any]]) -> dict[str, list[float]]:
        """Return the metrics of a training step, agreement with the base policy among them."""
        return super().step_metrics(infos) | {"agreement_with_start": [info["agrees"] for info in infos]}


def play(
    envs: GPUClusterVectorEnv, network: SlotNetwork, generator: torch.Generator | None = None
) -> tuple[pd.DataFrame, float]:
    """Play environment i on its window i to the end, in one batch; greedily without a generator.

    Return the results table and the share of decisions that agree with the base policy.
    """
    windows = list(envs.env.windows[: envs.num_envs])
    seen, _ = envs.reset(options={"window": windows})
    going = np.arange(envs.num_envs)
    actions = np.zeros(envs.num_envs, np.int64)
    agreed = decisions = 0
    while len(going):
        actions[going] = network.choose(torch.from_numpy(seen[going]), generator).numpy()
        seen, _, ended, cut, info = envs.step(actions)
        refuse_stalled(cut, windows[int(cut.argmax())])
        agreed += int(info["agrees"].sum())
        decisions += len(going)
        going = going[~ended[going]]
    tables = [envs.results(i) for i in range(envs.num_envs)]
    return pd.concat(tables, ignore_index=True), agreed / decisions
