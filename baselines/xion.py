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

from gpu_cluster_gym.simulator import search
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Start, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import Jobs, View


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
        queue = np.setdiff1d(view.queue, self._displaced) if self._displaced else view.queue
        if not len(queue):
            return Wait()
        if search.may_any_start(view) and (start := view.start_first(search.by_effort(view, queue))):
            return start
        return self._displace(view, queue)

    def _displace(self, view: "View", queue: np.ndarray) -> Action:
        blocked = search.first_blocked(view, queue)
        if blocked is None:  # or a pause for the first in order is in flight
            return Wait()
        if not (room := self._worthwhile(view, blocked, queue)):
            return Wait()
        self._displaced += room.victims
        self._moves = [Start(blocked.job, Placement(room.gpus)), *map(Preempt, room.victims)]
        return self._moves.pop()

    def _worthwhile(self, view: "View", blocked: search.Blocked, queue: np.ndarray) -> search.Room | None:
        """Return the room that pauses can make for a job if that pays."""
        job, effort, wait = blocked
        if self.rule == "derived" and wait - effort <= self.margin_s and search.all_cost(view):
            return None  # not even if the overhead were nothing; spares the search
        running = search.displaceable(view)
        jobs = view.jobs_of(running)
        able = running[(view.now - jobs.phase_began_s >= self.q_min_s) & (jobs.remaining_s > effort)]
        if not len(able):
            return None
        cost = (view.jobs.pause_s + view.jobs.load_s) * view.jobs.num_gpus
        room = search.room_for(view, job, able, cost)
        if room is None or not room.victims:
            return None  # or it is not GPUs that it lacks
        benefit = self._benefit(view, view.jobs_of(room.victims), effort, wait)
        if np.isinf(benefit):
            return room
        if self.count_queue:
            queued = view.jobs_of(queue[view.jobs.num_gpus[queue] > 0])
            others = np.count_nonzero(queued.profiled_memory_gib <= room.memory_gib) - 1
            benefit -= others * cost[room.victims].sum() / len(view.gpus.first_owner)
        return room if benefit > self.margin_s else None

    def _benefit(self, view: "View", victims: "Jobs", effort: float, wait: float) -> float:
        """Return the seconds won by a start instead of these victims; infinite where to pause them is free."""
        overhead = victims.pause_s + victims.load_s
        if not overhead.any():
            return np.inf
        if self.rule == "gap":
            return float(victims.remaining_s.mean() - (effort + overhead).sum())
        pause = victims.pause_s.max()
        return float(wait - pause - (pause + effort + victims.load_s).sum())


policy = Xion
GRID = {"rule": ("derived", "gap"), "count_queue": (True, False), "margin_s": (0.0, 60.0, 300.0, 1800.0)}
