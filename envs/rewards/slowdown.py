"""Minus the increase of the mean slowdown in the step: the return is minus the mean slowdown of the jobs.

Short jobs count as much as long ones. Run times are those alone, at full speed, and at least 10 s. In a steady window
the mean is over all jobs, and the first reward includes the slowdown before the first decision.
"""

import numpy as np


def reward(slowdown: np.ndarray) -> np.ndarray:
    """Return minus the slowdown of the step."""
    return 0.0 - slowdown
