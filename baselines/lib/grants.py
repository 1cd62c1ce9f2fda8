"""Rounds in which an order is carried out: which jobs keep their GPUs, are paused or start (`simulator.search.grants`).

A policy says in which order jobs come and how many GPUs each is to have. A running job keeps its GPUs where no job
before it needs them; a queued one starts where the scenario's rule puts it on free GPUs, else it waits for GPUs of a
node that pauses in flight will free, else the fewest jobs that come after it are paused, the last in order of equally
many. GPUs that are being freed for a job are kept for it. CPU jobs start where they fit; no job is paused for them.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.policy import Action, Wait
from simulator.search import any_held_back, grants, is_waiting, may_any_start

if TYPE_CHECKING:
    from simulator.view import View

ROUND_S = 240.0  # Tiresias' interval in AITurbo's code
GLANCE_S = 60.0  # our choice; the shorter wait that agents have too
MOST_GLANCES = 64  # that are left out at once


class Wishes(NamedTuple):
    """Queued and running jobs, the first first, and how many GPUs each is to have."""

    jobs: np.ndarray
    gpus: np.ndarray


class Rounds:
    """The moves of a policy that settles which jobs run at each arrival, and every so often while jobs wait for GPUs.

    In between, what fits starts in the same order and no job is paused. A round may be late by less than GLANCE_S.
    """

    def __init__(self, order: Callable[["View"], Wishes], every_s: float = ROUND_S) -> None:
        """Note what gives the wishes of an instant, of all that are queued or running."""
        self._order, self._every_s = order, every_s
        self._instant, self._arrived, self._began_s = -1, 0, -np.inf
        self._settled: tuple[bytes, ...] = ()
        self._is_idle = False  # whether nothing fits at this instant, and no move has been made
        self._moves: Iterator[Action] = iter(())

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant, then a wait."""
        if (instant := view.instant) != self._instant:
            self._instant = instant
            self._moves = self._begin(view)
        if move := next(self._moves, None):
            self._is_idle = False
            return move
        return Wait(self._glance_s(view)) if is_waiting(view) else Wait()

    def _glance_s(self, view: "View") -> float:
        """Return the seconds to the next glance, or to the first in a round where those before would do nothing."""
        now = view.now
        until = now + GLANCE_S
        if self._is_idle and not any_held_back(view):
            due_s, most = self._began_s + self._every_s, now + MOST_GLANCES * GLANCE_S
            while until < min(due_s, most):
                until += GLANCE_S
        return until - now if now + (until - now) == until else GLANCE_S

    def _begin(self, view: "View") -> Iterator[Action]:
        """Return the moves of this instant, none where all is as it was when the last round began."""
        due, fits = self._is_due(view), may_any_start(view)
        self._is_idle = not fits
        if not due and not fits:
            return iter(())
        wishes = self._order(view)
        if not due:
            return grants(view, *wishes, pausing=False)
        before, here = self._settled, (view.preemptible, view.pausing, view.nodes.free_gpus)
        self._settled = tuple(array.tobytes() for array in (*wishes, *here))
        return grants(view, *wishes) if fits or self._settled != before else iter(())

    def _is_due(self, view: "View") -> bool:
        arrived, now = len(view.jobs.phase), view.now
        if arrived == self._arrived and now < self._began_s + self._every_s:
            return False
        self._arrived, self._began_s = arrived, now
        return True


def by(view: "View", jobs: np.ndarray, *keys: np.ndarray, gpus: np.ndarray | None = None) -> Wishes:
    """Return the wishes of jobs by keys of theirs, the first first, then by (submit, job).

    gpus: how many each wants, if not what it asks for.
    """
    order = np.lexsort((jobs, *reversed(keys)))
    return Wishes(jobs[order], (view.jobs.num_gpus[jobs] if gpus is None else gpus)[order])


def reaching(values: np.ndarray, jobs: np.ndarray) -> np.ndarray:
    """Return values by job with one for each of these jobs, whose numbers rise: 0 where there was none."""
    if len(jobs) and jobs[-1] >= len(values):
        values = np.pad(values, (0, 2 * int(jobs[-1]) + 1 - len(values)))
    return values
