"""Search in plain Python for the GPUs that a job may share, and the starts that follow.

A gang shares GPUs that have all the same members, so that it is slowed down by one group of jobs and not by the
worst of many. A job that ran out of memory `ALONE_AFTER` times gets its GPUs alone, whatever the policy.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.policy import Placement, Start
from gpu_cluster_gym.simulator.vocabulary import NOBODY

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

ALONE_AFTER = 3  # our choice; without an end to it two jobs could destroy each other's work for ever


class Groups(NamedTuple):
    """GPUs with the same members and a free share slot, by group.

    members: (groups, `max_share`) jobs, -1 for none. gpus: those of each group.
    """

    members: np.ndarray
    gpus: list[np.ndarray]

    @property
    def sizes(self) -> np.ndarray:
        """Number of members of each group."""
        size: np.ndarray = (self.members >= 0).sum(axis=1)
        return size


def alone(view: "View", order: np.ndarray) -> Start | None:
    """Start the first job that fits on GPUs that no job holds, or a CPU job on a node, by the scenario's rule."""
    fitting = order[np.isin(order, view.startable)]
    placement = view.place(int(fitting[0])) if len(fitting) else None
    return Start(int(fitting[0]), placement) if placement else None


def open_groups(view: "View") -> Groups:
    """Return the GPUs that take one more job, those of the earliest members first."""
    here = np.sort(view.gpus.jobs, axis=1)[:, ::-1]
    failing = (here >= 0) & (view.jobs.oom_restarts[here] >= ALONE_AFTER)
    room = (
        (view.gpus.num_jobs > 0) & (view.gpus.num_jobs < view.max_share) & (view.gpus.reserved_for == NOBODY)
    )
    gpus = np.flatnonzero(room & ~failing.any(axis=1))
    members, group = np.unique(here[gpus], axis=0, return_inverse=True)
    group = group.reshape(-1)
    return Groups(members, [gpus[group == k] for k in range(len(members))])


def can_join(view: "View", groups: Groups, jobs: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return the mask (groups, jobs) of groups with as many GPUs as a job needs, each with memory for it.

    left: GiB of each GPU, as far as the policy knows.
    """
    widest = max((len(gpus) for gpus in groups.gpus), default=0)
    most = np.full((len(groups.gpus), widest + 1), -np.inf)  # column g: the g-th largest memory left
    for row, gpus in zip(most, groups.gpus, strict=True):
        row[1 : len(gpus) + 1] = np.sort(left[gpus])[::-1]
    wanted = view.jobs.num_gpus[jobs]
    fits: np.ndarray = most[:, np.where(wanted <= widest, wanted, 0)] >= view.jobs.profiled_memory_gib[jobs]
    fits &= view.jobs.oom_restarts[jobs] < ALONE_AFTER
    return fits


def join(view: "View", gpus: np.ndarray, job: int, left: np.ndarray) -> Start | None:
    """Start a job on some GPUs of a group, on as few nodes as possible, with the cores it asks for."""
    node = view.gpus.node[gpus]
    able = view.can_hold(job)[node] & (left[gpus] >= view.jobs.profiled_memory_gib[job])
    parts = [gpus[able & (node == here)] for here in np.unique(node[able])]
    if view.cpu_limited:
        count = (view.nodes.unreserved_cores + 1e-9) // max(view.jobs.cores_each[job], 1.0)
        parts = [part[: int(count[view.gpus.node[part[0]]])] for part in parts]
    parts.sort(key=len, reverse=True)
    chosen = [gpu for part in parts for gpu in part.tolist()][: view.jobs.num_gpus[job]]
    return Start(job, Placement(tuple(chosen))) if len(chosen) == view.jobs.num_gpus[job] else None


def cheapest(
    view: "View", groups: Groups, jobs: np.ndarray, cost: np.ndarray, left: np.ndarray
) -> Start | None:
    """Start the job beside the group for which `cost` (groups, jobs) is least; infinite cost forbids.

    Among equals the first job, then the first group.
    """
    cost = np.where(can_join(view, groups, jobs, left), cost, np.inf)
    for pair in np.argsort(cost.T, axis=None, kind="stable").tolist():
        job, group = divmod(pair, len(groups.gpus))
        if np.isinf(cost[group, job]):
            return None
        if start := join(view, groups.gpus[group], int(jobs[job]), left):
            return start
    return None
