"""Steering agents: the unchanged PPO of Stable-Baselines3 on a Box of offsets of the rule's weights."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import Wrapper
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv, VecMonitor, VecNormalize
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from gpu_cluster_gym.agents.initialization import searched
from gpu_cluster_gym.agents.networks import SteerNetwork
from gpu_cluster_gym.agents.ppo import SAMPLING_SEED, Learner, Played, TwoPhases, play_windows
from gpu_cluster_gym.agents.training import SteerTraining
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv, batch
from gpu_cluster_gym.agents.warm_start import Distilled, SearchFirst
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule, arrivals_per_decision

CRITIC_WIDTH = 64


class SteerLearner(Learner):
    """PPO with gSDE: noise is constant for a rollout, about a window, so that its effect is visible despite chance."""

    training: SteerTraining

    @property
    def start(self) -> Rule:
        """The default rule, to which rewards and scores are relative."""
        return Rule()

    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environments; decisions are equally many arrivals apart on every workload."""
        every = arrivals_per_decision(self.scenario.jobs, self.training.decisions_per_window)
        return super().environment() | {
            "arrivals_per_decision": every,
            "base_weights": asdict(self.initial.rule),
        }

    def constant_policy(self, metrics: dict[str, float]) -> Rule:
        """Return the rule with the agent's mean offsets: the agent without its dependence on the state."""
        weights = self.training.weights
        return Offsets(self.initial.rule, weights).rule_at(
            np.array([metrics[f"offset_{name}"] for name in weights])
        )

    def model(self) -> TwoPhases:
        """Return the untrained algorithm with its environments."""
        training = self.training
        algorithm: Callable[..., TwoPhases] = TwoPhases
        if training.algorithm == "distillation":
            algorithm = partial(Distilled, first=training.first_phase, offsets=self.teacher_offsets())
        elif training.first_phase:
            algorithm = partial(SearchFirst, first=training.first_phase, sigma=training.sigma)
        model = algorithm(
            "MlpPolicy",
            self.environments(),
            **self.ppo(),
            gamma=training.gamma,
            use_sde=True,
            sde_sample_freq=-1,
            policy_kwargs={
                "log_std_init": float(np.log(training.exploration)),
                "net_arch": {"pi": [training.hidden], "vf": [CRITIC_WIDTH, CRITIC_WIDTH]},
                "activation_fn": torch.nn.Tanh,
            },
        )
        self.initialise(policy_of(model))
        return model

    def initialise(self, policy: ActorCriticPolicy) -> None:
        """Set the actor to answer 0, which is the rule itself, or to the agent that is trained further."""
        network: Any = self.initial.agent.network if self.initial.agent else None
        if network:
            policy.mlp_extractor.policy_net[0].load_state_dict(network.hidden[0].state_dict())
            policy.action_net.load_state_dict(network.offsets.state_dict())
            return
        with torch.no_grad():
            for parameter in policy.action_net.parameters():
                parameter.zero_()

    def environments(self) -> VecEnv:
        """Return the training environments, equal shares of each workload; ValueError for fewer than workloads."""
        training, count = self.training, len(self.scenarios)
        if training.num_envs < count:
            raise ValueError(
                f"--num-envs {training.num_envs}: expected at least {count}, one per workload and shift"
            )
        parts: list[VecEnv] = [
            VecMonitor(ClusterVecEnv(batch(share, scenario, count=training.windows, **self.environment())))
            for share, scenario in zip(self.shares, self.scenarios.values(), strict=True)
        ]
        if training.normalize:
            parts = [
                VecNormalize(part, norm_obs=False, clip_reward=np.inf, gamma=training.gamma) for part in parts
            ]
        envs = SideBySide(parts) if count > 1 else parts[0]
        return VecNormalize(envs, norm_reward=False, clip_obs=np.inf) if training.normalize else envs

    @property
    def shares(self) -> list[int]:
        """Number of environments of each workload."""
        each, more = divmod(self.training.num_envs, len(self.scenarios))
        return [each + (k < more) for k in range(len(self.scenarios))]

    def teacher_offsets(self) -> np.ndarray:
        """Return the offsets of the constants of each environment's workload, (N, weights); 0 where none exist.

        Raise ValueError where no workload has any.
        """
        offsets = Offsets(self.initial.rule, self.training.weights)
        found = {name: searched(replace(each, shift=None)) for name, each in self.scenarios.items()}
        if not any(found.values()):
            raise ValueError(
                "--algorithm distillation requires constants, but none exist for any training workload: use "
                "--algorithm ppo, or name a workload that has some"
            )
        rows = np.array([offsets.of_rule(each or self.initial.rule) for each in found.values()])
        return np.repeat(rows, self.shares, axis=0)

    def network(self, model: PPO) -> SteerNetwork:
        """Return the actor, with the normalisation of observations absorbed."""
        policy = policy_of(model)
        found = SteerNetwork(len(self.training.weights), self.training.hidden)
        found.hidden[0].load_state_dict(policy.mlp_extractor.policy_net[0].state_dict())
        found.offsets.load_state_dict(policy.action_net.state_dict())
        if normalized := model.get_vec_normalize_env():
            seen: Any = normalized.obs_rms  # a dict if observations had several parts
            deviation = np.sqrt(seen.var + normalized.epsilon)
            found.absorb_normalization(
                *(torch.tensor(each, dtype=torch.float32) for each in (seen.mean, deviation))
            )
        return found

    def play(self, model: PPO, envs: GPUClusterVectorEnv, *, sampled: bool) -> Played:
        """Play every window; the metrics are mean and standard deviation of each weight's offset."""
        assert isinstance(envs, GPUClusterVectorEnv)
        with torch.random.fork_rng(), kept_noise(policy_of(model)):
            torch.manual_seed(SAMPLING_SEED)
            policy_of(model).reset_noise(envs.num_envs)
            table, offsets = play_windows(
                envs, lambda seen, going: chosen(model, seen, sampled=sampled)[going]
            )
        named = dict(zip(self.training.weights, offsets.T, strict=True))
        return Played(
            table,
            {f"offset_{name}": float(moved.mean()) for name, moved in named.items()}
            | {f"spread_{name}": float(moved.std()) for name, moved in named.items()},
        )


def chosen(model: PPO, seen: np.ndarray, *, sampled: bool) -> np.ndarray:
    """Return the offsets (N, weights) that an algorithm chooses for raw loads (N, loads)."""
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
def kept_noise(policy: ActorCriticPolicy) -> Iterator[None]:
    """Restore, at the end, the exploration noise that the training environments use for the current rollout."""
    noise: Any = policy.action_dist
    kept = noise.exploration_mat, noise.exploration_matrices
    try:
        yield
    finally:
        noise.exploration_mat, noise.exploration_matrices = kept


class SideBySide(VecEnv):
    """Batches of environments of several workloads as one VecEnv; they are stepped in parallel, one thread each."""

    def __init__(self, parts: Sequence[VecEnv]) -> None:
        """Take at least one batch; ValueError where their spaces differ."""
        first = parts[0]
        if any(
            (each.observation_space, each.action_space) != (first.observation_space, first.action_space)
            for each in parts
        ):
            raise ValueError(
                "vector environments that are trained together must have equal observation and action spaces"
            )
        self.parts = tuple(parts)
        self._begins = np.cumsum([each.num_envs for each in parts])[:-1].tolist()
        super().__init__(sum(each.num_envs for each in parts), first.observation_space, first.action_space)

    def reset(self) -> Any:
        """Start a window in every environment, by the seeds and options set before; return the observations."""
        for part, begin in zip(self.parts, (0, *self._begins), strict=True):
            if self._seeds[begin] is not None:
                part.seed(self._seeds[begin])
            part.set_options(self._options[begin : begin + part.num_envs])
        self._reset_seeds()
        self._reset_options()
        seen = np.concatenate([part.reset() for part in self.parts])
        self.reset_infos = [info for part in self.parts for info in part.reset_infos]
        return seen

    def step_async(self, actions: np.ndarray) -> None:
        """Pass on the actions of the next step."""
        for part, own in zip(self.parts, np.split(actions, self._begins), strict=True):
            part.step_async(own)

    def step_wait(self) -> VecEnvStepReturn:
        """Step all batches in parallel."""
        with ThreadPoolExecutor(len(self.parts)) as pool:
            steps = list(pool.map(lambda part: part.step_wait(), self.parts))
        self.reset_infos = [info for part in self.parts for info in part.reset_infos]
        seen, rewards, dones, infos = zip(*steps, strict=True)
        flat = [info for part in infos for info in part]
        return np.concatenate(seen), np.concatenate(rewards), np.concatenate(dones), flat

    def close(self) -> None:
        """Close all batches."""
        for part in self.parts:
            part.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of each environment in `indices`."""
        found = [value for part in self.parts for value in part.get_attr(attr_name)]
        return [found[i] for i in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Raise AttributeError, as a batch does."""
        self.parts[0].set_attr(attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment in `indices`."""
        found = [
            value
            for part in self.parts
            for value in part.env_method(method_name, *method_args, **method_kwargs)
        ]
        return [found[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Return False for each environment: none is wrapped."""
        return [False for _ in self._get_indices(indices)]
