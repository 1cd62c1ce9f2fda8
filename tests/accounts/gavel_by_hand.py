"""Gavel's turns in plain Python, with which the compiled policy is compared move by move."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.baselines.gavel import NEGLIGIBLE, ROUND_S, Kinds, Objective, Shares
from gpu_cluster_gym.simulator.kernel.rounds.rechecks import RECHECK_S
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Resize, Start, Wait
from gpu_cluster_gym.simulator.search import Room, displaceable, room_before
from gpu_cluster_gym.simulator.vocabulary import DONE, LOADING, NOBODY, RUNNING

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

ROUNDING = 1e-6  # of sums of cores


class Turn(NamedTuple):
    """A job on a kind of GPUs."""

    job: int
    kind: int


class KindsByHand(Kinds):
    """Types of a cluster's GPUs, and the jobs and free GPUs of each."""

    def __init__(self, view: "View") -> None:
        """Look at the cluster."""
        super().__init__(view)
        self._kind = self.nodes[:-1].argmax(axis=0)  # of each node

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


@dataclass
class GavelByHand:
    """One episode of the policy; see `baselines.gavel.Gavel`."""

    objective: Objective = "fairness"
    round_s: float = ROUND_S

    def __post_init__(self) -> None:
        self._instant, self._now, self._began_s = -1, 0.0, -np.inf
        self._divided: tuple[bytes, ...] = ()
        self._moves: Iterator[Action] = iter(())

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant, then a wait."""
        if self._instant < 0:
            self._kinds, self._on = KindsByHand(view), np.zeros(0, int)
            self._shares, self._owed_s, self._got_s = np.zeros((3, 0, len(self._kinds)))
        if view.instant != self._instant:
            self._instant = view.instant
            self._count(view)
            self._moves = self._begin(view)
        if move := next(self._moves, None):
            return move
        self._on = self._kinds.held(view)
        waiting = view.jobs.num_gpus[view.queue].any() or len(self._kinds) > 2
        return Wait(RECHECK_S) if waiting and len(view.running) else Wait()

    def _count(self, view: "View") -> None:
        """Count the time that has passed as owed to jobs by their shares, and as received where they held GPUs."""
        passed_s, self._now = view.now - self._now, view.now
        self._owed_s += self._shares * passed_s
        had = np.flatnonzero(self._on >= 0)
        self._got_s[had, self._on[had]] += passed_s
        if new := len(view.jobs.phase) - len(self._shares):
            tables = self._shares, self._owed_s, self._got_s
            self._shares, self._owed_s, self._got_s = (np.pad(table, ((0, new), (0, 0))) for table in tables)

    def _begin(self, view: "View") -> Iterator[Action]:
        """Return the moves of this instant; shares are computed again if jobs, or nodes, have changed."""
        due = view.now >= self._began_s + self.round_s
        if due:
            self._began_s = view.now
        if not due and not len(view.startable):
            return iter(())
        jobs = np.flatnonzero((view.jobs.phase != DONE) & (view.jobs.num_gpus > 0))
        there = jobs.tobytes(), view.nodes.closed.tobytes()
        if there != self._divided:
            self._divided = there
            speed, sizes = self._kinds.speeds(view, jobs), self._kinds.sizes(view)
            self._shares[:] = 0
            self._shares[jobs] = Shares(self.objective)(view.jobs.num_gpus[jobs], speed, sizes)
        return take(view, self._kinds, self._turns(jobs), pausing=due)

    def _turns(self, jobs: np.ndarray) -> list[Turn]:
        """Return the jobs on the kinds that they have shares of, by what they are owed over what they have had."""
        share, owed_s, got_s = self._shares[jobs], self._owed_s[jobs], self._got_s[jobs]
        ratio = np.where(got_s > 0, owed_s / np.maximum(got_s, NEGLIGIBLE), np.inf)
        row, kind = np.nonzero(share)
        order = np.lexsort((jobs[row], -share[row, kind], -ratio[row, kind]))
        return list(map(Turn, jobs[row[order]].tolist(), kind[order].tolist()))


def take(view: "View", kinds: KindsByHand, turns: Sequence[Turn], *, pausing: bool) -> Iterator[Action]:
    """Yield the pauses, moves and starts of this instant, each of which is to be made before the next is requested.

    turns: in order; a job may have several, of which the first that fits counts. A job that runs on that kind keeps its
    GPUs. pausing: whether running jobs may be paused, and moved to another kind.
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
        request_class = kind, num_gpus[job], cores[job], view.can_hold(job).tobytes()
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
            hopeless.clear()  # others may fit on the remaining GPUs
        yield move
    yield from _rest(view)


def _room(view: "View", kinds: KindsByHand, turn: Turn, after: Sequence[int]) -> Room | None:
    """Return GPUs for a job, free ones if they suffice, and the jobs to pause for it."""
    if placement := kinds.fit(view, *turn):
        return Room([], placement.gpus)
    if not after and not len(view.pausing):
        return None
    return room_before(view, turn.job, after, kinds.nodes[turn.kind])


def by_node(view: "View", job: int, able: np.ndarray) -> list[int]:
    """Return how many GPUs a job takes on each of its nodes, as the placement rules do on equal nodes."""
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
