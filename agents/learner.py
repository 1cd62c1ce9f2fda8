"""What has to be there for an action to be learned: environments, an algorithm, and how it is played."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from stable_baselines3 import PPO

from gpu_cluster_gym.agents.checkpoint import Network
from gpu_cluster_gym.agents.initialization import beginning
from gpu_cluster_gym.agents.training import Training
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.simulator.errors import NeverEndsError
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads import VARIED, Scenario, applicable, in_words, named

SAMPLING_SEED = 0  # the same draws at every validation, so that a curve shows the agent and not chance


class Played(NamedTuple):
    """Windows played to their end."""

    table: pd.DataFrame
    """A row a job, as of any policy."""
    numbers: dict[str, float]
    """What is told besides, by name."""


class Learner(ABC):
    """An action's environments and algorithm, under choices of how to learn; `begun` is where the agent begins."""

    def __init__(self, scenario: Scenario, training: Training, threads: int = 1) -> None:
        """Take what to learn on, how, and how many processors share the work, on which nothing depends.

        ValueError where it cannot begin where it is to.
        """
        self.scenario, self.training, self.threads = scenario, training, threads
        self.begun = beginning(scenario, training)
        self.scenarios = scenarios_of(scenario, training)
        self.scenarios |= variations(self.scenarios) if training.vary else {}

    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environments under which the agent sees and acts."""
        return self.training.environment() | {"threads": self.threads}

    @property
    @abstractmethod
    def start(self) -> Policy:
        """What the agent is compared with: what it is before it has learned, or `union` if it begins elsewhere."""

    @abstractmethod
    def model(self) -> PPO:
        """Return the algorithm with its environments, nothing learned yet."""

    @abstractmethod
    def network(self, model: PPO) -> Network:
        """Return what of the algorithm chooses actions, as it is saved."""

    @abstractmethod
    def play(self, model: PPO, envs: GPUClusterVectorEnv, *, sampled: bool) -> Played:
        """Play environment i on its window i to the end, by the most likely actions or by sampled ones.

        NeverEndsError where jobs would never come to theirs.
        """

    def held(self, numbers: dict[str, float]) -> Policy | None:
        """Return what always does what the agent does on average, by numbers of `play`; None if there is no such."""
        return None

    def told(self, infos: list[dict[str, Any]]) -> dict[str, list[float]]:
        """Return what is told of a step in training, by the name of its curve."""
        ended = [info["jct_ratio"] for info in infos if "jct_ratio" in info]
        return {"jct_ratio_to_start": ended}

    def ppo(self) -> dict[str, Any]:
        """Return the keywords of PPO that all actions share."""
        training = self.training
        rate = training.step_size if training.evolves else training.learning_rate
        return {
            "learning_rate": lambda left: rate * max(left, 0.0),  # the last rollout runs over
            "n_steps": training.rollout,
            "batch_size": min(training.batch, training.rollout * training.environments),
            "n_epochs": training.epochs,
            "gae_lambda": training.gae_lambda,
            "clip_range": training.clip,
            "target_kl": training.target_kl,
            "ent_coef": training.entropy,
            "seed": int(stream(seed_of(self.scenario, training), "learning").integers(2**31)),
            "device": "cpu",
        }


def scenarios_of(scenario: Scenario, training: Training, name: str = "own") -> dict[str, Scenario]:
    """Return all that is learned on, by name: the scenario by the one given, and the named workloads besides."""
    return {name: scenario} | {name: replace(named(name), seed=scenario.seed) for name in training.also}


def variations(scenarios: Mapping[str, Scenario]) -> dict[str, Scenario]:
    """Return scenarios under each shift that is learned on besides, by their names and what it does."""
    return {
        f"{name}, {in_words(shift)}": replace(scenario, shift=shift)
        for name, scenario in scenarios.items()
        for shift in applicable(scenario, VARIED)
    }


def seed_of(scenario: Scenario, training: Training) -> int:
    """Return the seed of whatever is random in learning."""
    return scenario.seed if training.learning_seed is None else training.learning_seed


def refuse_endless(cut: np.ndarray, number: int) -> None:
    """Raise NeverEndsError where an environment was cut: an agent that cannot bring jobs to their end."""
    if cut.any():
        raise NeverEndsError(
            f"window {number} does not end: the agent pauses and restarts jobs again and again"
        )
