"""First in, first out on shared GPUs, where the profiled memory of all jobs on a GPU must fit it.

Half of Xonar: the test that ends failures, without the choice of partners. Read in the authors' prototype
(github.com/pengujoa/Xonar): the test, GPU by GPU, and that its stored FIFO waits until the head passes it
(`strict=True`). That later jobs pass a head that does not is our choice, and the default, so that what Xonar gains over
it comes from its choice of partners. Inferred: empty GPUs first, then those with fewest jobs. Without sharing it is
FIFO.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_cluster_gym.baselines.lib.sharing import in_order
from gpu_cluster_gym.simulator.policy import Action

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "sharing"


@dataclass
class PackedFifo:
    """One episode of the policy. strict: whether a head that finds no place blocks those behind it."""

    strict: bool = False

    def __call__(self, view: "View") -> Action:
        """Start the first that finds a place with memory enough."""
        order = view.queue
        return in_order(view, order[:1] if self.strict else order)


policy = PackedFifo
