"""Dominant resource fairness: next is a job of the user with the smallest dominant share (Ghodsi et al., NSDI 2011).

Progressive filling over users, by their shares of GPUs, of CPU cores where these are allocated, and of GPU memory. A
user's jobs come in the order of submission; a user whose job does not fit is passed over. No job is paused, so
shares even out only as jobs end: that and the third resource are our choice. Where a trace tells no users it is FIFO.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "users"


def policy(view: "View") -> Action:
    """Start the first job that fits of the user with the smallest dominant share that has one, or wait."""
    queue = view.queue
    shares = dominant_shares(view)[view.jobs.user[queue]]
    return view.start_first(queue[np.argsort(shares, kind="stable")]) or Wait()


def dominant_shares(view: "View") -> np.ndarray:
    """Return each user's largest share of any resource."""
    jobs = np.concatenate([view.running, view.loading, view.pausing])
    gpus = view.jobs.num_gpus[jobs]
    memory = (view.nodes.num_gpus * view.nodes.gpu_memory_gib).sum()
    held = [gpus / view.nodes.num_gpus.sum(), gpus * view.jobs.profiled_memory_gib[jobs] / memory]
    if view.cpu_limited:
        held.append(view.jobs.cores_now[jobs] * np.maximum(gpus, 1) / view.nodes.cores.sum())
    users = int(view.jobs.user.max(initial=0)) + 1
    by_user = [np.bincount(view.jobs.user[jobs], share, users) for share in held]
    return np.asarray(np.max(by_user, axis=0))
