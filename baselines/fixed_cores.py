"""First in, first out, with the same number of CPU cores for every GPU, whatever a job requests.

General practice, and the baseline of CODA: no job can request too many cores, and none gets all that it could use.
Synergy's measurements are relative to three cores per GPU (OSDI 2022). CPU jobs get the cores they request. If a node
has fewer cores per GPU, jobs get that share; if cores are not allocated, this policy is FIFO.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "cores"


@dataclass
class FixedCores:
    """One episode of the policy. cores: number of cores per GPU."""

    cores: float = 3.0

    def __call__(self, view: "View") -> Action:
        """Start the first job that fits with these cores, or as requested if none ever will, or wait."""
        queue = view.queue
        if start := view.start_first(queue, cores_for_each(view, self.cores)):
            return start
        return (view.start_first(queue) if view.nothing_pending else None) or Wait()


def cores_for_each(view: "View", cores: float) -> float | None:
    """Return `cores`, or the cores that every node has for each GPU if fewer; None where cores are not allocated."""
    if not view.cpu_limited:
        return None
    share = view.nodes.cores / view.nodes.num_gpus.clip(min=1)
    return min(cores, float(share[view.nodes.num_gpus > 0].min()))


policy = FixedCores
GRID = {"cores": (1.0, 2.0, 4.0, 5.0, 6.0, 8.0)}
