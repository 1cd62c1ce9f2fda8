"""A plan of shapes carried out in plain Python: jobs keep their GPUs, pause, restart in another shape or start.

A policy returns an order of jobs and, for each, the shapes that would do, the best first. One pass in that order
gives each job the first shape for which there is room on GPUs, and cores, that no job before it has been given: its own
first, then free ones, then those that pauses in flight will free, then those of the jobs that come last. A job stays on
the node where it displaces fewest others, and of those where least is left; jobs with parameter servers, which are as
fast wherever their workers are, and those larger than any node are spread where one node has no room. Then running jobs
that got nothing are paused, those whose shape or GPUs have changed are restarted, and queued ones start; no other
job is touched. CPU jobs start where they fit.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.kernel.rounds.rechecks import RECHECK_S
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Resize, Start, Wait
from gpu_cluster_gym.simulator.vocabulary import DONE, NOBODY, PAUSING, QUEUED
from tests.accounts.shape_room import ROUNDING, Grant, Room
from tests.accounts.shapes import Now, Request, asked, cores_each, held

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


class Rounds:
    """Moves of a policy that makes a plan at intervals, when a job turns predictable, comes or ends.

    In between, what fits starts in the order of a plan and no job is touched; nor is ever a job that has not yet run
    for a round since it last began: a job that is restarted gets something done (our choice). A round may be late by
    less than RECHECK_S.
    """

    def __init__(
        self,
        plan: Callable[[Now, bool], Sequence[Request]],
        every_s: float,
        note: Callable[[Now], None] | None = None,
    ) -> None:
        """Take the function that returns a plan of all queued or running jobs; its flag says that a round is due.

        note: called with the state before each plan, also where none is made since nothing could be given.
        """
        self._plan, self._every_s, self._note = plan, every_s, note
        self._instant, self._began_s, self._wake_s = -1, -np.inf, -np.inf
        self._looked, self._known, self._ended = b"", np.zeros(0, bool), 0
        self._moves: Iterator[Action] = iter(())

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant, then a wait."""
        if view.instant != self._instant:
            self._instant = view.instant
            if self._nothing_new(view):
                return self._recheck(view)
            self._moves = self._walk(view)
        if move := next(self._moves, None):
            return move
        self._looked = _looks(view)
        return self._recheck(view)

    def _recheck(self, view: "View") -> Wait:
        pending = not view.nothing_pending
        self._wake_s = view.now + RECHECK_S if pending else -np.inf
        return Wait(RECHECK_S) if pending else Wait()

    def _nothing_new(self, view: "View") -> bool:
        """Return whether this is no round, only the end of a wait in which nothing happened."""
        woken, due = view.now == self._wake_s, view.now >= self._began_s + self._every_s
        return woken and not due and _looks(view) == self._looked

    def _walk(self, view: "View") -> Iterator[Action]:
        now = Now(view)
        turned, ended = (
            now.jobs.is_predictable[: len(self._known)] > self._known,
            int((now.jobs.phase == DONE).sum()),
        )
        due = view.now >= self._began_s + self._every_s or bool(turned.any())
        movable = view.preemptible[:0]
        if due or (len(now.jobs.phase), ended) != (len(self._known), self._ended):
            movable = view.preemptible
            movable = movable[
                (view.now - now.jobs.phase_began_s[movable] >= self._every_s)
                & (now.jobs.num_gpus[movable] > 0)
            ]
        self._known, self._ended = now.jobs.is_predictable, ended
        if due:
            self._began_s = view.now
        if len(movable) or (now.jobs.phase == QUEUED).any():
            if self._note:
                self._note(now)
            futile = not due and not len(movable) and _nothing_to_give(now)
            yield from moves(now, () if futile else self._plan(now, due), movable)


def _nothing_to_give(now: Now) -> bool:
    """Return whether no GPU is free or being freed, and no job that waits could run on CPU cores."""
    holder = now.gpus.first_owner
    to_come = (holder == NOBODY) | (now.jobs.phase[holder] == PAUSING)
    is_open = to_come & (now.gpus.reserved_for == NOBODY) & (now.gpus.num_jobs <= 1)
    return not is_open.any() and not (now.jobs.cpu_slowdown[now.jobs.phase == QUEUED] > 0).any()


def _looks(view: "View") -> bytes:
    """Return the phases of jobs and nodes: a change is a cause to start jobs."""
    phases, closed = view.jobs.phase, view.nodes.closed
    return bytes(phases) + bytes(closed)


def moves(now: Now, requests: Sequence[Request], movable: np.ndarray) -> Iterator[Action]:
    """Yield the moves of this instant, each of which is to be made before the next is requested.

    movable: the running jobs that may be paused or restarted; the others keep their resources.
    """
    view = now.view
    waiting = view.waiting
    on_gpus = now.jobs.num_gpus[waiting] > 0
    asks = {*waiting[on_gpus].tolist(), *movable.tolist()}
    requests = [request for request in requests if request.job in asks]
    has = {job: held(now, job) for job in movable.tolist()}
    if not len(waiting) and all(has[job] == shapes[0] for job, shapes in requests):
        return
    if requests:
        room = Room(now, [request.job for request in requests], has)
        grants = {request.job: grant for request in requests if (grant := room.grant(request))}
        yield from (Preempt(job) for job in movable.tolist() if job not in grants)
        yield from _restarts(now, {job: grant for job, grant in grants.items() if room.changes(job, grant)})
        for job in [job for job in grants if job not in has]:
            start = Start(job, _placement(now, job, grants[job]))
            if _has_cores(view, room.feeding[job], grants[job]) and not view.why_not(start):
                yield start
    for job in waiting[~on_gpus].tolist():
        if placement := view.place(job):
            yield Start(job, placement)
    if view.nothing_pending and len(view.startable):
        job = int(view.startable[0])
        yield Start(job, view.place(job) or Placement(()))


def _restarts(now: Now, grants: dict[int, Grant]) -> Iterator[Action]:
    """Yield restarts, starting with those onto GPUs that no job still to be restarted holds.

    Where jobs are to have each other's GPUs the last in order is paused.
    """
    left = [(job, Resize(job, placement=_placement(now, job, grant))) for job, grant in grants.items()]
    while left:
        ready = next((k for k, (_, resize) in enumerate(left) if not now.view.why_not(resize)), None)
        job, resize = left.pop(-1 if ready is None else ready)
        yield Preempt(job) if ready is None else resize


def _placement(now: Now, job: int, grant: Grant) -> Placement:
    """Return a grant as the placement of an action, which leaves open what is as requested."""
    shape, usual = grant.shape, asked(now, job)
    meant = usual.workers if shape.on_cpu else len(grant.gpus)
    return Placement(
        grant.gpus,
        node=grant.node if shape.on_cpu else None,
        workers=None if shape.workers == meant else shape.workers,
        servers=None if shape.servers == usual.servers else shape.servers,
    )


def _has_cores(view: "View", feeding: float, grant: Grant) -> bool:
    """Return whether the cores for a start are there now, or it waits for GPUs in any case."""
    gpus = np.array(grant.gpus, int)
    if not view.cpu_limited or not len(gpus) or (view.gpus.first_owner[gpus] >= 0).any():
        return True
    count = np.bincount(view.gpus.node[gpus], minlength=len(view.nodes.num_gpus))
    there = view.nodes.unreserved_cores + ROUNDING >= (cores_each(feeding, grant.shape) - 1) * count
    return bool(there[count > 0].all())
