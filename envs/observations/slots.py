"""Queue slots as one flat vector, with the base policy's logits and the mask."""

import numpy as np
from gymnasium.spaces import Box

from gpu_cluster_gym.envs.observations import Sizes
from gpu_cluster_gym.envs.spaces import Part, features, numbered
from gpu_cluster_gym.simulator.kernel.slots.features import A_RANK, OWN_CHOICE, QUEUE_FEATURES, TOTALS
from gpu_cluster_gym.simulator.slots import width


class SlotsObservation:
    """[K x queue features, totals, K + 1 base logits, K + 1 mask]; requires placed_by="rule" and victims_by="rule"."""

    one_place = True
    shows_hints = True
    only_queue = True

    def parts(self, sizes: Sizes) -> dict[str, Part]:
        """Return the parts in the order of the vector."""
        actions = (*numbered("slot", sizes.queue_slots), "wait")
        return {
            "queue": Part(QUEUE_FEATURES, sizes.queue_slots),
            "totals": Part(TOTALS),
            "base_logits": Part(actions),
            "mask": Part(actions),
        }

    def space(self, sizes: Sizes) -> Box:
        """Return the observation space."""
        actions = sizes.queue_slots + 1
        seen = features(width(sizes.queue_slots) - 2 * actions)
        low = [seen.low, np.full(actions, A_RANK * actions), np.zeros(actions)]
        high = [seen.high, np.full(actions, OWN_CHOICE), np.ones(actions)]
        return Box(np.concatenate(low, dtype=np.float32), np.concatenate(high, dtype=np.float32))

    def __call__(self, rows: np.ndarray, sizes: Sizes) -> np.ndarray:
        """Return the vector: float32 (..., width)."""
        return rows[..., : width(sizes.queue_slots)].copy()


observation = SlotsObservation()
