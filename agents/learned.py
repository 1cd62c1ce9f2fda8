"""Learned agents as policies like any other: a view in, an action out."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.move_network import MoveNetwork, flat
from gpu_cluster_gym.agents.slot_network import SlotNetwork
from gpu_cluster_gym.agents.steer_network import SteerNetwork
from gpu_cluster_gym.envs.agent_policy import AgentPolicy
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.simulator.steered import Offsets, Steered, arrivals_between


def load(folder: str | Path) -> Policy:
    """Return the agent of a folder as a policy that takes its most likely actions."""
    return policy_of(checkpoint.load(folder))


def policy_of(agent: Agent) -> Policy:
    """Return an agent as a policy; torch computes on one thread, since its network is small."""
    torch.set_num_threads(1)
    if isinstance(agent.network, SteerNetwork):
        every = arrivals_between(agent.scenario.jobs, agent.training.decisions)
        return Steered(Offsets(agent.start, agent.training.weights), every, agent.network.choose)
    if isinstance(agent.network, MoveNetwork):
        choose = partial(best_move, agent.network)
        return AgentPolicy(choose, action="moves", default_weights=asdict(agent.start))
    seen_and_done = {name: it for name, it in agent.training.environment().items() if name != "tau_s"}
    return AgentPolicy(partial(most_likely, agent.network), **seen_and_done)


def most_likely(network: SlotNetwork, seen: np.ndarray, mask: np.ndarray) -> int:
    """Return the most likely action of a network; the mask is part of what it sees."""
    return int(network.choose(torch.from_numpy(seen).unsqueeze(0)))


def best_move(network: MoveNetwork, seen: Mapping[str, np.ndarray], mask: np.ndarray) -> int:
    """Return the place of a network's most likely move; the mask is part of what it sees."""
    return int(network.choose(flat(seen)))
