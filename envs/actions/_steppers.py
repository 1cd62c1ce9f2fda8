"""Environments of one action kind, stepped together by compiled calls."""

from typing import Protocol

import numpy as np

from simulator.kernel import stepping
from simulator.kernel.sight import sight_dtype
from simulator.slots import width


class Stepper(Protocol):
    """N environments, the buffers that one compiled call fills for all of them, and that call.

    shows: observation kinds that it writes, the first unless said. masks: int8 (N, actions), 1 where legal. seen: that
    observation, a row each. outcomes: float64 (N, len(OUTCOME)), see `simulator.kernel.stepping`.
    """

    shows: tuple[str, ...]
    masks: np.ndarray
    seen: np.ndarray
    outcomes: np.ndarray

    def forget(self, e: int) -> None:
        """Begin with other jobs in one of the environments."""

    def step(self, actions: np.ndarray) -> None:
        """Take steps: legal actions, or BEGIN, or LEAVE where an environment is left alone."""

    def job_of(self, e: int, action: int) -> int:
        """Return the job that an action would pick, -1 for waiting."""


class PickStepper:
    """Environments whose actions are picks."""

    shows = ("slots",)

    def __init__(self, states: np.ndarray, jobs: np.ndarray, queue_slots: int) -> None:
        """Make empty buffers."""
        count = len(jobs)
        self._states, self._jobs = states, jobs
        self._sights = np.zeros(count, sight_dtype(states.dtype))
        self._listed = np.full((count, queue_slots), -1, np.int64)
        self.seen = np.zeros((count, width(queue_slots)), np.float32)
        self.masks = np.zeros((count, queue_slots + 1), np.int8)
        self.outcomes = np.zeros((count, len(stepping.OUTCOME)))

    def forget(self, e: int) -> None:
        """Begin with other jobs in one of the environments."""
        self._sights["known"][e] = 0
        self._sights["whole_for"][e] = 0
        self._sights["lasting_for"][e] = 0

    def step(self, actions: np.ndarray) -> None:
        """Pick, or wait, and go on to the next choice."""
        stepping.step_picks(
            self._states,
            self._jobs,
            self._sights,
            actions,
            self._listed,
            self.seen,
            self.masks,
            self.outcomes,
        )

    def job_of(self, e: int, action: int) -> int:
        """Return the job that an action would pick, -1 for waiting."""
        return int(self._listed[e, action]) if action < self._listed.shape[1] else -1
