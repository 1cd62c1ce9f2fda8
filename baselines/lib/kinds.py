"""Turns on GPUs of a type: which jobs are on which, how fast they are there, and which are paused, moved or started.

The last kind of a cluster is all its GPUs together, for gangs that no type has GPUs enough for; elsewhere it is unused.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.policy import Action, Placement, Preempt, Resize, Start
from simulator.search import Room, displaceable, room_before
from simulator.vocabulary import LOADING, NOBODY, OPEN, RUNNING

if TYPE_CHECKING:
    from simulator.view import View


ROUNDING = 1e-6  # of sums of cores


class Turn(NamedTuple):
    """A job on a kind of GPUs."""

    job: int
    kind: int


class Known(NamedTuple):
    """What never changes about a job on a cluster.

    holds: whether the GPUs of each node are large enough. slowest: the speed on each kind, of the slowest of its GPUs
    that are. request: the same as `holds`, to compare jobs by.
    """

    holds: np.ndarray
    slowest: np.ndarray
    request: bytes


class Kinds:
    """The types of a cluster's GPUs, and what has been seen of each job on them."""

    def __init__(self, view: "View") -> None:
        """Look at the cluster."""
        types = np.unique(view.nodes.gpu_type[view.nodes.num_gpus > 0])
        each = view.nodes.gpu_type == types[:, None]
        self.nodes = np.vstack([each, each.any(axis=0)])  # (kinds, nodes)
        self._kind = each.argmax(axis=0)  # of each node
        self._known: dict[int, Known] = {}

    def __len__(self) -> int:
        """Return how many kinds there are, that of all GPUs together included."""
        return len(self.nodes)

    def sizes(self, view: "View") -> np.ndarray:
        """Return how many GPUs of each type are on nodes where jobs may start."""
        total: np.ndarray = self.nodes[:-1] @ np.where(view.nodes.closed == OPEN, view.nodes.num_gpus, 0)
        return total

    def speeds(self, view: "View", jobs: np.ndarray) -> np.ndarray:
        """Return how fast some jobs are on each kind, 0 where there are not GPUs enough that are large enough."""
        there = np.where(view.nodes.closed == OPEN, view.nodes.num_gpus, 0)
        if not len(jobs):
            return np.zeros((0, len(self)))
        known = [self.known(view, job) for job in jobs.tolist()]
        holds, slowest = np.array([each.holds for each in known]), np.array([each.slowest for each in known])
        enough = (holds * there) @ self.nodes.T >= view.jobs.num_gpus[jobs, None]
        enough[:, -1] &= ~enough[:, :-1].any(axis=1)
        return np.where(enough, slowest, 0.0)

    def known(self, view: "View", job: int) -> Known:
        """Return what never changes about a job here."""
        if job not in self._known:
            holds, speed = view.can_hold(job), view.type_speed(job)
            slowest = [speed[nodes & holds].min(initial=np.inf) for nodes in self.nodes]
            self._known[job] = Known(holds, np.array(slowest), holds.tobytes())
        return self._known[job]

    def held(self, view: "View") -> np.ndarray:
        """Return the kind on which each job runs or loads, -1 for others."""
        kind, has = np.full(len(view.jobs.phase), -1), view.gpus.first_owner >= 0
        here = self._kind[view.gpus.node[has]]
        owner = view.gpus.first_owner[has]
        kind[owner] = here
        kind[owner[kind[owner] != here]] = len(self) - 1  # GPUs of two types
        kind[(view.jobs.phase != RUNNING) & (view.jobs.phase != LOADING)] = -1
        return kind

    def fit(self, view: "View", job: int, kind: int) -> Placement | None:
        """Return free GPUs of a kind for a job: where there is but one, by the scenario's rule, else by best fit."""
        if kind == len(self) - 1 or len(self) == 2:
            return view.place(job)
        free, able = view.nodes.free_gpus.copy(), self.nodes[kind] & view.can_hold(job)
        more = max(float(view.jobs.cores_each[job]) - 1, 0.0) if view.cpu_limited else 0.0
        gpus: list[int] = []
        for wanted in by_node(view, job, able):
            cores = view.nodes.unreserved_cores + ROUNDING >= more * wanted
            nodes = np.flatnonzero(able & cores & (free >= wanted))
            if not len(nodes):
                return None
            node = nodes[free[nodes].argmin()]
            is_free = (
                (view.gpus.node == node) & (view.gpus.first_owner < 0) & (view.gpus.reserved_for == NOBODY)
            )
            gpus += np.flatnonzero(is_free)[:wanted].tolist()
            able[node] = False
        return Placement(tuple(gpus))


def take(view: "View", kinds: Kinds, turns: Sequence[Turn], *, pausing: bool) -> Iterator[Action]:
    """Yield the pauses, moves and starts of this instant, each of which is to be made before the next is asked for.

    turns: in order, any number of a job, of which the first for which there is room counts. A job that runs on that
    kind keeps its GPUs. pausing: whether running jobs may be paused, and go to another kind.
    """
    on, hopeless = kinds.held(view).tolist(), set[tuple[int, int, float, bytes]]()
    num_gpus, cores = view.jobs.num_gpus.tolist(), view.jobs.cores_each.tolist()
    waiting = set(view.waiting.tolist())
    stays = {turn.job: place for place, turn in enumerate(turns) if on[turn.job] == turn.kind}
    may_go = displaceable(view).tolist() if pausing else []
    after = sorted(
        may_go, key=lambda job: stays.get(job, len(turns))
    )  # last those that have no turn where they are
    for job, kind in turns:
        if job in after and on[job] == kind:
            after.remove(job)  # it keeps its GPUs
        if job not in waiting and job not in after:
            continue
        request_class = kind, num_gpus[job], cores[job], kinds.known(view, job).request
        if request_class in hopeless:
            continue
        room = _room(view, kinds, Turn(job, kind), [other for other in after if other != job])
        move = _onto(room.gpus, job, starts=job in waiting) if room else None
        if not room or not move or (not room.victims and view.why_not(move)):  # or cores are free too late
            hopeless.add(request_class)
            continue
        yield from map(Preempt, room.victims)
        after = [other for other in after if other not in room.victims]
        if view.why_not(move):
            continue
        waiting.discard(job)
        if job in after:
            after.remove(job)
            hopeless.clear()  # what it leaves may do for others
        yield move
    yield from _rest(view)


def _room(view: "View", kinds: Kinds, turn: Turn, after: Sequence[int]) -> Room | None:
    """Return GPUs for a job, free ones if they will do, and the jobs to pause for it."""
    if placement := kinds.fit(view, *turn):
        return Room([], placement.gpus)
    if not after and not len(view.pausing):
        return None
    return room_before(view, turn.job, after, kinds.nodes[turn.kind])


def by_node(view: "View", job: int, able: np.ndarray) -> list[int]:
    """Return how many GPUs a job takes on each of its nodes, as the placement rules do where nodes are alike."""
    largest = int(view.nodes.num_gpus[able].max())
    whole, rest = divmod(int(view.jobs.num_gpus[job]), largest)
    return [largest] * whole + [rest] * (rest > 0)


def _onto(gpus: tuple[int, ...], job: int, *, starts: bool) -> Action:
    """Return the start of a queued job, or the move of a running one, on some GPUs."""
    placement = Placement(tuple(sorted(gpus)))
    return Start(job, placement) if starts else Resize(job, placement=placement)


def _rest(view: "View") -> Iterator[Action]:
    """Yield starts of CPU jobs, and of a job without a turn where nothing would ever wake the policy for it."""
    waiting = view.waiting
    for job in waiting[view.jobs.num_gpus[waiting] == 0].tolist():
        if placement := view.place(job):
            yield Start(job, placement)
    if view.nothing_pending and len(view.startable):
        job = int(view.startable[0])
        yield Start(job, view.place(job) or Placement(()))
