"""The queue's slots as one flat vector, with the prior's logits and the mask: what the scoring network reads."""

import numpy as np
from gymnasium.spaces import Box

from envs.cluster import Cluster
from envs.episode import Episode
from envs.slots import Slots


class Flat:
    """[K x queue features, totals, K + 1 prior logits, K + 1 mask]."""

    def space(self, slots: Slots, cluster: Cluster) -> Box:
        """Return the observation space."""
        size = slots.queue_features.size + slots.totals.size + slots.prior.size + slots.queue_mask.size
        return Box(-np.inf, np.inf, (size,), np.float32)

    def __call__(self, slots: Slots, episode: Episode, mask: np.ndarray) -> np.ndarray:
        """Return the vector as it is now."""
        if len(mask) != len(slots.prior):
            raise ValueError("the observation 'slots' goes with the action 'pick'")
        parts = [slots.queue_features.ravel(), slots.totals, slots.prior, mask]
        return np.concatenate(parts, dtype=np.float32)


observation = Flat()
