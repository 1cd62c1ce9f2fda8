"""FIFO in which a short trial job does not wait: it displaces the long job that is smallest and quickest to pause.

Claim: preempting those long jobs that can be resumed without much delay cuts the 95th percentile of the slowdown of
trial jobs under FIFO by 96.6 % (FitGpp; Yabuuchi et al., OpML 2019, abstract). From memory, not checked against the
paper: the score, size / largest size + 4 x grace period / longest grace period, where size is the norm of a job's
shares of a node; the job with the lowest score is paused, and no job more than P = 1 times. Our choice: a trial has a
profiled run time of at most `trial_s`; the grace period is the pause; a trial waits if no single job frees enough GPUs
of one node.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Start, Wait
from gpu_cluster_gym.simulator.search import displaceable, may_any_start, room_by_one

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

WEIGHT = 4.0  # of the grace period in the score
MAX_PAUSES = 1  # times that a job may be paused (P)


@dataclass
class FitGpp:
    """One episode of the policy. trial_s: longest profiled run time of a trial, s."""

    trial_s: float = 1800.0

    def __post_init__(self) -> None:
        self._moves: list[Action] = []

    def __call__(self, view: "View") -> Action:
        """Start a job that fits, else displace a job for the first trial for which one suffices, else wait."""
        if self._moves:
            return self._moves.pop(0)
        queue = view.queue
        if may_any_start(view) and (start := view.start_first(queue)):
            return start
        queued = view.jobs_of(queue)
        trials = queue[(queued.estimate_s <= self.trial_s) & ~queued.is_cpu_job]
        if not len(trials):
            return Wait()
        running = displaceable(view)
        jobs = view.jobs_of(running)
        long = running[(jobs.estimate_s > self.trial_s) & (jobs.preemptions < MAX_PAUSES)]
        # Sorting takes longer than a search, which mostly finds nothing.
        found = room_by_one(view, trials, long) and room_by_one(view, trials, by_score(view, long))
        if not found:
            return Wait()
        job, room = found
        self._moves = [Start(job, Placement(room.gpus))]
        return Preempt(room.victims[0])


def by_score(view: "View", running: np.ndarray) -> np.ndarray:
    """Return running jobs in order of score, lowest first, in which they are tried."""
    jobs = view.jobs_of(running)
    cores, grace_s = jobs.cores_now / view.nodes.cores.max(), jobs.pause_s
    size = jobs.num_gpus * np.hypot(1 / view.nodes.num_gpus.max(), cores * view.cpu_limited)
    score = size / size.max(initial=1e-9) + WEIGHT * grace_s / grace_s.max(initial=1e-9)
    order: np.ndarray = running[np.argsort(score, kind="stable")]
    return order


policy = FitGpp
GRID = {"trial_s": (300.0, 900.0, 3600.0, 7200.0, 14_400.0)}
