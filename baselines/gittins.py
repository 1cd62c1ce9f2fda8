"""The job likeliest to end soon for the service that takes: a Gittins index over sizes seen so far.

Claim: where the distribution of sizes is known, but not each job's, order by the Gittins index of attained service a:
the most, over d, of P(size - a <= d) / E[min(size - a, d)] among sizes beyond a (Gittins, JRSS B 1979; Tiresias-G, NSDI
2019). Sizes and service are GPUs x time, in few steps, lest equal jobs take turns; from memory, not checked against the
paper: d ends with a step. Our choice: steps at LAS' limits and then doubling, d to the end of one or beyond all; inside
a step FIFO. Sizes are those of the jobs that have ended, once `enough` have, which are the shorter ones at first;
before, the profiles of those that came. Steps that fewer than `fewest` pass come last. Rounds, victims: `tiresias`.
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

STEPS = np.array([*LIMITS, *(LIMITS[-1] * 2.0 ** np.arange(1, 13))])  # GPU-seconds at which an index changes


@dataclass
class Gittins(PriorityRounds):
    """One episode of the policy.

    enough: ended jobs whose sizes count; fewest: sizes beyond a step, else it comes last; round_s: between rounds.
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
    """Return the index of a job at the beginning of each step, 0 where fewer sizes than `fewest` go beyond it."""
    edges, index = np.array([0.0, *STEPS, np.inf]), np.zeros(len(STEPS) + 1)
    for step, begin in enumerate(edges[:-1]):
        left, spans = sizes[sizes > begin] - begin, edges[step + 1 :, None] - begin
        if len(left) >= max(fewest, 1):
            index[step] = np.max((left <= spans).mean(axis=1) / np.minimum(left, spans).mean(axis=1))
    return index


policy = Gittins
GRID = {"fewest": (2, 5, 20), "round_s": (60.0, ROUND_S, 960.0, 3840.0)}
