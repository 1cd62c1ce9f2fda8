"""The cluster, the queue slots and the running slots, a vector each."""

import numpy as np
from gymnasium.spaces import Box, Dict

from gpu_cluster_gym.envs.observations import Sizes
from gpu_cluster_gym.envs.spaces import Part, features, numbered
from gpu_cluster_gym.simulator.kernel.slots.features import QUEUE_FEATURES, RUNNING_FEATURES, TOTALS
from gpu_cluster_gym.simulator.slots import parts_of


class TablesObservation:
    """Dict of free memory of each GPU and free cores of each node (shares), queue, running jobs, and totals.

    `queue` and `running` are flattened tables: `env.unwrapped.parts(observation)["queue"]` has a row per slot.
    """

    one_place = False
    shows_hints = False
    only_queue = False

    def parts(self, sizes: Sizes) -> dict[str, Part]:
        """Return the parts by name."""
        return {
            "free_memory": Part(numbered("gpu", sizes.gpus)),
            "free_cores": Part(numbered("node", sizes.nodes)),
            "queue": Part(QUEUE_FEATURES, sizes.queue_slots),
            "running": Part(RUNNING_FEATURES, sizes.running_slots),
            "totals": Part(TOTALS),
        }

    def space(self, sizes: Sizes) -> Dict:
        """Return the observation space."""
        shares = {"free_memory": sizes.gpus, "free_cores": sizes.nodes}
        boxes = {name: Box(0.0, 1.0, (size,), np.float32) for name, size in shares.items()}
        others = {name: features(part.size) for name, part in self.parts(sizes).items() if name not in shares}
        return Dict({**boxes, **others})

    def __call__(self, rows: np.ndarray, sizes: Sizes) -> dict[str, np.ndarray]:
        """Return the vectors by name: float32 (..., size)."""
        return {name: rows[..., part].copy() for name, part in parts_of(*sizes).items()}


observation = TablesObservation()
