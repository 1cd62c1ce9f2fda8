"""The move that several policies share: start the first job, in some order, that fits."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simulator.policy import Start

if TYPE_CHECKING:
    from simulator.view import View


def start_first(view: "View", order: Iterable[int], cores: float | None = None) -> Start | None:
    """Return the start of the first of these queued jobs that fits where the scenario's rule puts it, or None.

    cores: to feed each GPU of a job that has some, instead of those it asks for; its servers' come on top.
    """
    free, num_gpus, servers = int(view.nodes.free_gpus.sum()), view.jobs.num_gpus, view.jobs.server_cores
    for job in order:
        gpus = int(num_gpus[job])
        if gpus > free or view.just_paused(job):
            continue
        if placement := view.place(job, None if cores is None or not gpus else cores + servers[job]):
            return Start(job, placement)
    return None


def cores_for_each(view: "View", cores: float) -> float | None:
    """Return so many cores a GPU, or what every node has for each; None, as asked, where cores are not allocated."""
    if not view.cpu_limited:
        return None
    share = view.nodes.cores / view.nodes.num_gpus.clip(min=1)
    return min(cores, float(share[view.nodes.num_gpus > 0].min()))
