"""The cluster, the queue and the running jobs, a vector each."""

import numpy as np
from gymnasium.spaces import Box, Dict

from envs.observations import _bounds
from envs.slots import Slots
from simulator.view import View


class Tables:
    """Free memory of each GPU (share), free cores of each node (share), slots of both kinds, totals.

    `queue` and `running` are tables row by row: `obs["queue"].reshape(K, -1)` has a row a slot.
    """

    shows_running = True

    def space(self, slots: Slots, view: View) -> Dict:
        """Return the observation space."""
        return Dict(
            {
                "free_memory": Box(0.0, 1.0, view.gpus.node.shape, np.float32),
                "free_cores": Box(0.0, 1.0, view.nodes.cores.shape, np.float32),
                "queue": _bounds.features(slots.queue_features.size),
                "running": _bounds.features(slots.running_features.size),
                "totals": _bounds.features(slots.totals.size),
            }
        )

    def __call__(self, slots: Slots, view: View, mask: np.ndarray) -> dict[str, np.ndarray]:
        """Return the tables as they are now."""
        memory = view.gpus.free_memory_gib / view.nodes.gpu_memory_gib[view.gpus.node]
        cores = view.nodes.free_cores / np.maximum(view.nodes.cores, 1.0)
        return {
            "free_memory": memory.astype(np.float32),
            "free_cores": np.clip(cores, 0.0, 1.0).astype(np.float32),
            "queue": _bounds.flat(slots.queue_features),
            "running": _bounds.flat(slots.running_features),
            "totals": _bounds.flat(slots.totals),
        }


observation = Tables()
