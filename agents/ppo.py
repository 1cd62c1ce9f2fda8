"""PPO of Stable-Baselines3: its configuration, the base class of learners, and the base of two-phase algorithms.

A learner has the environments and the algorithm of one action kind: `SteerLearner`, `MovesLearner`, `PlainLearner`. All
take the keywords of PPO from `Learner.ppo`, and add those of their own in `model`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from gpu_cluster_gym.agents.checkpoint import Network
from gpu_cluster_gym.agents.initialization import initialisation
from gpu_cluster_gym.agents.training import SteerTraining, Training
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads import TRAINING_SHIFTS, Scenario, applicable, describe_shift, named

SAMPLING_SEED = 0  # the same draws in each validation, so that a curve shows the agent, not chance


class Played(NamedTuple):
    """Finished windows."""

    table: pd.DataFrame
    """The results table: one row per job, as for any policy."""
    metrics: dict[str, float]
    """Further metrics, by name."""


class Learner(ABC):
    """The environments and the algorithm of one action kind, under training options."""

    def __init__(self, scenario: Scenario, training: Training, threads: int = 1) -> None:
        """Prepare training.

        scenario: jobs, cluster and rules to train on.
        training: options, of the class of this action kind.
        threads: processors for the environments; results do not depend on it.
        Raise ValueError where the agent cannot be initialised as asked.
        """
        self.scenario, self.training, self.threads = scenario, training, threads
        self.initial = initialisation(scenario, training)
        self.scenarios = scenarios_of(scenario, training)
        self.randomizes = isinstance(training, SteerTraining) and training.domain_randomization
        self.scenarios |= variations(self.scenarios) if self.randomizes else {}

    samples = False
    """Whether agents sample their actions in use, too, instead of taking the most likely ones."""

    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environments."""
        return self.training.environment() | {"threads": self.threads}

    def environment_in_use(self) -> dict[str, Any]:
        """Return the keywords of the environments of validations."""
        return self.environment()

    @property
    @abstractmethod
    def start(self) -> Policy:
        """The reference policy: the agent before training, or `union` where it is initialised otherwise."""

    @abstractmethod
    def model(self) -> "TwoPhases":
        """Return the untrained algorithm with its environments."""

    @abstractmethod
    def network(self, model: PPO) -> Network:
        """Return the network that chooses actions, as it is saved."""

    @abstractmethod
    def play(self, model: PPO, envs: GPUClusterVectorEnv, *, sampled: bool) -> Played:
        """Play environment i on its window i to the end, with the most likely actions or with sampled ones.

        Raise StalledEpisodeError where jobs never end.
        """

    def constant_policy(self, metrics: dict[str, float]) -> Policy | None:
        """Return the policy that always takes the agent's mean action, by the metrics of `play`; None without one."""
        return None

    def step_metrics(self, infos: list[dict[str, Any]]) -> dict[str, list[float]]:
        """Return the metrics of a training step, by the name of their curve."""
        ended = [info["jct_ratio"] for info in infos if "jct_ratio" in info]
        return {"jct_ratio_to_start": ended}

    def ppo(self) -> dict[str, Any]:
        """Return the keywords of PPO that all action kinds share; `gamma` differs."""
        training = self.training
        return {
            "learning_rate": lambda left: (
                training.learning_rate * max(left, 0.0)
            ),  # the last rollout overruns
            "n_steps": training.rollout,
            "batch_size": min(training.batch_size, training.rollout * training.num_envs),
            "n_epochs": training.n_epochs,
            "gae_lambda": training.gae_lambda,
            "clip_range": training.clip_range,
            "target_kl": training.target_kl,
            "ent_coef": training.ent_coef,
            "seed": int(stream(seed_of(self.scenario, training), "learning").integers(2**31)),
            "device": "cpu",
        }


class TwoPhases(PPO):
    """PPO after another phase, with the same network, environments, curves and callbacks; PPO alone without one.

    between_rollouts: called before each rollout, when the update after the last one is complete.
    counters: numbers of a subclass that decide what comes next, which a resumed run restores.
    """

    counters: tuple[str, ...] = ()
    _rng: np.random.Generator | None = None

    def __init__(self, *args: Any, first: int = 0, **kwargs: Any) -> None:
        """Take the arguments of PPO, and the steps of the first phase."""
        super().__init__(*args, **kwargs)
        self.first = first
        self.between_rollouts: Callable[[], None] = lambda: None

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play a rollout of the current phase."""
        self.between_rollouts()
        return self.play(env, callback, rollout_buffer, n_rollout_steps)

    @property
    def begins_anew(self) -> bool:
        """Whether the next rollout begins by resetting the environments, so that their state decides nothing."""
        return False

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a subclass that decide what comes next, which a resumed run restores."""
        return {}

    def put_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the arrays of a subclass."""

    def play(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play a rollout of PPO; return whether a callback lets training continue."""
        return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)

    @property
    def in_first(self) -> bool:
        """Whether the first phase is still running."""
        return self.num_timesteps < self.first

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        """Count the steps of PPO only, by which its learning rate decays."""
        super()._update_current_progress_remaining(
            max(0, num_timesteps - self.first), max(1, total_timesteps - self.first)
        )


def moments_of(optimizer: torch.optim.Optimizer) -> dict[str, np.ndarray]:
    """Return the moments of an optimizer as arrays, by index of the parameter and name."""
    return {
        f"{number}/{name}": it.numpy()
        for number, moments in optimizer.state_dict()["state"].items()
        for name, it in moments.items()
    }


def put_moments(optimizer: torch.optim.Optimizer, arrays: Mapping[str, np.ndarray]) -> None:
    """Restore the moments of an optimizer."""
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for path, it in arrays.items():
        parameter, _, name = path.partition("/")
        moments.setdefault(int(parameter), {})[name] = torch.from_numpy(it)
    optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})


def take_step(model: PPO, env: VecEnv, actions: np.ndarray, callback: BaseCallback) -> bool:
    """Step the environments outside of PPO's own rollouts, with the same counts and logs.

    Return whether a callback lets training continue.
    """
    seen, rewards, dones, infos = env.step(actions)
    model._last_obs, model._last_episode_starts = seen, dones  # type: ignore[assignment]
    model.num_timesteps += env.num_envs
    model._update_info_buffer(infos, dones)
    callback.update_locals({"rewards": rewards, "infos": infos})
    return callback.on_step()


def scenarios_of(scenario: Scenario, training: Training, name: str = "own") -> dict[str, Scenario]:
    """Return all scenarios to train on: the given one under `name`, and the extra workloads under theirs."""
    extra = training.extra_workloads if isinstance(training, SteerTraining) else ()
    return {name: scenario} | {each: replace(named(each), seed=scenario.seed) for each in extra}


def variations(scenarios: Mapping[str, Scenario]) -> dict[str, Scenario]:
    """Return the scenarios under each shift of domain randomisation, by name and description of the shift."""
    return {
        f"{name}, {describe_shift(shift)}": replace(scenario, shift=shift)
        for name, scenario in scenarios.items()
        for shift in applicable(scenario, TRAINING_SHIFTS)
    }


def seed_of(scenario: Scenario, training: Training) -> int:
    """Return the seed of all randomness in training."""
    return scenario.seed if training.learning_seed is None else training.learning_seed


def play_windows(
    envs: GPUClusterVectorEnv, choose: Callable[[Any, np.ndarray], np.ndarray]
) -> tuple[pd.DataFrame, np.ndarray]:
    """Play environment i on its window i to the end, side by side; return the results table and all actions, in rows.

    choose: returns the actions of the environments that have not ended, by all observations and by which have not.
    """
    windows = list(envs.env.windows[: envs.num_envs])
    seen, _ = envs.reset(options={"window": windows})
    going, chosen = np.ones(envs.num_envs, bool), []
    space: Any = envs.action_space
    actions = np.zeros(space.shape, space.dtype)
    while going.any():
        actions[going] = choose(seen, going)
        chosen.append(actions[going])
        seen, _, ended, cut, _ = envs.step(actions)
        refuse_stalled(cut, windows[int(cut.argmax())])
        going &= ~ended
    tables = [envs.results(i) for i in range(envs.num_envs)]
    return pd.concat(tables, ignore_index=True), np.concatenate(chosen)


def refuse_stalled(cut: np.ndarray, number: int) -> None:
    """Raise StalledEpisodeError where an environment was truncated, since its jobs never end under the agent."""
    if cut.any():
        raise StalledEpisodeError(
            f"window {number} does not end, since the agent pauses and restarts jobs endlessly (with --action plain, "
            "raise --min-run-s)"
        )
