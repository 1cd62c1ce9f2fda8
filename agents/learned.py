"""Learned agents as policies like any other: a view in, an action out."""

from pathlib import Path

import torch

from agents import saved_agent
from agents.saved_agent import Agent
from agents.slot_network import SlotNetwork
from agents.steer_network import SteerNetwork
from envs.actions.pick import action as pick
from envs.observations.slots import observation
from envs.slots import Slots
from simulator.policy import Action, Policy, Wait
from simulator.rule import Rule
from simulator.steered import Offsets, Steered, arrivals_between
from simulator.view import View


def load(folder: str | Path) -> Policy:
    """Return the agent of a folder as a policy that takes its most likely actions."""
    return policy_of(saved_agent.load(folder))


def policy_of(agent: Agent) -> Policy:
    """Return an agent as a policy; torch computes on one thread, since its network is small."""
    torch.set_num_threads(1)
    if isinstance(agent.network, SteerNetwork):
        every = arrivals_between(agent.scenario.jobs, agent.training.decisions)
        return Steered(Offsets(Rule(), agent.training.weights), every, agent.network.choose)
    return Picking(agent)


class Picking:
    """The agent's most likely action at each decision; a pick becomes the pauses and the start it consists of."""

    def __init__(self, agent: Agent) -> None:
        """Take an agent that was trained to pick."""
        assert isinstance(agent.network, SlotNetwork)
        self._network = agent.network
        self._base_policy = agent.training.base_policy
        self._slots = Slots(agent.training.queue_slots, 0)
        self._moves: list[Action] = []
        self._view: View | None = None

    def __call__(self, view: View) -> Action:
        """Return the next move of the pick in progress, else the first of the next pick, else Wait."""
        if view is not self._view:
            self._moves, self._view = [], view
        if not self._moves:
            self._moves = self._decide(view)
        return self._moves.pop()

    def _decide(self, view: View) -> list[Action]:
        """Return the moves of the network's choice, the last first."""
        view.look(self._slots, self._base_policy)
        mask = pick.mask(self._slots, view)
        wait = pick.wait(self._slots, view)
        if not mask[:wait].any():
            return [Wait()]
        seen = observation(self._slots, view, mask)
        number = int(self._network.choose(torch.from_numpy(seen).unsqueeze(0)))
        return [Wait()] if number == wait else view.pick(int(self._slots.queue[number]))
