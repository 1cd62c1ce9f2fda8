"""Minus the integral of the jobs present, of which each counts 1 + 10 minutes / its run time (at least 10 s).

The return is minus the total JCT and the total slowdown, so that short jobs do not wait while long ones run.
"""

import numpy as np


def reward(job_seconds: np.ndarray, slowdown_seconds: np.ndarray) -> np.ndarray:
    """Return minus the weighted job-seconds of the step."""
    return 0.0 - job_seconds - slowdown_seconds
