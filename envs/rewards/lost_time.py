"""Minus the time that jobs lose to queues, pauses, starts and slow running: minus the total JCT, but for the run times.

Undiscounted, the return differs from that of `jct` by a constant. With a discount factor it does not: `jct` does not
reward the start of a job that ends beyond the horizon, `lost_time` rewards any start at once.
"""

import numpy as np


def reward(lost_seconds: np.ndarray) -> np.ndarray:
    """Return minus the job-seconds lost in the step."""
    return 0.0 - lost_seconds
