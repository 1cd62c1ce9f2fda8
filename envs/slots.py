"""The slots through which an agent sees and acts: the first queued jobs in order, the longest running ones."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from envs.kernel import calls, features


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
class Draft:
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

    def at(self, instant: int) -> "Draft":
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


class Slots:
    """Buffers of what an agent may see and do now; `refresh` fills them from an episode.

    queue, running: job of each slot, -1 where it is empty. queue_mask, running_mask: what may be picked or paused.
    queue_features: (K, len(QUEUE_FEATURES)). running_features: (R, len(RUNNING_FEATURES)). totals: (len(TOTALS),).
    prior: (K + 1,) logits of the rule in force, the last for waiting. draft: a start being put together.
    """

    def __init__(self, queue_slots: int, running_slots: int) -> None:
        """Make empty buffers."""
        self.queue = np.full(queue_slots, -1, np.int64)
        self.queue_features = np.zeros((queue_slots, len(features.QUEUE_FEATURES)), np.float32)
        self.queue_mask = np.zeros(queue_slots + 1, np.int8)
        self.prior = np.zeros(queue_slots + 1, np.float32)
        self.totals = np.zeros(len(features.TOTALS), np.float32)
        self.running = np.full(running_slots, -1, np.int64)
        self.running_features = np.zeros((running_slots, len(features.RUNNING_FEATURES)), np.float32)
        self.running_mask = np.zeros(running_slots, np.int8)
        self.can_wait = True
        self.draft = Draft()

    def refresh(self, states: np.ndarray, e: int, jobs: np.ndarray) -> None:
        """Look at record `e` as it is now, whose rule in force gives the order and the prior."""
        features.observe_queue(
            states, e, jobs, self.queue, self.queue_features, self.totals, self.queue_mask, self.prior
        )
        if len(self.running):
            features.observe_running(states, e, jobs, self.running, self.running_features, self.running_mask)
        self.can_wait = bool(calls.next_event(states, e, jobs) < np.inf)

    @property
    def own_choice(self) -> int:
        """The slot that the rule in force would pick, or the number of slots for waiting."""
        return int(self.prior.argmax())
