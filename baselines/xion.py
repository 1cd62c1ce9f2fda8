"""Preempt only when it pays, weighing what all jobs concerned gain and lose.

Claim: schedulers favour least remaining time, but pausing and loading a job take up to hundreds of seconds;
then SRTF is ineffective and FIFO sometimes better; preempt only when that is beneficial (Xion, IEEE CLOUD
2023, pp. 175-177). Only the abstract was at hand; it states no rule. Inferred, with R the estimated remaining
time, P and L the seconds to pause and to load, g the GPUs, G those of the cluster:

- order: E = R, + L if the job was paused before; queued jobs start in that order while they fit;
- j, the first that does not fit, may displace running jobs V with R > E_j: the set that makes room for the
  least cost, the sum of (P + L) g. No job is displaced while GPUs are being freed for j;
- gain = t_w - t_p, the wait for natural ends less the slowest pause; loss = sum over V of t_p + E_j + L;
  queue = cost / G x the number of others waiting whose memory fits those GPUs;
- j displaces V if gain - loss - queue > margin.

So one victim that j waits for anyway must have R_v - E_j > 2 P_v + L_v + queue. The form often written,
"remaining gap exceeds overhead" (`rule="gap"`; for several: mean R > sum of E_j + P + L), forgets that j
waits for the pause. Where pausing is free the order alone decides, as in SRTF: added, for that limit.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from simulator.policy import Action, Placement, Preempt, Start, Wait
from simulator.search import Room, displaceable, room_for, wait_for_room

if TYPE_CHECKING:
    from simulator.view import View


@dataclass
class Xion:
    """One episode of the policy.

    rule: what is compared, see above. count_queue: whether overhead is charged to the jobs that wait as well.
    q_min_s: seconds since its last start that a victim must have run. margin_s: seconds to be won at least.
    """

    rule: Literal["derived", "gap"] = "derived"
    count_queue: bool = True
    q_min_s: float = 0.0
    margin_s: float = 0.0

    def __post_init__(self) -> None:
        self._instant = -1
        self._displaced: list[int] = []  # at this instant
        self._moves: list[Action] = []  # still to be made, the last first

    def __call__(self, view: "View") -> Action:
        """Start what fits in order, then displace jobs where it pays, then wait."""
        if self._instant != view.instant:
            self._instant = view.instant
            self._displaced = []
        if self._moves:
            return self._moves.pop()
        order = np.setdiff1d(view.queue, self._displaced) if self._displaced else view.queue
        if not len(order):
            return Wait()
        effort = view.jobs.remaining_s + view.jobs.loading_s  # E
        if start := view.start_first(order[np.argsort(effort[order], kind="stable")]):
            return start
        return self._displace(view, order[view.jobs.num_gpus[order] > 0], effort)

    def _displace(self, view: "View", queue: np.ndarray, effort: np.ndarray) -> Action:
        coming = view.gpus.reserved_for
        coming = coming[coming >= 0]
        waiting = np.union1d(queue, coming) if len(coming) else queue
        if not len(queue) or (job := first(waiting, effort)) in coming:
            return Wait()  # a pause for the first in order is in flight
        if not (room := self._worthwhile(view, job, queue, effort)):
            return Wait()
        self._displaced += room.victims
        self._moves = [Start(job, Placement(room.gpus)), *map(Preempt, room.victims)]
        return self._moves.pop()

    def _worthwhile(self, view: "View", job: int, queue: np.ndarray, effort: np.ndarray) -> Room | None:
        """Return the room that pauses can make for a job if that pays."""
        jobs, wait = view.jobs, wait_for_room(view, job, effort)
        overhead = jobs.pause_s + jobs.load_s
        if (
            self.rule == "derived"
            and wait - effort[job] <= self.margin_s
            and overhead[jobs.num_gpus > 0].all()
        ):
            return None  # not even if the overhead were nothing; spares the search
        running = displaceable(view)
        settled = view.now - jobs.phase_began_s[running] >= self.q_min_s
        able = running[settled & (jobs.remaining_s[running] > effort[job])]
        room = room_for(view, job, able, overhead * jobs.num_gpus) if len(able) else None
        if room is None or not room.victims:
            return None  # or it is not GPUs that it lacks
        chosen = room.victims
        if not overhead[chosen].any():
            return room
        if self.rule == "gap":
            benefit = jobs.remaining_s[chosen].mean() - (effort[job] + overhead[chosen]).sum()
        else:
            pause = jobs.pause_s[chosen].max()
            benefit = wait - pause - (pause + effort[job] + jobs.load_s[chosen]).sum()
        if self.count_queue:
            others = np.count_nonzero(jobs.profiled_memory_gib[queue] <= room.memory_gib) - 1
            benefit -= others * (overhead * jobs.num_gpus)[chosen].sum() / len(view.gpus.first_owner)
        return room if benefit > self.margin_s else None


def first(jobs: np.ndarray, effort: np.ndarray) -> int:
    """Return the job of least effort, the first by (submit, job) among equals."""
    return int(jobs[np.argmin(effort[jobs])])


policy = Xion
GRID = {"rule": ("derived", "gap"), "count_queue": (True, False), "margin_s": (0.0, 60.0, 300.0, 1800.0)}
