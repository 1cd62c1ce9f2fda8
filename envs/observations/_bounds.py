"""Between which numbers every feature lies."""

import numpy as np
from gymnasium.spaces import Box

from gpu_cluster_gym.simulator.kernel.slots.features import HIGHEST, LOWEST


def features(size: int) -> Box:
    """Return the space of so many features."""
    return Box(LOWEST, HIGHEST, (size,), np.float32)


def flat(table: np.ndarray) -> np.ndarray:
    """Return a table of features as a new vector, row by row, within the bounds."""
    vector: np.ndarray = np.clip(table, LOWEST, HIGHEST).ravel()
    return vector
