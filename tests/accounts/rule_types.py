"""How slow jobs are on each type of GPU, and when fast GPUs come free."""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.source import source_of

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

MOST_SPREAD = 16  # GPUs that a job asks for, if it is to be spread by choice


class Types:
    """The types of GPUs of a cluster, and how slow each job is on each node over the fastest that can hold it."""

    def __init__(self) -> None:
        """Know no job yet."""
        self.fastest, self.slow = np.ones(0), np.ones((0, 0))
        self.typed = False

    def see(self, view: "View") -> None:
        """Look at the jobs that have come since."""
        kinds = view.nodes.gpu_type
        self.typed = bool(source_of(view).state.typed) and len(np.unique(kinds)) > 1
        self.slow = self.slow.reshape(-1, len(kinds))
        for job in range(len(self.slow), len(view.jobs.phase)):
            speed = view.type_speed(job) if self.typed else np.ones(len(kinds))
            fastest = max(speed[view.can_hold(job)], default=1.0)
            self.fastest = np.append(self.fastest, fastest)
            self.slow = np.vstack([self.slow, fastest / speed])

    def may_spread(self, view: "View", job: int) -> bool:
        """Tell whether a job may be on several nodes: with servers, or where types differ if none is large enough."""
        asked = int(view.jobs.num_gpus[job])
        largest = int(max(view.nodes.num_gpus[view.can_hold(job)], default=0))
        return asked <= MOST_SPREAD and bool(view.jobs.servers[job] > 0 or (self.typed and asked > largest))

    def groups(self, view: "View", empty: np.ndarray) -> list[np.ndarray]:
        """Return the GPUs of each type, if there are several, and all; by node, those with most empty GPUs first."""
        node = np.asarray(view.gpus.node)
        empties = np.bincount(node[empty], minlength=len(view.nodes.num_gpus))
        every = np.argsort(-empties[node], kind="stable")
        kinds = np.asarray(view.nodes.gpu_type)
        of_type = [every[kinds[node[every]] == kind] for kind in dict.fromkeys(kinds.tolist())]
        return [*(of_type if self.typed else []), every]
