"""Finish-time fairness: the job with the worst ratio of shared to exclusive JCT goes first (Themis, NSDI 2020).

Claim: a job is treated fairly if it ends no later than with a share of its own; GPUs whose lease is over go to the jobs
furthest from that, at the price of some efficiency (general knowledge). From memory, not checked against the paper:
leases of 20 minutes.

Inferred, with rho = (time since submission + time left) / (time run + time left), as if the job held its GPUs from now
on: the largest rho comes first; while a lease lasts the job is not paused, and afterwards it stays until a job with
a larger rho needs the GPUs. Time left is as estimated. The exclusive JCT is that with all GPUs that the job requests; a
fair share instead would change all rho by about the same factor. Left out: auctions, in which jobs bid for GPUs close
together, and the filter by which only the worst part may bid; apps of several jobs. Rounds and victims are as in
`simulator.priority_rounds`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.priority_rounds import ROUND_S, PriorityRounds, Requests, requests_by
from gpu_cluster_gym.simulator.search import queued_or_running
from gpu_cluster_gym.simulator.vocabulary import RUNNING

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import Jobs, View

LEASE_S = 1200.0


@dataclass
class Themis(PriorityRounds):
    """One episode of the policy. lease_s: seconds for which a job is not paused; round_s: seconds between rounds."""

    lease_s: float = LEASE_S
    round_s: float = ROUND_S

    def __post_init__(self) -> None:
        super().__init__(self._requests, self.round_s)

    def _requests(self, view: "View") -> Requests:
        here = queued_or_running(view)
        jobs = view.jobs_of(here)
        leased = (jobs.phase == RUNNING) & (view.now - jobs.phase_began_s < self.lease_s)
        return requests_by(here, jobs.num_gpus, ~leased, -unfairness(jobs, view.now))


def unfairness(jobs: "Jobs", now: float) -> np.ndarray:
    """Return rho of each job, 1 if it is not delayed at all: (jobs,)."""
    left = jobs.remaining_s
    rho: np.ndarray = (now - jobs.submit_s + left) / (jobs.attained_s + left)
    return rho


policy = Themis
GRID = {"lease_s": (300.0, LEASE_S, 3600.0, 14_400.0), "round_s": (60.0, ROUND_S, 960.0)}
