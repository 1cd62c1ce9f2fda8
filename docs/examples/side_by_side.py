"""First in, first out; a job without free GPUs is co-located with others if memory and duty allow it."""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Placement, Start, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


def policy(view: "View") -> Action:
    """Start the first queued job that fits, alone or co-located with others."""
    for job in view.queue.tolist():
        if not view.just_paused(job) and (placement := view.place(job) or beside_others(view, job)):
            return Start(job, placement)
    return Wait()


def beside_others(view: "View", job: int) -> Placement | None:
    """Return GPUs of one node with enough unclaimed memory and idle time for the job, or None."""
    here = view.gpus.jobs  # (GPUs, share slots), -1 where a slot is empty
    busy = np.where(here >= 0, view.jobs.duty[here], 0.0).sum(axis=1)
    fits = (view.gpus.unclaimed_memory_gib >= view.jobs.profiled_memory_gib[job]) & (
        busy + view.jobs.duty[job] <= 1.0
    )
    for node in range(len(view.nodes.num_gpus)):
        gpus = np.flatnonzero(fits & (view.gpus.node == node))
        idlest = gpus[np.argsort(busy[gpus], kind="stable")][: view.jobs.num_gpus[job]]
        placement = Placement(tuple(idlest.tolist()))
        if view.why_not(Start(job, placement)) is None:
            return placement
    return None
