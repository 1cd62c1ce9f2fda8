"""The types of a cluster's GPUs: how many there are of each, and how fast each job is there.

The last kind of a cluster is all its GPUs together, for gangs that no type has GPUs enough for; elsewhere it is unused.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.vocabulary import OPEN

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


class Kinds:
    """The types of a cluster's GPUs, and what is known of each job on them."""

    def __init__(self, view: "View") -> None:
        """Look at the cluster."""
        types = np.unique(view.nodes.gpu_type[view.nodes.num_gpus > 0])
        each = view.nodes.gpu_type == types[:, None]
        self.nodes = np.vstack([each, each.any(axis=0)])  # (kinds, nodes)
        self._holding: dict[
            bytes, int
        ] = {}  # nodes whose GPUs are large enough for some job, and their number here
        self._holds = np.empty((0, len(view.nodes.num_gpus)), np.int64)  # the same nodes, in rows
        self._row = np.empty(0, np.int64)  # which of these are for a job, -1 where it has not been seen
        self._slowest = np.empty(
            (0, len(self.nodes))
        )  # speed of a job on each kind, of the slowest of its GPUs there

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
        self._see(view, jobs)
        room = (self._holds * there) @ self.nodes.T
        enough = room[self._row[jobs]] >= view.jobs.num_gpus[jobs, None]
        enough[:, -1] &= ~enough[:, :-1].any(axis=1)
        return np.where(enough, self._slowest[jobs], 0.0)

    def _see(self, view: "View", jobs: np.ndarray) -> None:
        """Note what never changes about jobs here."""
        if (more := int(jobs.max(initial=-1)) + 1 - len(self._row)) > 0:
            more += len(self._row)  # or each job that comes would cost as much as all before it
            self._row = np.pad(self._row, (0, more), constant_values=-1)
            self._slowest = np.pad(self._slowest, ((0, more), (0, 0)))
        for job in jobs[self._row[jobs] < 0].tolist():
            holds, speed = view.can_hold(job), view.type_speed(job)
            row = self._holding.setdefault(holds.tobytes(), len(self._holding))
            if row == len(self._holds):
                self._holds = np.vstack([self._holds, holds])
            self._row[job] = row
            self._slowest[job] = [speed[nodes & holds].min(initial=np.inf) for nodes in self.nodes]
