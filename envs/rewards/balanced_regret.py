"""Minus the step's increase of the least possible total JCT plus 100 s times the least possible total slowdown.

Long jobs rule the mean JCT, so that agents which learn from `regret` let short jobs wait for minutes: that costs little
JCT, but multiplies their slowdown. Here a second of waiting counts 1 + 100 s / run time: 11 for a job of 10 s, 2 for
one of 100 s, 1.03 for one of an hour.
"""

import numpy as np


def reward(regret: np.ndarray, slowdown_regret: np.ndarray) -> np.ndarray:
    """Return minus the job-seconds that the step adds to the least costs."""
    rewards: np.ndarray = 0.0 - (regret + slowdown_regret)
    return rewards
