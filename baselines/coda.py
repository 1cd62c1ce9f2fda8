"""Find the CPU cores that each training job needs, and let CPU jobs have the others without harm to either.

Claim: the number of cores decides how fast a network is trained, and the best number differs by model and by GPUs;
an adaptive CPU allocator, a real-time contention eliminator and a multi-array job scheduler raise the utilisation
of GPUs by 20.8 %, and CPU jobs do not queue longer (CODA, IEEE ICDCS 2020, pp. 853-863, abstract). It says no more,
and nothing else is public. Inferred:

- allocator (`lib.tuning`): a job starts with few cores; in windows of a minute it is given more while its GPUs become
  busier, then fewer as long as they stay as busy. Where cores are short, they are given by marginal gain per core;
- eliminator (`lib.throttling`): where the memory of a node is too slow, the CPU job that draws most is throttled, by
  measured bandwidth alone: GPUs that idle for want of cores throttle no job;
- arrays (`lib.arrays`): CPU jobs, and jobs of each number of GPUs, queue apart, first in, first out, and none blocks
  another. Either side has a reserve of cores, lends what it does not need, and takes it back by shrinking the borrower:
  no job is paused.

A scheduler is not told here what kind of model a job trains, so all start with as many cores. Without tuning they get
what they ask. Without arrays all wait in one queue, and CPU jobs until cores are left over.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from baselines.lib.arrays import Holders, divide, holders, resizes, start_on_cores
from baselines.lib.order import start_first
from baselines.lib.throttling import throttling
from baselines.lib.tuning import Tuner
from simulator.policy import Action, Wait

if TYPE_CHECKING:
    from simulator.view import View


@dataclass
class Coda:
    """One episode of the policy; the first three switch its parts off.

    reserve: cores for each GPU of which its job is sure. window_s: of the tuner.
    """

    tuning: bool = True
    eliminator: bool = True
    arrays: bool = True
    reserve: float = 3.0
    window_s: float = 60.0

    def __post_init__(self) -> None:
        self._tuner = Tuner(window_s=self.window_s)
        self._sure = self.reserve if self.arrays else 0.0
        self._moves: list[Action] = []

    def __call__(self, view: "View") -> Action:
        """Start what fits, divide the cores, throttle, then wait."""
        if self._moves:
            return self._moves.pop(0)
        if not view.cpu_limited:
            return start_first(view, view.queue.tolist()) or Wait()
        self._tuner.watch(view)
        held = holders(view, *(self._tuner.wishes(view) if self.tuning else as_asked(view)))
        self._moves = self._start(view, held) or resizes(view, held, divide(held, self._sure))
        if self._moves:
            return self._moves.pop(0)
        if self.eliminator and (move := throttling(view)):
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
        start = start_first(view, queue.tolist(), cores=1.0)
        return [start] if start else []


def as_asked(view: "View") -> tuple[np.ndarray, np.ndarray]:
    """Return, of each running job, the cores it asks for, all of the same gain."""
    return view.jobs.cores_each[view.running], np.ones(len(view.running))


policy = Coda
GRID = {"reserve": (1.0, 2.0, 3.0, 4.0), "window_s": (30.0, 60.0, 120.0)}
