"""The queue's slots as one flat vector, with the base policy's logits and the mask: what the scoring network reads."""

import numpy as np
from gymnasium.spaces import Box

from gpu_cluster_gym.envs.observation_spec import Part, numbered
from gpu_cluster_gym.envs.observations import _bounds
from gpu_cluster_gym.envs.slots import Slots
from gpu_cluster_gym.simulator.kernel.slots.features import A_RANK, OWN_CHOICE, QUEUE_FEATURES, TOTALS
from gpu_cluster_gym.simulator.view import View


class Flat:
    """[K x queue features, totals, K + 1 base policy's logits, K + 1 mask]; goes with the action `pick`."""

    shows_running = False

    def parts(self, slots: Slots, view: View) -> dict[str, Part]:
        """Return the parts, which stand one behind the other, with the names of their columns."""
        actions = (*numbered("slot", len(slots.queue)), "wait")
        return {
            "queue": Part(QUEUE_FEATURES, len(slots.queue)),
            "totals": Part(TOTALS),
            "base_logits": Part(actions),
            "mask": Part(actions),
        }

    def space(self, slots: Slots, view: View) -> Box:
        """Return the observation space."""
        seen = _bounds.features(slots.queue_features.size + slots.totals.size)
        actions = len(slots.base_logits)
        low = [seen.low, np.full(actions, A_RANK * actions), np.zeros(actions)]
        high = [seen.high, np.full(actions, OWN_CHOICE), np.ones(actions)]
        return Box(np.concatenate(low, dtype=np.float32), np.concatenate(high, dtype=np.float32))

    def __call__(self, slots: Slots, view: View, mask: np.ndarray) -> np.ndarray:
        """Return the vector as it is now."""
        seen = slots.seen.copy()
        seen[-len(mask) :] = mask
        return seen


observation = Flat()
