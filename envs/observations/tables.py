"""The cluster, the queue and the running jobs, a vector each."""

import numpy as np
from gymnasium.spaces import Box, Dict

from gpu_cluster_gym.envs.observation_spec import Part, numbered
from gpu_cluster_gym.envs.observations import _bounds
from gpu_cluster_gym.envs.slots import Slots
from gpu_cluster_gym.simulator.kernel.slots.features import QUEUE_FEATURES, RUNNING_FEATURES, TOTALS
from gpu_cluster_gym.simulator.view import View


class Tables:
    """Free memory of each GPU (share), free cores of each node (share), slots of both kinds, totals.

    `queue` and `running` are tables row by row: `env.unwrapped.parts(observation)["queue"]` has a row a slot.
    """

    shows_running = True

    def parts(self, slots: Slots, view: View) -> dict[str, Part]:
        """Return the parts with the names of their columns."""
        return {
            "free_memory": Part(numbered("gpu", len(view.gpus.node))),
            "free_cores": Part(numbered("node", len(view.nodes.cores))),
            "queue": Part(QUEUE_FEATURES, len(slots.queue)),
            "running": Part(RUNNING_FEATURES, len(slots.running)),
            "totals": Part(TOTALS),
        }

    def space(self, slots: Slots, view: View) -> Dict:
        """Return the observation space."""
        sizes = {name: part.size for name, part in self.parts(slots, view).items()}
        shares = {
            name: Box(0.0, 1.0, (sizes.pop(name),), np.float32) for name in ("free_memory", "free_cores")
        }
        return Dict({**shares, **{name: _bounds.features(size) for name, size in sizes.items()}})

    def __call__(self, slots: Slots, view: View, mask: np.ndarray) -> dict[str, np.ndarray]:
        """Return the tables as they are now."""
        shown = slots.shown.copy()
        return {name: shown[part] for name, part in slots.parts.items()}


observation = Tables()
