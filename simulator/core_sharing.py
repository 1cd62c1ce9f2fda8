"""CPU cores divided among running jobs, for policies in Python; inferred from CODA.

On each node some cores for each GPU are reserved for jobs with GPUs, the rest is for CPU jobs. Each side borrows what
the other leaves idle, and gives it back by shrinking, without a pause: a job that has more than the reserve of its GPUs
shrinks when a CPU job comes, and the CPU job that came last when a job with GPUs needs its reserve.

`simulator.kernel.cores.tuning` finds the cores that each job needs; `simulator.kernel.cores.sharing` divides the cores
and throttles CPU jobs. `union` uses the same functions.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import Tier
from gpu_cluster_gym.simulator.kernel.cluster.plan import CORES, tier_of
from gpu_cluster_gym.simulator.kernel.cores import sharing
from gpu_cluster_gym.simulator.kernel.cores.sharing import (
    DROP,
    MIN_SHARE,
    TOLERANCE,
    WINDOW_S,
    core_dtype,
    init_tuning,
)
from gpu_cluster_gym.simulator.policy import Action, Placement, Resize, Start, Throttle
from gpu_cluster_gym.simulator.source import source_of

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


class CoreSharing:
    """Division of CPU cores for one policy in one episode; its methods return actions and carry none out."""

    def __init__(
        self,
        *,
        tunes: bool = True,
        first_guess: float = 3.0,
        window_s: float = WINDOW_S,
        eps: float = TOLERANCE,
        drop: float = DROP,
    ) -> None:
        """Choose the settings.

        tunes: whether needs are found by trying; otherwise each job wants what it requests.
        first_guess: cores per GPU before anything is known.
        window_s: minimum time for which a number of cores is watched, s; the first window after a start is ignored.
        eps: difference from the best busy share of GPUs up to which a number of cores is enough.
        drop: loss of busy share, at the same number of cores, after which a job is tuned again.
        """
        self._tunes, self._first_guess = tunes, first_guess
        self._goes_by = window_s, eps, drop
        self._size: Tier | None = None
        self._memory: np.ndarray | None = None
        self._list: list[np.ndarray] = []

    def __setstate__(self, copied: dict[str, Any]) -> None:
        """Restore a copy, with a new record of the kernel's own dtype, and views of its fields."""
        vars(self).update(copied)
        if self._memory is not None and self._size is not None:
            record = self._memory
            self._init_memory(self._size)
            self._looked_at[:] = record

    def look(self, view: "View") -> None:
        """Read how busy GPUs are and note what each job wants; must be called first at an instant."""
        source = source_of(view)
        if self._memory is None:
            self._init_memory(tier_of(source.states))
            self._looked_at["first_guess"] = self._first_guess
            init_tuning(self._looked_at, *self._goes_by)
        sharing.look(source.states, 0, self._memory, 0, source.jobs, self._tunes)

    def start_on_cores(self, view: "View", queue: np.ndarray, reserve: float) -> list[Action]:
        """Return the actions that start the first CPU job of a queue that fits beside the reserves; none if none fits.

        The job gets the node on which it leaves the most cores beyond those that other jobs want, and jobs there give
        back the cores that it takes. reserve: guaranteed cores per GPU of a job with GPUs.
        """
        source = source_of(view)
        sharing.start_on_cores(
            source.states, 0, self._looked_at, 0, source.jobs, source.known(queue), float(reserve)
        )
        return self._proposed()

    def divide(self, view: "View", reserve: float, *, min_share: float = MIN_SHARE) -> list[Action]:
        """Return the changes of a new division of the cores, those that free cores first.

        A job with GPUs gets one core per GPU and those of its servers, a CPU job the minimum share of its request. Then
        jobs with GPUs get the reserve, CPU jobs the rest of their requests, in the order of their starts, and jobs with
        GPUs, by marginal gain per core, the rest of what they want.
        """
        source = source_of(view)
        sharing.share(source.states, 0, self._looked_at, 0, source.jobs, float(reserve), float(min_share))
        return self._proposed()

    def throttle(self, view: "View") -> Throttle | None:
        """Return one step of throttling or releasing a CPU job, None if there is nothing to do.

        If a node's jobs draw more than its memory bandwidth, and jobs on its GPUs may suffer, the CPU job that draws
        most is throttled by a level. A job is released by a level if the node then stays well below its bandwidth.
        """
        source = source_of(view)
        if not sharing.throttle(source.states, 0, self._looked_at, 0, source.jobs, 1.0):
            return None
        _, job, level = (column[0] for column in self._list)
        return Throttle(int(job), float(level))

    def end_instant(self, view: "View") -> bool:
        """Begin to watch jobs whose cores have changed; must be called last at an instant.

        Return whether to look again after `window_s`: for a useful reading, or because a job is throttled.
        """
        source = source_of(view)
        return bool(sharing.end_instant(source.states, 0, self._looked_at, 0, source.jobs, self._tunes))

    @property
    def _looked_at(self) -> np.ndarray:
        if self._memory is None:
            raise ValueError(
                "CoreSharing has no view yet: call look(view) before the methods that return actions"
            )
        return self._memory

    def _init_memory(self, size: Tier) -> None:
        """Make a record of zeros at a tier."""
        self._size, self._memory = size, np.zeros(1, core_dtype(size))
        self._list = [self._memory[0][field] for field in ("move_kind", "move_job", "move_value")]

    def _proposed(self) -> list[Action]:
        """Return the moves that the kernel has proposed."""
        count = int(self._looked_at["num_moves"][0])
        if not count:
            return []
        rows = (column[:count].tolist() for column in self._list)
        node = int(self._looked_at["node"][0])
        return [_move(kind, job, value, node) for kind, job, value in zip(*rows, strict=True)]


def _move(kind: int, job: int, value: float, node: int) -> Action:
    return Resize(job, value) if kind == CORES else Start(job, Placement((), node=node))
