"""First in, first out on shared GPUs without a memory test: jobs run out of GPU memory and restart.

Baseline of Xonar's claim (IEEE CLOUD 2022, abstract: jobs run out of GPU memory, and the unlucky one restarts from
scratch). Taken from the authors' prototype (github.com/pengujoa/Xonar): the head of the queue starts as soon as a place
is free, and blocks all other jobs until then; the prototype's own FIFO has a memory test, see `packed_fifo`. Inferred:
empty GPUs come first, then those with the fewest jobs; a failed job keeps its position in the order, so on one pair of
GPUs it restarts in its place, with the same job; after three failures it gets exclusive GPUs (`simulator.search`),
since otherwise two long jobs could destroy each other's progress endlessly.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.baselines._sharing import in_order
from gpu_cluster_gym.simulator.policy import Action
from gpu_cluster_gym.simulator.vocabulary import RESTARTING

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "sharing"


@dataclass
class FifoBlind:
    """One episode of the policy. strict: whether a job that finds no place, or restarts, blocks later ones."""

    strict: bool = True

    def __call__(self, view: "View") -> Action:
        """Start the first job for which there is a place, as if memory were unlimited; or wait."""
        order = view.queue
        if self.strict:
            order = order[:1]
            restarting = np.flatnonzero(view.jobs.phase == RESTARTING)
            if len(restarting):  # they have left the queue, but not their position in the order
                order = order[order < restarting[0]]
        return in_order(view, order, knows_memory=False)


policy = FifoBlind
