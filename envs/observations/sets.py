"""The default observation: queued and running jobs as two sets in one flat vector, with the legal actions; no hints."""

import numpy as np
from gymnasium.spaces import Box

from gpu_cluster_gym.envs.observations import Sizes
from gpu_cluster_gym.envs.spaces import Part, features, numbered
from gpu_cluster_gym.simulator.kernel.slots.features import QUEUE_FEATURES, RUNNING_FEATURES, TOTALS
from gpu_cluster_gym.simulator.slots import parts_of, width


class SetsObservation:
    """[K x queue features, totals, K starts and waiting (1 where legal), R x running features]; one placement rule.

    Whether a running job may be paused is its feature `may_pause`.
    """

    one_place = True
    shows_hints = False
    only_queue = False

    def parts(self, sizes: Sizes) -> dict[str, Part]:
        """Return the parts in the order of the vector."""
        return {
            "queue": Part(QUEUE_FEATURES, sizes.queue_slots),
            "totals": Part(TOTALS),
            "legal": Part((*numbered("slot", sizes.queue_slots), "wait")),
            "running": Part(RUNNING_FEATURES, sizes.running_slots),
        }

    def space(self, sizes: Sizes) -> Box:
        """Return the observation space."""
        boxes = [
            Box(0.0, 1.0, (part.size,), np.float32) if name == "legal" else features(part.size)
            for name, part in self.parts(sizes).items()
        ]
        return Box(np.concatenate([box.low for box in boxes]), np.concatenate([box.high for box in boxes]))

    def __call__(self, rows: np.ndarray, sizes: Sizes) -> np.ndarray:
        """Return the vector: float32 (..., n)."""
        parts, end = parts_of(*sizes), width(sizes.queue_slots)
        legal = slice(end - sizes.queue_slots - 1, end)
        seen = [rows[..., part] for part in (parts["queue"], parts["totals"], legal, parts["running"])]
        return np.concatenate(seen, axis=-1)


observation = SetsObservation()
