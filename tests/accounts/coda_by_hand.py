"""CODA in plain Python, with which the compiled policy is compared move by move."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait
from gpu_cluster_gym.simulator.vocabulary import LOADING, RUNNING
from tests.accounts.shares_of_cores import Holders, divide, holders, resizes, start_on_cores
from tests.accounts.throttling import throttling
from tests.accounts.trial_of_cores import Tuner

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


@dataclass
class CodaByHand:
    """One episode of the policy; see `baselines.coda.Coda`."""

    tuning: bool = True
    eliminator: bool = True
    arrays: bool = True
    reserve: float = 3.0
    window_s: float = 60.0
    by_width: bool = True
    hurts_from: float = 0.75

    def __post_init__(self) -> None:
        """Start without measurements."""
        self._tuner = Tuner(window_s=self.window_s)
        self._sure = self.reserve if self.arrays else 0.0
        self._moves: list[Action] = []

    def __call__(self, view: "View") -> Action:
        """Start what fits, divide the cores, throttle, then wait."""
        if self._moves:
            return self._moves.pop(0)
        if not view.cpu_limited:
            return view.start_first(view.queue) or Wait()
        self._tuner.watch(view)
        held = holders(view, *(self._tuner.wishes(view) if self.tuning else as_asked(view)))
        self._moves = self._start(view, held) or resizes(view, held, divide(held, self._sure))
        if self._moves:
            return self._moves.pop(0)
        if self.eliminator and (move := throttling(view, self.hurts_from)):
            return move
        throttled = (view.jobs.throttle[held.jobs] < 1).any()
        of_use = self._tuner.begin(view) and self.tuning
        return Wait(self.window_s) if of_use or throttled else Wait()

    def _start(self, view: "View", held: Holders) -> list[Action]:
        """Return the start of the first job that fits, after what must shrink for it."""
        queue = view.queue
        if self.arrays:
            on_cpu = view.jobs.is_cpu_job[queue]
            if moves := start_on_cores(view, held, queue[on_cpu], self._sure):
                return moves
            queue = queue[~on_cpu]
            if self.by_width:
                queue = by_service(view, queue)
        start = view.start_first(queue, cores=1.0)
        return [start] if start else []


def by_service(view: "View", queue: np.ndarray) -> np.ndarray:
    """Return queued jobs with those first whose array of widths holds the smallest share of the GPUs it requests."""
    gpus, phase = view.jobs.num_gpus, view.jobs.phase
    array = np.select([gpus <= 1, gpus <= 4], [0, 1], 2)
    held = [gpus[(array == which) & np.isin(phase, (RUNNING, LOADING))].sum() for which in range(3)]
    asked = [held[which] + gpus[queue][array[queue] == which].sum() for which in range(3)]
    served = np.array([part / whole if whole else 1.0 for part, whole in zip(held, asked, strict=True)])
    sorted_queue: np.ndarray = queue[np.argsort(served[array[queue]], kind="stable")]
    return sorted_queue


def as_asked(view: "View") -> tuple[np.ndarray, np.ndarray]:
    """Return the requested cores of each running job, all with the same gain."""
    return view.jobs.cores_each[view.running], np.ones(len(view.running))
