"""First in, first out on shared GPUs, where the profiled memory of all jobs on a GPU must fit into it.

This is Xonar with its memory test, which prevents failures, and without its choice of partners. From the authors'
prototype (github.com/pengujoa/Xonar): the test of each GPU, and with `strict=True` that the queue waits until its head
passes the test. Our choice, the default: later jobs overtake a head that does not pass, so that Xonar's gain over
this policy comes from its choice of partners alone. Inferred: empty GPUs first, then those with the fewest jobs.
Without sharing it is FIFO.
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
    """One episode of the policy. strict: whether a job that finds no place blocks later ones."""

    strict: bool = False

    def __call__(self, view: "View") -> Action:
        """Start the first job for which there is a place with enough memory; or wait."""
        order = view.queue
        return in_order(view, order[:1] if self.strict else order)


policy = PackedFifo
