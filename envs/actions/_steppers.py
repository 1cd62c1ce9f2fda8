"""Environments of one action kind, stepped together by compiled calls."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gpu_cluster_gym.simulator.kernel.slots import stepping


class Stepper(ABC):
    """N environments, the buffers that one compiled call fills for all of them, and that call.

    shows: observation kinds that it writes, the first unless said. masks: int8 (N, actions), 1 where legal. outcomes:
    float64 (N, len(OUTCOME)); both are written, see `simulator.kernel.slots.stepping`.
    """

    shows: ClassVar[tuple[str, ...]]
    kernel: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        records: tuple[np.ndarray, np.ndarray, np.ndarray],
        listed: np.ndarray,
        shown: np.ndarray,
        queue_slots: int,
    ) -> None:
        """Take states, jobs and sights; and where to write the jobs of the slots, and what is seen."""
        self._records, self._listed, self._queue_slots = records, listed, queue_slots
        self.masks = np.zeros(
            (len(listed), self._actions(queue_slots, listed.shape[1] - queue_slots)), np.int8
        )
        self.outcomes = np.zeros((len(listed), len(stepping.OUTCOME)))
        self._written = listed, shown, self.masks, self.outcomes

    @staticmethod
    @abstractmethod
    def _actions(queue_slots: int, running_slots: int) -> int:
        """Return how many actions there are."""

    def forget(self, e: int) -> None:
        """Begin with other jobs in one of the environments."""
        for kept in ("known", "whole_for", "lasting_for"):
            self._records[2][kept][e] = 0

    def step(self, actions: np.ndarray, part: slice | None = None) -> None:
        """Take steps, in a part of the environments alone if one is named.

        actions: int64 (N,), legal ones, or BEGIN, or LEAVE where an environment is left alone.
        """
        if part is None:
            type(self).kernel(*self._records, actions, *self._written)
            return
        states, jobs, sights = (each[part] for each in self._records)
        type(self).kernel(states, jobs, sights, actions[part], *(each[part] for each in self._written))

    def job_of(self, e: int, action: int) -> int:
        """Return the job that an action would pick, -1 for waiting."""
        return int(self._listed[e, action]) if action < self._queue_slots else -1


class PickStepper(Stepper):
    """Environments whose actions are picks."""

    shows = ("slots", "tables")
    kernel = stepping.step_picks

    @staticmethod
    def _actions(queue_slots: int, running_slots: int) -> int:
        return queue_slots + 1


class PrimitiveStepper(Stepper):
    """Environments whose actions start or pause one job."""

    shows = ("tables",)
    kernel = stepping.step_primitives

    @staticmethod
    def _actions(queue_slots: int, running_slots: int) -> int:
        return len(stepping.RULES) * queue_slots + running_slots + 1
