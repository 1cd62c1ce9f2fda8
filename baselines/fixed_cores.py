"""First in, first out, with the same number of CPU cores for every GPU, whatever a job asks for.

General practice, and what CODA must beat: no job can ask for too many cores, and none gets all that it could use.
Three a GPU is the share to which Synergy's measurements are relative (OSDI 2022). CPU jobs get what they ask for.
Where a node has fewer for each GPU, it is those; where cores are not allocated it is FIFO.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_cluster_gym.baselines.lib.order import cores_for_each
from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "cores"


@dataclass
class FixedCores:
    """One episode of the policy. cores: for each GPU."""

    cores: float = 3.0

    def __call__(self, view: "View") -> Action:
        """Start the first job that fits with so many cores, or as it asks if none ever will, or wait."""
        queue = view.queue
        if start := view.start_first(queue, cores_for_each(view, self.cores)):
            return start
        return (view.start_first(queue) if view.nothing_pending else None) or Wait()


policy = FixedCores
GRID = {"cores": (1.0, 2.0, 4.0, 5.0, 6.0, 8.0)}
