"""Find the CPU cores that each training job needs, and let CPU jobs have the others without harm to either.

Claim: the number of cores decides how fast a network is trained, and the best number differs by model and by GPUs;
an adaptive CPU allocator, a real-time contention eliminator and a multi-array job scheduler raise the utilisation
of GPUs by 20.8 %, and CPU jobs do not queue longer (CODA, IEEE ICDCS 2020, pp. 853-863, abstract). It says no more,
and nothing else is public. Inferred:

- allocator (`simulator.kernel.tuning`): a job starts with few cores; in windows of a minute it is given more while its
  GPUs become busier, then fewer as long as they stay as busy. Where cores are short, they are given by marginal gain
  per core;
- eliminator (`simulator.kernel.throttling`): where the memory of a node is too slow, the CPU job that draws most is
  throttled, by measured bandwidth alone: GPUs that idle for want of cores throttle no job;
- arrays (`simulator.kernel.cores`): CPU jobs, and jobs of each number of GPUs, queue apart, first in, first out, and
  none blocks another. Either side has a reserve of cores, lends what it does not need, and takes it back by shrinking
  the borrower: no job is paused. `by_width` goes further: of the jobs with one GPU, two to four, and more, those come
  first whose kind holds the least share of the GPUs that it asks for; no GPUs are kept for the wide.

A scheduler is not told here what kind of model a job trains, so all start with as many cores. Without tuning they get
what they ask. Without arrays all wait in one queue, and CPU jobs until cores are left over.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simulator.core_sharing import CoreSharing
from simulator.policy import Action, Wait

if TYPE_CHECKING:
    from simulator.view import View

LEVER = "cores"
# GPUs of the widest job of each array but the last; from memory, not checked against the paper
WIDTHS = (1, 4)


@dataclass
class Coda:
    """One episode of the policy.

    tuning, eliminator, arrays: whether it has this part. by_width: whether jobs of different widths take
    turns, else the first in order of arrival is the first.
    reserve: cores for each GPU of which its job is sure. window_s: of the allocator.
    """

    tuning: bool = True
    eliminator: bool = True
    arrays: bool = True
    reserve: float = 3.0
    window_s: float = 60.0
    by_width: bool = False

    def __post_init__(self) -> None:
        self._cores = CoreSharing(tunes=self.tuning, window_s=self.window_s)
        self._sure = self.reserve if self.arrays else 0.0
        self._moves: list[Action] = []

    def __call__(self, view: "View") -> Action:
        """Start what fits, divide the cores, throttle, then wait."""
        if self._moves:
            return self._moves.pop(0)
        if not view.cpu_limited:
            return view.start_first(view.queue) or Wait()
        self._cores.look(view)
        self._moves = self._start(view) or self._cores.divide(view, self._sure) or self._throttle(view)
        if self._moves:
            return self._moves.pop(0)
        return Wait(self.window_s) if self._cores.end_instant(view) else Wait()

    def _start(self, view: "View") -> list[Action]:
        """Return the start of the first job that fits, after what must shrink for it."""
        queue = view.queue
        if self.arrays:
            if moves := self._cores.start_on_cores(view, queue, self._sure):
                return moves
            queue = queue[view.jobs.num_gpus[queue] > 0]
        if self.by_width:
            queue = least_served_first(view, queue)
        start = view.start_first(queue, cores=1.0)
        return [start] if start else []

    def _throttle(self, view: "View") -> list[Action]:
        step = self._cores.throttle(view) if self.eliminator else None
        return [step] if step else []


def least_served_first(view: "View", queue: np.ndarray) -> np.ndarray:
    """Return queued jobs by the share of its GPUs that their array of widths holds, the least first, then in order."""
    gpus = view.jobs.num_gpus
    array = np.searchsorted(WIDTHS, gpus)
    holding = np.concatenate((view.running, view.loading))
    held = np.bincount(array[holding], gpus[holding], minlength=len(WIDTHS) + 1)
    asked = held + np.bincount(array[queue], gpus[queue], minlength=len(WIDTHS) + 1)
    served = np.divide(held, asked, out=np.ones(len(asked)), where=asked > 0)
    return queue[np.argsort(served[array[queue]], kind="stable")]


policy = Coda
GRID = {"reserve": (1.0, 2.0, 3.0, 4.0), "window_s": (30.0, 60.0, 120.0)}
