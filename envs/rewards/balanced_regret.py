"""Minus the step's increase of the least possible total JCT and, at a third of its weight, total slowdown x 1 h.

Mean JCT is ruled by long jobs, so that agents that learn from `regret` let short jobs wait for minutes, which costs
little JCT and multiplies their slowdown. Here a job of one hour counts 1.3 times, and one of a minute 19 times.
"""

import numpy as np

WEIGHT = 0.3


def reward(regret: np.ndarray, slowdown_regret: np.ndarray) -> np.ndarray:
    """Return minus the weighted job-seconds that the step adds to the least costs."""
    return 0.0 - (regret + WEIGHT * slowdown_regret)
