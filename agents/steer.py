"""Learn to steer the rule over moves: PPO of Stable-Baselines3 as it is, on a Box of offsets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv, VecMonitor, VecNormalize

from gpu_cluster_gym.agents.distillation import Distilled
from gpu_cluster_gym.agents.evolution import Evolution
from gpu_cluster_gym.agents.initialization import searched
from gpu_cluster_gym.agents.learner import SAMPLING_SEED, Learner, Played, refuse_endless
from gpu_cluster_gym.agents.search import SearchFirst
from gpu_cluster_gym.agents.side_by_side import SideBySide
from gpu_cluster_gym.agents.steer_network import SteerNetwork
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv, batch
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.simulator.rule import Rule
from gpu_cluster_gym.simulator.steered import Offsets, arrivals_between

CRITIC_WIDTH = 64


class SteerLearner(Learner):
    """PPO whose noise is held for a rollout, which is about a window: so its effect can be told from chance."""

    @property
    def start(self) -> Rule:
        """The rule that the agent is compared with, in what it is paid too."""
        return Rule()

    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environments; the agent decides after so many arrivals on whatever workload."""
        every = arrivals_between(self.scenario.jobs, self.training.decisions)
        return super().environment() | {"arrivals_per_decision": every, "base_weights": asdict(self.begun.rule)}

    def held(self, numbers: dict[str, float]) -> Rule:
        """Return the rule with the agent's mean offsets: what is left of it without regard to the state."""
        weights = self.training.weights
        return Offsets(self.begun.rule, weights).rule(
            np.array([numbers[f"offset_{name}"] for name in weights])
        )

    def model(self) -> PPO:
        """Return the algorithm with its environments, nothing learned yet."""
        training = self.training
        algorithm: Callable[..., PPO] = PPO
        if training.evolves:
            algorithm = partial(Evolution, deviation=training.deviation)
        elif training.algorithm == "distillation":
            algorithm = partial(Distilled, first=training.first_phase, offsets=self.taught())
        elif training.first_phase:
            algorithm = partial(SearchFirst, first=training.first_phase, sigma=training.sigma)
        model = algorithm(
            "MlpPolicy",
            self.environments(),
            **self.ppo(),
            gamma=training.discount,
            use_sde=True,
            sde_sample_freq=-1,
            policy_kwargs={
                "log_std_init": float(np.log(training.exploration)),
                "net_arch": {"pi": [training.hidden], "vf": [CRITIC_WIDTH, CRITIC_WIDTH]},
                "activation_fn": torch.nn.Tanh,
            },
        )
        self.put_in(policy_of(model))
        return model

    def put_in(self, policy: ActorCriticPolicy) -> None:
        """Let the actor begin as the rule, or as the agent from which it goes on."""
        network: Any = self.begun.agent.network if self.begun.agent else None
        if network:
            policy.mlp_extractor.policy_net[0].load_state_dict(network.hidden[0].state_dict())
            policy.action_net.load_state_dict(network.offsets.state_dict())
            return
        with torch.no_grad():
            for parameter in policy.action_net.parameters():
                parameter.zero_()

    def environments(self) -> VecEnv:
        """Return the environments to learn in, an equal share of each workload; ValueError for fewer than workloads."""
        training, count = self.training, len(self.scenarios)
        each = self.at_once if count > 1 else 1
        if training.environments < each * count:
            few = "two" if each > 1 else "one"
            raise ValueError(
                f"environments {training.environments}: expected {few} a workload, {each * count}, or more"
            )
        parts: list[VecEnv] = [
            VecMonitor(ClusterVecEnv(batch(share, scenario, count=training.windows, **self.environment())))
            for share, scenario in zip(self.shares, self.scenarios.values(), strict=True)
        ]
        if training.normalize:
            parts = [
                VecNormalize(part, norm_obs=False, clip_reward=np.inf, gamma=training.discount)
                for part in parts
            ]
        envs = SideBySide(parts) if count > 1 else parts[0]
        return VecNormalize(envs, norm_reward=False, clip_obs=np.inf) if training.normalize else envs

    @property
    def shares(self) -> list[int]:
        """How many environments each workload has; of mirrored pairs both, and what is left over the last."""
        count, size = len(self.scenarios), self.at_once
        groups, over = divmod(self.training.environments, size)
        each, more = divmod(groups, count)
        return [size * (each + (k < more)) + over * (k == count - 1) for k in range(count)]

    @property
    def at_once(self) -> int:
        """How many environments have to be of one workload: mirrored pairs play the same window."""
        return 2 if self.training.evolves else 1

    def taught(self) -> np.ndarray:
        """Return the offsets of each environment's constants, (N, weights): 0 where no search found any.

        ValueError where there are none for any workload.
        """
        offsets = Offsets(self.begun.rule, self.training.weights)
        found = {name: searched(replace(each, shift=None)) for name, each in self.scenarios.items()}
        if not any(found.values()):
            raise ValueError(f"algorithm distillation: no constants were searched for {', '.join(found)}")
        rows = np.array([offsets.to(each or self.begun.rule) for each in found.values()])
        return np.repeat(rows, self.shares, axis=0)

    def network(self, model: PPO) -> SteerNetwork:
        """Return the actor."""
        policy = policy_of(model)
        found = SteerNetwork(len(self.training.weights), self.training.hidden)
        found.hidden[0].load_state_dict(policy.mlp_extractor.policy_net[0].state_dict())
        found.offsets.load_state_dict(policy.action_net.state_dict())
        if normalized := model.get_vec_normalize_env():
            seen: Any = normalized.obs_rms  # by the names of what is seen if it had several
            deviation = np.sqrt(seen.var + normalized.epsilon)
            found.take_in(*(torch.tensor(each, dtype=torch.float32) for each in (seen.mean, deviation)))
        return found

    def play(self, model: PPO, envs: GPUClusterVectorEnv, *, sampled: bool) -> Played:
        """Play every window; what is told besides is where each weight is moved, and how far it moves about."""
        assert isinstance(envs, GPUClusterVectorEnv)
        with torch.random.fork_rng(), own_noise(policy_of(model)):
            torch.manual_seed(SAMPLING_SEED)
            policy_of(model).reset_noise(envs.num_envs)
            table, offsets = play(envs, lambda seen: chosen(model, seen, sampled=sampled))
        named = dict(zip(self.training.weights, offsets.T, strict=True))
        return Played(
            table,
            {f"offset_{name}": float(moved.mean()) for name, moved in named.items()}
            | {f"spread_{name}": float(moved.std()) for name, moved in named.items()},
        )


def chosen(model: PPO, seen: np.ndarray, *, sampled: bool) -> np.ndarray:
    """Return the offsets (N, weights) that an algorithm chooses for what is seen, (N, loads)."""
    normalized = model.get_vec_normalize_env()
    actions, _ = model.predict(
        normalized.normalize_obs(seen) if normalized else seen, deterministic=not sampled
    )
    return actions


def policy_of(model: PPO) -> ActorCriticPolicy:
    """Return the policy of an algorithm."""
    policy = model.policy
    assert isinstance(policy, ActorCriticPolicy)
    return policy


@contextmanager
def own_noise(policy: ActorCriticPolicy) -> Iterator[None]:
    """Put the noise of exploration back that the environments of learning have drawn for a rollout."""
    noise: Any = policy.action_dist
    kept = noise.exploration_mat, noise.exploration_matrices
    try:
        yield
    finally:
        noise.exploration_mat, noise.exploration_matrices = kept


def play(envs: GPUClusterVectorEnv, choose: Callable[[np.ndarray], np.ndarray]) -> tuple[pd.DataFrame, np.ndarray]:
    """Play environment i on its window i to the end; return the results table and all offsets chosen, in rows."""
    windows = list(envs.env.windows[: envs.num_envs])
    seen, _ = envs.reset(options={"window": windows})
    going, offsets = np.ones(envs.num_envs, bool), []
    while going.any():
        actions = choose(seen)
        offsets.append(actions[going])
        seen, _, ended, cut, _ = envs.step(actions)
        refuse_endless(cut, windows[int(cut.argmax())])
        going &= ~ended
    tables = [envs.results(i) for i in range(envs.num_envs)]
    return pd.concat(tables, ignore_index=True), np.concatenate(offsets)
