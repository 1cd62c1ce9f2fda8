"""A learned agent as a policy like any other: a view in, an action out."""

from pathlib import Path

import torch

from agents import saved_agent
from agents.saved_agent import Agent
from envs.actions.pick import action as pick
from envs.observations.slots import observation
from envs.slots import Slots
from simulator.policy import Action, Wait
from simulator.view import View


class Learned:
    """The agent's most likely action at each decision; a pick becomes the pauses and the start it consists of."""

    def __init__(self, agent: Agent) -> None:
        """Take an agent; torch computes on one thread, since its network is small."""
        torch.set_num_threads(1)
        self._network = agent.network
        self._base_policy = agent.training.base_policy
        self._slots = Slots(agent.training.queue_slots, 0)
        self._moves: list[Action] = []
        self._view: View | None = None

    @classmethod
    def load(cls, folder: str | Path) -> "Learned":
        """Return the agent of a folder as a policy."""
        return cls(saved_agent.load(folder))

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
