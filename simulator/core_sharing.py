"""CPU cores divided among the jobs that run: how many each needs, found by trying, and who gets them; inferred of CODA.

On each node some cores for each GPU are reserved for jobs with GPUs, the rest is for CPU jobs. What one side leaves
idle the other borrows, and gives back by shrinking, without a pause: a job that has more than the reserve of its
GPUs when a CPU job comes, the CPU job that came last when a job with GPUs needs its reserve. How needs are found is in
`simulator.kernel.cores.tuning`, how cores are divided in `simulator.kernel.cores.cores`, who is throttled in
`simulator.kernel.cores.throttling`; the rule over moves does the same.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_cluster_gym.simulator.compiled_policy import Keeps
from gpu_cluster_gym.simulator.decided import next_listed
from gpu_cluster_gym.simulator.kernel.cluster.decided import CORES, tier_of
from gpu_cluster_gym.simulator.kernel.cluster.layout import Tier
from gpu_cluster_gym.simulator.kernel.cores import core_moves, core_sharing
from gpu_cluster_gym.simulator.kernel.cores.core_memory import DROP, EPS, WINDOW_S, core_dtype, forget
from gpu_cluster_gym.simulator.kernel.cores.cores import LEAST_SHARE
from gpu_cluster_gym.simulator.policy import Action, Placement, Resize, Start, Throttle
from gpu_cluster_gym.simulator.source import source_of

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


class CoreSharing:
    """What one policy has learned in an episode of the cores that its jobs need, and what follows from it."""

    def __init__(
        self,
        *,
        tunes: bool = True,
        first_guess: float = 3.0,
        window_s: float = WINDOW_S,
        eps: float = EPS,
        drop: float = DROP,
    ) -> None:
        """Know nothing yet.

        tunes: whether needs are found by trying; else each job wants what it asks for. first_guess: cores a GPU before
        anything is known. window_s: for which a number of cores is watched at least; the first after a start is not
        read. eps: how much less busy than at best GPUs may be. drop: a job so much less busy than it was with the same
        cores is tuned anew.
        """
        self._tunes, self._first_guess = tunes, first_guess
        self._goes_by = window_s, eps, drop
        self._size: Tier | None = None
        self._memory: np.ndarray | None = None
        self._list: list[np.ndarray] = []

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Go on from what was copied: a record of the kernel's own type, and views of it."""
        vars(self).update(kept)
        if self._memory is not None and self._size is not None:
            copied = self._memory
            self._remember(self._size)
            self._kept[:] = copied

    def look(self, view: "View") -> None:
        """Read how busy GPUs are, and note what each job wants; to be called before anything else is asked."""
        source = source_of(view)
        if self._memory is None:
            self._remember(tier_of(source.states))
            self._kept["first_guess"] = self._first_guess
            forget(self._kept, *self._goes_by)
        core_sharing.look(source.states, 0, self._memory, 0, source.jobs, self._tunes)

    def start_on_cores(self, view: "View", queue: np.ndarray, reserve: float) -> list[Action]:
        """Return the moves that start the first CPU job of a queue that fits beside the reserves, none if none does.

        It comes on the node where it leaves most cores beyond those that others want; there they give back what it
        takes. reserve: cores for each GPU of which its job is sure.
        """
        source = source_of(view)
        core_sharing.start_on_cores(
            source.states, 0, self._kept, 0, source.jobs, source.known(queue), reserve
        )
        return self._proposed()

    def divide(self, view: "View", reserve: float, *, least_share: float = LEAST_SHARE) -> list[Action]:
        """Return the changes by which the cores are divided anew, those that free cores first.

        Each job has one and its servers', CPU jobs the least share of what they ask for; then the reserve is given,
        then CPU jobs get what they ask for, in the order of their starts, then, by marginal gain per core, the others
        what they want.
        """
        source = source_of(view)
        core_sharing.share(source.states, 0, self._kept, 0, source.jobs, float(reserve), least_share)
        return self._proposed()

    def throttle(self, view: "View") -> Throttle | None:
        """Return one step of throttling or of releasing a CPU job, None if there is nothing to do.

        Where more bandwidth is drawn than a node's memory gives, and jobs on its GPUs may suffer, the CPU job that
        draws most goes down a level. One goes up again where the node then stays well below what it gives.
        """
        source = source_of(view)
        if not core_sharing.throttle(source.states, 0, self._kept, 0, source.jobs):
            return None
        _, job, level = (column[0] for column in self._list)
        return Throttle(int(job), float(level))

    def end_instant(self, view: "View") -> bool:
        """Begin to watch jobs whose cores have changed; to be called last at an instant.

        Tell whether there is something to look at after `window_s`: a reading of use, or a job that is throttled.
        """
        source = source_of(view)
        return bool(core_sharing.end_instant(source.states, 0, self._kept, 0, source.jobs, self._tunes))

    @property
    def _kept(self) -> np.ndarray:
        if self._memory is None:
            raise ValueError("nothing has been looked at yet: call look first")
        return self._memory

    def _remember(self, size: Tier) -> None:
        """Make a record at a tier, with nothing in it."""
        self._size, self._memory = size, np.zeros(1, core_dtype(size))
        self._list = [self._memory[0][field] for field in ("move_kind", "move_job", "move_value")]

    def _proposed(self) -> list[Action]:
        """Return the moves that the kernel has put on its list."""
        count = int(self._kept["num_moves"][0])
        if not count:
            return []
        rows = (column[:count].tolist() for column in self._list)
        node = int(self._kept["node"][0])
        return [_move(kind, job, value, node) for kind, job, value in zip(*rows, strict=True)]


def _move(kind: int, job: int, value: float, node: int) -> Action:
    return Resize(job, value) if kind == CORES else Start(job, Placement((), node=node))


class CoreMoves(Keeps):
    """The moves of one policy that starts CPU jobs and jobs with GPUs beside one another, and divides the cores."""

    def __init__(self, window_s: float, **choices: float) -> None:
        """Know nothing yet; choices: others of what a `CoreSharing` is told, and of `simulator.kernel.cores`."""
        self._window_s, self._choices = window_s, choices
        super().__init__()

    def dtype(self, size: Tier) -> np.dtype:
        """Return the type of the record at a tier."""
        return core_moves.moves_dtype(size)

    def fresh(self, states: np.ndarray) -> np.ndarray:
        """Return the record as it begins."""
        memory = np.zeros(1, self.dtype(tier_of(states)))
        forget(memory, self._window_s)
        for name, value in self._choices.items():
            memory[name] = value
        return memory

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant, then a wait."""
        source = source_of(view)
        memory = self.kept(source.states)
        kind = core_moves.next_move(source.states, 0, memory, 0, source.jobs)
        return next_listed(memory, kind)

    def run_whole(self, states: np.ndarray, jobs: np.ndarray) -> bool:
        """Make all moves on the first record to the end, inside the kernel; tell whether every job ended."""
        core_moves.run(states, 0, self.kept(states), 0, jobs)
        return bool(states["num_done"][0] == states["num_jobs"][0])
