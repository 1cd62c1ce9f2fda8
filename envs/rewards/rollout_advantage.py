"""Advantage of the action over the reference policy's own choice, measured by simulating both futures.

Performance difference lemma: with time constant tau, J(policy) - J(reference) is the expected discounted sum of the
reference policy's advantages along the policy's path. The advantage is 0 whenever the action is the reference policy's
own choice. Undiscounted, with the true futures of action `plain`, the rewards of an episode add up to the reference
policy's total JCT minus the agent's. Futures are used for rewards only; no policy observes them.
"""

import numpy as np


def reward(advantage: np.ndarray) -> np.ndarray:
    """Return the advantage in discounted job-seconds."""
    return advantage
