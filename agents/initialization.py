"""Initialisation of agents: from `union`, from constants found by a search, or from another agent."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.networks import SteerNetwork
from gpu_cluster_gym.agents.training import CONSTANTS, UNION, MovesTraining, SteerTraining, Training
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.evaluation.run_folder import agent_folder
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule
from gpu_cluster_gym.workloads import Scenario


class Initialisation(NamedTuple):
    """The rule whose weights or moves the agent changes, and the agent whose network is trained further, if any."""

    rule: Rule = Rule()
    agent: Agent | None = None


def initialisation(scenario: Scenario, training: Training) -> Initialisation:
    """Return the initialisation of an agent, by its option `init_from`.

    From the folder of a steering agent, a steering agent takes the network, and an agent of moves the mean action.
    Raise ValueError where a scenario has no constants, or a folder no steering agent.
    """
    if not isinstance(training, SteerTraining | MovesTraining) or training.init_from == UNION:
        return Initialisation()
    if training.init_from == CONSTANTS:
        return Initialisation(rule_with_constants(scenario))
    agent, constant = read(training.init_from)
    if isinstance(training, SteerTraining):
        return Initialisation(agent.start, agent)
    if constant is None:
        raise ValueError(
            f"--init-from {training.init_from}: the agent's metadata lacks its mean action (retrain the agent)"
        )
    return Initialisation(constant)


def searched(scenario: Scenario) -> Rule | None:
    """Return the rule with the constants found for a scenario; None where no search was run."""
    workload = workload_like(scenario)
    known = baselines.best_constants([workload], with_history=scenario.with_history) if workload else None
    return rule_with_constants(scenario) if known else None


def rule_with_constants(scenario: Scenario) -> Rule:
    """Return the rule with the constants found for a scenario; ValueError where no search was run."""
    workload = workload_like(scenario)
    if workload is None:
        raise ValueError(
            "--init-from constants requires a named workload, since no constants exist for a custom scenario: name one "
            "with --workload"
        )
    return replace(Rule(), **baselines.constants(workload, with_history=scenario.with_history).settings)


def read(init_from: str) -> tuple[Agent, Rule | None]:
    """Return the steering agent of a folder, and its constant-action policy; ValueError for anything else."""
    if not Path(init_from).is_dir():
        raise ValueError(
            f"--init-from {init_from}: expected {UNION}, {CONSTANTS}, or the folder of a steering agent"
        )
    folder = agent_folder(Path(init_from))
    agent = checkpoint.load(folder)
    network = agent.network
    if not isinstance(network, SteerNetwork):
        raise ValueError(
            f"--init-from {init_from}: expected a steering agent, not one with action {agent.training.action}"
        )
    if network.reads != list(range(len(LOAD))):
        raise ValueError(
            f"--init-from {init_from}: the observation format has changed since this agent was trained: retrain it"
        )
    return agent, constant_policy(agent, checkpoint.about(folder).get("validation", {}))


def resolved(training: Training) -> Training:
    """Return options with the absolute path of `init_from`, and with the weights, width and decisions of its agent.

    Raise ValueError for other weights than the agent's, or for `normalize`, which is already folded into the network.
    """
    if not isinstance(training, SteerTraining | MovesTraining) or training.init_from in (UNION, CONSTANTS):
        return training
    agent, _ = read(training.init_from)
    found = replace(training, init_from=str(Path(training.init_from).resolve()))
    if not isinstance(found, SteerTraining):
        return found
    own = agent.training
    assert isinstance(own, SteerTraining)
    if found.weights not in ((), own.weights):
        raise ValueError(
            f"--init-from {training.init_from}: --weights must be those of the agent, {' '.join(own.weights)} "
            "(drop --weights)"
        )
    if found.normalize:
        raise ValueError(
            f"--init-from {training.init_from}: --normalize requires an untrained agent (drop --normalize)"
        )
    return replace(
        found, weights=own.weights, hidden=own.hidden, decisions_per_window=own.decisions_per_window
    )


def constant_policy(agent: Agent, metrics: Mapping[str, float]) -> Rule | None:
    """Return the rule with an agent's mean offsets, by the metrics of its validation; None for other agents."""
    if not isinstance(agent.training, SteerTraining):
        return None
    names = [f"offset_{weight}" for weight in agent.training.weights]
    if any(name not in metrics for name in names):
        return None
    return Offsets(agent.start, agent.training.weights).rule_at(np.array([metrics[name] for name in names]))
