"""How many CPU cores each GPU gets where all get as many."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


def cores_for_each(view: "View", cores: float) -> float | None:
    """Return so many cores a GPU, or what every node has for each; None, as asked, where cores are not allocated."""
    if not view.cpu_limited:
        return None
    share = view.nodes.cores / view.nodes.num_gpus.clip(min=1)
    return min(cores, float(share[view.nodes.num_gpus > 0].min()))
