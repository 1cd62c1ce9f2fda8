"""Find the CPU cores that each training job needs, and let CPU jobs have the others without harm to either.

Claim: the number of cores decides how fast a network is trained, and the best number differs by model and by GPUs;
an adaptive CPU allocator, a real-time contention eliminator and a multi-array job scheduler raise the utilisation
of GPUs by 20.8 %, and CPU jobs do not queue longer (CODA, IEEE ICDCS 2020, pp. 853-863, abstract). It says no more,
and nothing else is public. Inferred:

- allocator (`simulator.kernel.cores.tuning`): a job starts with few cores; in windows of a minute it is given more
  while its GPUs become busier, then fewer as long as they stay as busy. Where cores are short, they are given by
  marginal gain per core;
- eliminator (`simulator.kernel.cores.throttling`): where the memory of a node is too slow, the CPU job that draws
  most is throttled, by measured bandwidth alone: GPUs that idle for want of cores throttle no job;
- arrays (`simulator.kernel.cores.cores`): CPU jobs, and jobs of each number of GPUs, queue apart, first in, first out,
  and none blocks another. Either side has a reserve of cores, lends what it does not need, and takes it back by
  shrinking the borrower: no job is paused. `by_width` goes further: of the jobs with one GPU, two to four, and more,
  those come first whose kind holds the least share of the GPUs that it asks for; no GPUs are kept for the wide.

A scheduler is not told here what kind of model a job trains, so all start with as many cores. Without tuning they get
what they ask. Without arrays all wait in one queue, and CPU jobs until cores are left over.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.core_sharing import CoreMoves
from gpu_cluster_gym.simulator.policy import Action, RunsWhole

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "cores"

FIRST_GUESS = 3.0  # cores a GPU, before anything is known


@dataclass
class Coda(RunsWhole):
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
        self._moves = CoreMoves(
            self.window_s,
            tunes=self.tuning,
            throttles=self.eliminator,
            arrays=self.arrays,
            by_width=self.by_width,
            first_guess=FIRST_GUESS,
            reserve=self.reserve if self.arrays else 0.0,
        )

    def __call__(self, view: "View") -> Action:
        """Start what fits, divide the cores, throttle, then wait."""
        return self._moves(view)

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Carry it out inside the kernel to the end; tell whether every job ended."""
        return self._moves.run_whole(states, jobs)


policy = Coda
GRID = {"reserve": (1.0, 2.0, 3.0, 4.0), "window_s": (30.0, 60.0, 120.0)}
