"""Dominant resource fairness: start a job of the user with the smallest dominant share (Ghodsi et al., NSDI 2011).

Claim: the dominant share of a user is the largest share of any resource; raising the smallest dominant share first is
fair and gives no user a reason to misstate demands. Resources are GPUs, CPU cores if these are allocated, and GPU
memory. A user's jobs are in the order of submission, and a user whose job does not fit is skipped. Inferred: jobs are
not preempted, so shares even out only as jobs finish; GPU memory is a resource. Without users in the trace it is FIFO.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "users"


def policy(view: "View") -> Action:
    """Start the first job that fits, by its user's dominant share and then by submission, or wait."""
    queue = view.queue
    shares = dominant_shares(view)[view.jobs.user[queue]]
    return view.start_first(queue[np.argsort(shares, kind="stable")]) or Wait()


def dominant_shares(view: "View") -> np.ndarray:
    """Return the dominant share of each user, the largest share of any resource, shape (users,)."""
    jobs = np.concatenate([view.running, view.loading, view.pausing])
    gpus = view.jobs.num_gpus[jobs]
    memory = (view.nodes.num_gpus * view.nodes.gpu_memory_gib).sum()
    shares = [gpus / view.nodes.num_gpus.sum(), gpus * view.jobs.profiled_memory_gib[jobs] / memory]
    if view.cpu_limited:
        # `cores_now` is per GPU, or in total for a job without GPUs
        shares.append(view.jobs.cores_now[jobs] * np.maximum(gpus, 1) / view.nodes.cores.sum())
    users = int(view.jobs.user.max(initial=0)) + 1
    by_user = [np.bincount(view.jobs.user[jobs], share, users) for share in shares]
    return np.asarray(np.max(by_user, axis=0))
