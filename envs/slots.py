"""The slots through which an agent sees and acts, and the start that it puts together in small steps."""

from dataclasses import dataclass, field
from typing import NamedTuple

from gpu_cluster_gym.simulator.slots import Slots as Places


class Shape(NamedTuple):
    """Workers and parameter servers of a job; its workers on CPU cores, its servers on GPUs of their own."""

    workers: int = 0
    servers: int = 0
    on_cores: bool = False
    apart: bool = False

    @property
    def gpus(self) -> int:
        """GPUs that it takes."""
        return 0 if self.on_cores else self.workers + self.servers * self.apart


NO_SHAPE = Shape()


@dataclass
class PartialAction:
    """A start, or a move, that an agent puts together within an instant, and what it may not do again at it.

    job: -1 for none. moves: whether it runs, and is to go on elsewhere. gpus: named so far. cores: None for as many
    as it asks for in its shape. ways: the direction in which its cores, or a field of its shape, were changed.
    dropped: jobs that were given up. turned: the direction in which a job's cores, or throttle, were changed, by
    (kind of action, job).
    """

    job: int = -1
    moves: bool = False
    shape: Shape = NO_SHAPE
    cores: float | None = None
    gpus: list[int] = field(default_factory=list)
    ways: dict[str, int] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    turned: dict[tuple[type, int], int] = field(default_factory=dict)
    instant: int = -1

    def at(self, instant: int) -> "PartialAction":
        """Forget everything where this is another instant."""
        if instant != self.instant:
            self.clear()
            self.dropped.clear()
            self.turned.clear()
            self.instant = instant
        return self

    def begin(self, job: int, shape: Shape, *, moves: bool) -> None:
        """Begin to put a job's start together, or its move, from this shape."""
        self.clear()
        self.job, self.shape, self.moves = job, shape, moves

    def clear(self) -> None:
        """Forget the start, or move."""
        self.job, self.moves, self.shape, self.cores = -1, False, NO_SHAPE, None
        self.gpus, self.ways = [], {}


class Slots(Places):
    """The slots of an agent, and its partial action: a start being put together."""

    def __init__(self, queue_slots: int, running_slots: int) -> None:
        """Make empty buffers."""
        super().__init__(queue_slots, running_slots)
        self.partial = PartialAction()
