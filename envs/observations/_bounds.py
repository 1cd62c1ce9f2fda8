"""Between which numbers every feature lies."""

import numpy as np
from gymnasium.spaces import Box

# Beyond them lies only the absurd: a time of e^64 minutes, a gang that displaces 65 jobs.
LOWEST_FEATURE, HIGHEST_FEATURE = -1.0, 16.0


def features(size: int) -> Box:
    """Return the space of so many features."""
    return Box(LOWEST_FEATURE, HIGHEST_FEATURE, (size,), np.float32)


def flat(table: np.ndarray) -> np.ndarray:
    """Return a table of features as a new vector, row by row, within the bounds."""
    vector: np.ndarray = np.clip(table, LOWEST_FEATURE, HIGHEST_FEATURE).ravel()
    return vector
