"""First in, first out on shared GPUs without regard to memory: jobs run out of it and start again.

Baseline of Xonar's claim (IEEE CLOUD 2022, abstract: jobs run out of GPU memory, the unlucky one restarts from
scratch). Read in the authors' prototype (github.com/pengujoa/Xonar): a place takes the head of the queue as soon as it
is free, and the head blocks all others; its own FIFO has a memory test, see `packed_fifo`. Inferred: empty GPUs first,
then those with fewest jobs; a job that failed keeps its turn, so on one pair of GPUs it restarts in its place, beside
the same job; after three failures it gets GPUs of its own (`simulator.search`), or two jobs of hours could destroy
each other's work for ever.
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
    """One episode of the policy. strict: whether a head that finds no place, or restarts, blocks those behind it."""

    strict: bool = True

    def __call__(self, view: "View") -> Action:
        """Start the head where there is a place, as if memory were unlimited."""
        order = view.queue
        if self.strict:
            restarting = np.flatnonzero(view.jobs.phase == RESTARTING)
            order = order[:1] if not len(restarting) else order[:1][order[:1] < restarting[0]]
        return in_order(view, order, knows_memory=False)


policy = FifoBlind
