"""Where an agent begins: at `union`, at constants that a search found, or where another agent has come to."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.steer_network import SteerNetwork
from gpu_cluster_gym.agents.training import CONSTANTS, UNION, Training
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.evaluation.run_folder import agent_folder
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule
from gpu_cluster_gym.workloads import Scenario


class Beginning(NamedTuple):
    """The rule whose weights or choices are changed, and the agent that goes on learning, if there is one."""

    rule: Rule = Rule()
    agent: Agent | None = None


def beginning(scenario: Scenario, training: Training) -> Beginning:
    """Return where an agent begins by its choices.

    What steers goes on from an agent's network; what chooses moves begins at what an agent does on average. ValueError
    where there are no constants for the scenario, or no agent that steers.
    """
    if training.begin == UNION:
        return Beginning()
    if training.begin == CONSTANTS:
        return Beginning(found_for(scenario))
    agent, average = read(training.begin)
    if training.action == "steer":
        return Beginning(agent.start, agent)
    if average is None:
        raise ValueError(f"begin {training.begin}: it is not known what this agent does on average")
    return Beginning(average)


def searched(scenario: Scenario) -> Rule | None:
    """Return the rule with the constants that a search found for a scenario; None where there are none."""
    workload = workload_like(scenario)
    known = baselines.best_constants([workload], with_history=scenario.with_history) if workload else None
    return found_for(scenario) if known else None


def found_for(scenario: Scenario) -> Rule:
    """Return the rule with the constants that a search found for a scenario; ValueError where there are none."""
    workload = workload_like(scenario)
    if workload is None:
        raise ValueError(
            "begin constants: this scenario is none of the workloads, for which some were searched"
        )
    return replace(Rule(), **baselines.constants(workload, with_history=scenario.with_history).settings)


def read(begin: str) -> tuple[Agent, Rule | None]:
    """Return the agent of a folder, and what it does on average; ValueError where there is none that steers."""
    if not Path(begin).is_dir():
        raise ValueError(
            f"begin {begin}: expected {UNION}, {CONSTANTS}, or the folder of an agent that steers"
        )
    folder = agent_folder(Path(begin))
    agent = checkpoint.load(folder)
    network = agent.network
    if not isinstance(network, SteerNetwork):
        raise ValueError(
            f"begin {begin}: expected an agent that steers, not one of action {agent.training.action}"
        )
    if network.reads != list(range(len(LOAD))):
        raise ValueError(
            f"begin {begin}: this agent sees less of the load than there is to see now: train it anew"
        )
    return agent, held(agent, checkpoint.about(folder).get("validation", {}))


def like_its_agent(training: Training) -> Training:
    """Return choices with the agent's path, and of what steers weights, width and decisions, where it begins at one.

    ValueError where other weights are named, or numbers are to be normalised, which that agent's network does already.
    """
    if training.begin in (UNION, CONSTANTS):
        return training
    agent, _ = read(training.begin)
    found = replace(training, begin=str(Path(training.begin).resolve()))
    if training.action != "steer":
        return found
    if training.weights not in ((), agent.training.weights):
        raise ValueError(f"begin {training.begin}: it steers {', '.join(agent.training.weights)}")
    if training.normalize:
        raise ValueError(f"begin {training.begin}: normalize is for agents that begin anew")
    own = agent.training
    return replace(found, weights=own.weights, hidden=own.hidden, decisions=own.decisions)


def held(agent: Agent, noted: Mapping[str, float]) -> Rule | None:
    """Return the rule with an agent's mean offsets on validation windows, as noted; None for what does not steer."""
    weights = agent.training.weights
    names = [f"offset_{weight}" for weight in weights]
    if not weights or any(name not in noted for name in names):
        return None
    return Offsets(agent.start, weights).rule_at(np.array([noted[name] for name in names]))
