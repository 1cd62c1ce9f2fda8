"""Dominant resource fairness: start a job of the owner with the smallest dominant share (Ghodsi et al., NSDI 2011).

Claim: the dominant share of a user is the largest share of any resource; raising the smallest dominant share first is
fair and gives no user a reason to misstate demands. Resources are GPUs, CPU cores if these are allocated, and GPU
memory. Owners are tenants, each weighted by its quota, or else users. An owner's jobs are in the order of submission,
and one whose job does not fit is skipped. Inferred: jobs are not preempted, so shares even out only as jobs finish; GPU
memory is a resource; tenants without a quota come last. With neither tenants nor users it is FIFO.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator import search
from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "users"


def policy(view: "View") -> Action:
    """Start the first job that fits, by its owner's dominant share and then by submission, or wait."""
    queue = view.queue
    shares = dominant_shares(view)[search.owners(view).of[queue]]
    return view.start_first(queue[np.argsort(shares, kind="stable")]) or Wait()


def dominant_shares(view: "View") -> np.ndarray:
    """Return the dominant share of each owner, the largest share of any resource, over its quota: (owners,)."""
    owner = search.owners(view)
    jobs = np.concatenate([view.running, view.loading, view.pausing])
    gpus = view.jobs.num_gpus[jobs]
    memory = (view.nodes.num_gpus * view.nodes.gpu_memory_gib).sum()
    shares = [gpus / view.nodes.num_gpus.sum(), gpus * view.jobs.profiled_memory_gib[jobs] / memory]
    if view.cpu_limited:
        # `cores_now` is per GPU, or in total for a job without GPUs
        shares.append(view.jobs.cores_now[jobs] * np.maximum(gpus, 1) / view.nodes.cores.sum())
    by_owner = np.max([np.bincount(owner.of[jobs], share, len(owner.share)) for share in shares], axis=0)
    weighted = np.full(len(owner.share), np.inf)
    np.divide(by_owner, owner.share, out=weighted, where=owner.share > 0)
    return weighted
