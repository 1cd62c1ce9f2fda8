"""Take CPU cores from jobs that do not need their share and give them to those that can use more.

Claim: jobs differ in how much they depend on CPU and memory; profiled once, insensitive jobs give up the cores beyond
their need, sensitive ones get them, and no job is slower than with a share in proportion to its GPUs (Synergy,
OSDI 2022, abstract and general knowledge). Here that is its best-effort tuning over FIFO, for cores alone.

Our choice: a scheduler here has no profile over cores, so a job starts with its proportional share and is measured
while it runs, as in `coda`; cores are divided at once, not in rounds of 300 s; CPU jobs, which Synergy does not know,
wait in the same queue for cores that are left over and keep them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.baselines.fixed_cores import cores_for_each
from gpu_cluster_gym.simulator.core_sharing import CoreSharing
from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "cores"

CPU_JOB_SHARE = 1.0  # of the cores it requests: a CPU job gives up none


@dataclass
class Synergy:
    """One episode of the policy. window_s, eps: see `CoreSharing`."""

    window_s: float = 60.0
    eps: float = 0.04

    def __post_init__(self) -> None:
        self._cores: CoreSharing | None = None
        self._moves: list[Action] = []

    def __call__(self, view: "View") -> Action:
        """Start a job that fits, else change the cores of a job, else wait."""
        if self._moves:
            return self._moves.pop(0)
        if (cores := cores_for_each(view, np.inf)) is None:
            return view.start_first(view.queue) or Wait()
        share = int(cores)
        self._cores = sharing = self._cores or CoreSharing(
            first_guess=share, window_s=self.window_s, eps=self.eps
        )
        sharing.look(view)
        if start := view.start_first(view.queue, cores=1.0):
            return start
        self._moves = sharing.divide(view, share, min_share=CPU_JOB_SHARE)
        if self._moves:
            return self._moves.pop(0)
        return Wait(self.window_s) if sharing.end_instant(view) else Wait()


policy = Synergy
GRID = {"window_s": (30.0, 60.0, 120.0), "eps": (0.02, 0.04, 0.08)}
