"""The types of a cluster's GPUs: how many there are of each, and how fast each job is there.

The last kind of a cluster is all its GPUs together, for gangs that no type has GPUs enough for; elsewhere it is unused.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.vocabulary import OPEN

if TYPE_CHECKING:
    from simulator.view import View


class Known(NamedTuple):
    """What never changes about a job on a cluster.

    holds: whether the GPUs of each node are large enough. slowest: the speed on each kind, of the slowest of its GPUs
    that are.
    """

    holds: np.ndarray
    slowest: np.ndarray


class Kinds:
    """The types of a cluster's GPUs, and what is known of each job on them."""

    def __init__(self, view: "View") -> None:
        """Look at the cluster."""
        types = np.unique(view.nodes.gpu_type[view.nodes.num_gpus > 0])
        each = view.nodes.gpu_type == types[:, None]
        self.nodes = np.vstack([each, each.any(axis=0)])  # (kinds, nodes)
        self._known: dict[int, Known] = {}

    def __len__(self) -> int:
        """Return how many kinds there are, that of all GPUs together included."""
        return len(self.nodes)

    def sizes(self, view: "View") -> np.ndarray:
        """Return how many GPUs of each type are on nodes where jobs may start."""
        total: np.ndarray = self.nodes[:-1] @ np.where(view.nodes.closed == OPEN, view.nodes.num_gpus, 0)
        return total

    def speeds(self, view: "View", jobs: np.ndarray) -> np.ndarray:
        """Return how fast some jobs are on each kind, 0 where there are not GPUs enough that are large enough."""
        there = np.where(view.nodes.closed == OPEN, view.nodes.num_gpus, 0)
        if not len(jobs):
            return np.zeros((0, len(self)))
        known = [self._seen(view, job) for job in jobs.tolist()]
        holds, slowest = np.array([each.holds for each in known]), np.array([each.slowest for each in known])
        enough = (holds * there) @ self.nodes.T >= view.jobs.num_gpus[jobs, None]
        enough[:, -1] &= ~enough[:, :-1].any(axis=1)
        return np.where(enough, slowest, 0.0)

    def _seen(self, view: "View", job: int) -> Known:
        """Return what never changes about a job here."""
        if job not in self._known:
            holds, speed = view.can_hold(job), view.type_speed(job)
            slowest = [speed[nodes & holds].min(initial=np.inf) for nodes in self.nodes]
            self._known[job] = Known(holds, np.array(slowest))
        return self._known[job]
