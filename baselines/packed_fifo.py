"""First in, first out on shared GPUs, where the profiled memory of all jobs on a GPU must fit it.

Half of Xonar: the memory test that ends failures, without the choice of partners. Read in the authors' prototype
(github.com/pengujoa/Xonar): the test, GPU by GPU, and that its stored FIFO waits until the head passes it
(`strict=True`). By default, our choice, later jobs overtake a head that does not pass, so that Xonar's gain over it
comes from its choice of partners. Inferred: empty GPUs first, then those with fewest jobs. Without sharing it is
FIFO.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_cluster_gym.baselines._sharing import in_order
from gpu_cluster_gym.simulator.policy import Action

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "sharing"


@dataclass
class PackedFifo:
    """One episode of the policy. strict: whether a head that finds no place blocks those behind it."""

    strict: bool = False

    def __call__(self, view: "View") -> Action:
        """Start the first job that finds a place with enough memory."""
        order = view.queue
        return in_order(view, order[:1] if self.strict else order)


policy = PackedFifo
