"""The cluster, the queue and the running jobs as tables."""

import numpy as np
from gymnasium.spaces import Box, Dict

from envs.cluster import Cluster
from envs.episode import Episode
from envs.slots import Slots


class Tables:
    """Free memory of each GPU (share), free cores of each node (share), slots of both kinds, totals."""

    def space(self, slots: Slots, cluster: Cluster) -> Dict:
        """Return the observation space."""

        def box(*shape: int) -> Box:
            return Box(-np.inf, np.inf, shape, np.float32)

        return Dict(
            {
                "free_memory": Box(0.0, 1.0, (cluster.num_gpus,), np.float32),
                "free_cores": Box(0.0, 1.0, (cluster.num_nodes,), np.float32),
                "queue": box(*slots.queue_features.shape),
                "running": box(*slots.running_features.shape),
                "totals": box(*slots.totals.shape),
            }
        )

    def __call__(self, slots: Slots, episode: Episode, mask: np.ndarray) -> dict[str, np.ndarray]:
        """Return the tables as they are now."""
        view = episode.view
        memory = view.free_memory_gib / view.node_memory_gib[view.gpu_node]
        return {
            "free_memory": memory.astype(np.float32),
            "free_cores": np.clip(view.free_cores / view.node_cores, 0.0, 1.0).astype(np.float32),
            "queue": slots.queue_features.copy(),
            "running": slots.running_features.copy(),
            "totals": slots.totals.copy(),
        }


observation = Tables()
