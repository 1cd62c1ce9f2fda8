"""Gittins index: the job most likely to finish soon for the service that it takes, given the sizes seen so far.

Claim: if the distribution of job sizes is known but not each job's size, order jobs by the Gittins index of attained
service a: the maximum over d of P(size - a <= d) / E[min(size - a, d)], among sizes larger than a (Gittins, JRSS B
1979; Tiresias-G, NSDI 2019). Sizes and service are in GPUs x time and discretised, so that equal jobs do not preempt
each other in turns. From memory, not checked against the paper: d ends with a step.

Inferred: steps are the limits of `las` and then doublings; d reaches to the end of a step or beyond all; FIFO within a
step. Once `enough` jobs have finished, sizes are those of finished jobs; before that, since the first jobs to finish
are short, they are the profiled sizes of all submitted jobs. Steps that fewer than `fewest` sizes exceed come last.
Rounds and victims are those of `tiresias`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.baselines.las import LIMITS
from gpu_cluster_gym.simulator.priority_rounds import ROUND_S, PriorityRounds, Requests, requests_by
from gpu_cluster_gym.simulator.search import Ended, queued_or_running

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

STEPS = np.array([*LIMITS, *(LIMITS[-1] * 2.0 ** np.arange(1, 13))])  # GPU-seconds at which the index changes
STARTS = np.array([[0.0], *STEPS[:, None]])  # a at the start of each step, (steps, 1)
# d from each start, a row, to the end of each step, a column; no size is beyond the last
SPANS = np.maximum(np.append(STEPS, 0.0) - STARTS, 0.0)


@dataclass
class Gittins(PriorityRounds):
    """State of the policy in one episode.

    enough: number of finished jobs from which their sizes are used.
    fewest: minimum number of sizes beyond a step for it to have an index; other steps come last.
    round_s: seconds between rounds.
    """

    enough: int = 30
    fewest: int = 5
    round_s: float = ROUND_S

    def __post_init__(self) -> None:
        super().__init__(self._requests, self.round_s)
        self._ended, self._sizes = Ended(), by_step(np.empty(0))
        self._index = indices(self._sizes, self.fewest)

    def _requests(self, view: "View") -> Requests:
        jobs = view.jobs_of(here := queued_or_running(view))
        step = np.searchsorted(STEPS, jobs.ran_s * (gpus := jobs.num_gpus), side="right")
        return requests_by(here, gpus, -self._indices(view)[step], step)

    def _indices(self, view: "View") -> np.ndarray:
        """Return the index of each step; that of finished jobs is computed again only when a job has ended."""
        if len(new := self._ended.new(view)):
            ended = view.jobs_of(new)
            self._sizes += by_step(ended.ran_s * ended.num_gpus)
            self._index = indices(self._sizes, self.fewest)
        if self._sizes[0].sum() >= self.enough:
            return self._index
        return indices(by_step(view.jobs.estimate_s * view.jobs.num_gpus), self.fewest)


def by_step(sizes: np.ndarray) -> np.ndarray:
    """Return the number of sizes in each step, and their sum; sizes of 0 are in none: (2, steps)."""
    sizes = sizes[sizes > 0]
    step, count = np.searchsorted(STEPS, sizes), len(STARTS)
    return np.array([np.bincount(step, minlength=count), np.bincount(step, sizes, count)], float)


def indices(sizes: np.ndarray, fewest: int) -> np.ndarray:
    """Return the Gittins index at the start of each step: (steps,); 0 if fewer than `fewest` sizes exceed it.

    sizes: `by_step`.
    """
    # Sizes from the start of a step, a row each, to the end of this or a later one, a column each.
    number, total = (np.cumsum(np.triu(np.tile(each, (len(each), 1))), axis=1) for each in sizes)
    left = number[:, -1:]
    # P(size - a <= d) / E[min(size - a, d)], both times the number of sizes that exceed a
    spent = total - number * STARTS + (left - number) * SPANS
    chance = np.divide(number, spent, out=np.zeros_like(spent), where=spent > 0)
    index: np.ndarray = np.where(left[:, 0] >= fewest, chance.max(axis=1), 0.0)
    return index


policy = Gittins
GRID = {"fewest": (2, 5, 20), "round_s": (60.0, ROUND_S, 960.0, 3840.0)}
