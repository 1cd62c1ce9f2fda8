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
from gpu_cluster_gym.simulator.search import queued_or_running
from gpu_cluster_gym.simulator.vocabulary import DONE

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

STEPS = np.array([*LIMITS, *(LIMITS[-1] * 2.0 ** np.arange(1, 13))])  # GPU-seconds at which the index changes


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

    def _requests(self, view: "View") -> Requests:
        gpus, service = view.jobs.num_gpus, view.jobs.ran_s * view.jobs.num_gpus
        ended = (view.jobs.phase == DONE) & (gpus > 0)
        sizes = service[ended] if ended.sum() >= self.enough else (view.jobs.estimate_s * gpus)[gpus > 0]
        step = np.searchsorted(STEPS, service[here := queued_or_running(view)], side="right")
        return requests_by(view, here, -indices(sizes, self.fewest)[step], step)


def indices(sizes: np.ndarray, fewest: int) -> np.ndarray:
    """Return the Gittins index at the start of each step: (steps,); 0 if fewer than `fewest` sizes exceed it.

    sizes: GPU-seconds, (jobs,).
    """
    edges, index = np.array([0.0, *STEPS, np.inf]), np.zeros(len(STEPS) + 1)
    for step, begin in enumerate(edges[:-1]):
        # remaining sizes, and each candidate d: the ends of this and all later steps, the last of them infinite
        left, spans = sizes[sizes > begin] - begin, edges[step + 1 :, None] - begin
        if len(left) >= max(fewest, 1):
            # P(size - a <= d) / E[min(size - a, d)] for each d, a row per d
            index[step] = np.max((left <= spans).mean(axis=1) / np.minimum(left, spans).mean(axis=1))
    return index


policy = Gittins
GRID = {"fewest": (2, 5, 20), "round_s": (60.0, ROUND_S, 960.0, 3840.0)}
