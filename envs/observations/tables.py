"""The cluster, the queue and the running jobs, a vector each."""

import numpy as np
from gymnasium.spaces import Box, Dict

from envs.observations import _bounds
from envs.slots import Slots
from simulator.kernel.features import NUM_RUNNING
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
                "running": _bounds.features(len(slots.running) * NUM_RUNNING),
                "totals": _bounds.features(slots.totals.size),
            }
        )

    def __call__(self, slots: Slots, view: View, mask: np.ndarray) -> dict[str, np.ndarray]:
        """Return the tables as they are now."""
        shown = slots.shown.copy()
        return {name: shown[part] for name, part in slots.parts.items()}


observation = Tables()
