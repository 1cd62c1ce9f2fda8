"""Learner of the action `plain`: masked PPO that starts and pauses jobs without a built-in rule."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

from gpu_cluster_gym.agents.checkpoint import new_network
from gpu_cluster_gym.agents.imitation import ImitationFirst
from gpu_cluster_gym.agents.networks import ScoringPolicy
from gpu_cluster_gym.agents.ppo import SAMPLING_SEED, Learner, Played, play_windows
from gpu_cluster_gym.agents.set_network import SamplingAgent, SetNetwork
from gpu_cluster_gym.agents.timed_ppo import Endless, TimedBuffer, TimedPPO
from gpu_cluster_gym.agents.training import PlainTraining
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv, batch
from gpu_cluster_gym.envs.batch import named_reward
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import Scenario


class PlainLearner(Learner):
    """PPO that discounts by simulated time, on a set network."""

    training: PlainTraining
    samples = True

    def __init__(self, scenario: Scenario, training: PlainTraining, threads: int = 1) -> None:
        """Prepare training, as the base class does; ValueError for a reward that cannot be loaded."""
        super().__init__(scenario, training, threads)
        named_reward(training.reward)  # now, since windows are drawn for half a minute before training begins

    @property
    def start(self) -> Ranking:
        """FIFO, the reference policy; the agent is not based on it."""
        return Ranking("submit")

    def model(self) -> TimedPPO:
        """Return the untrained algorithm with its environments."""
        training = self.training
        choices = training.environment() | {"reward": training.reward, "count": training.windows}
        envs = batch(training.num_envs, self.scenario, **choices)
        algorithm: Callable[..., TimedPPO] = TimedPPO
        if training.first_phase:
            gpus = envs.batch.windows[0].workload.cluster.num_gpus
            algorithm = partial(ImitationFirst, first=training.first_phase, gpus=gpus)
        return algorithm(
            ScoringPolicy,
            VecMonitor(Endless(ClusterVecEnv(envs), training.tau_s)),
            **self.ppo(),
            gamma=1.0,  # time is discounted by the buffer
            critic_first=training.critic_first,
            without_arrivals=training.without_arrivals,
            rollout_buffer_class=TimedBuffer,
            rollout_buffer_kwargs={"tau_s": training.tau_s},
            policy_kwargs={"made": partial(new_network, training)},
        )

    def environment_in_use(self) -> dict[str, Any]:
        """Return the keywords of the environments of validations, with as many queue slots as after training."""
        return self.training.in_use().environment() | {"threads": self.threads}

    def network(self, model: PPO) -> SetNetwork:
        """Return the network of actor and critic."""
        network = model.policy.mlp_extractor
        assert isinstance(network, SetNetwork)
        return network

    def play(self, model: PPO, envs: GPUClusterVectorEnv, *, sampled: bool) -> Played:
        """Play every window; also return the numbers of decisions and of pauses per window."""
        generator = torch.Generator().manual_seed(SAMPLING_SEED) if sampled else None
        return Played(*play(envs, self.network(model), generator))

    def step_metrics(self, infos: list[dict[str, Any]]) -> dict[str, list[float]]:
        """Return the metrics of a training step, including the simulated hours."""
        hours = [info["elapsed"] / 3600.0 for info in infos]
        return super().step_metrics(infos) | {"simulated_hours": hours}


def play(
    envs: GPUClusterVectorEnv, network: SetNetwork, generator: torch.Generator | None = None
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Play environment i on its window i to the end, in one batch.

    generator: samples the actions; None for the most likely ones.
    Return the results table, and the mean numbers of decisions and of pauses per window.
    """
    network = network.observing(envs.batch.actions.queue_slots)  # type: ignore[attr-defined]
    first_pause, wait = network.slots, envs.single_action_space.n - 1  # type: ignore[attr-defined]
    table, chosen = play_windows(
        envs, lambda seen, going: network.choose(torch.from_numpy(seen[going]), generator).numpy()
    )
    pauses = int(((chosen >= first_pause) & (chosen < wait)).sum())
    return table, {"decisions": len(chosen) / envs.num_envs, "pauses": pauses / envs.num_envs}


def untrained(training: PlainTraining) -> SamplingAgent:
    """Return an agent with random weights: the floor of agents trained by `--action plain`."""
    torch.manual_seed(training.learning_seed or 0)
    network = new_network(training)
    assert isinstance(network, SetNetwork)
    return SamplingAgent(network, training.in_use().acting())
