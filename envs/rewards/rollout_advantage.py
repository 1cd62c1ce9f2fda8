"""By how much the action beats the base policy's own choice, measured by simulating both futures.

The performance difference lemma: with time constant tau, J(policy) - J(base policy) is the expected discounted sum of
the base policy's advantages along the policy's path. It is 0 whenever the action is the base policy's own.
Undiscounted, the rewards of an episode add up to the base policy's total JCT minus the policy's. The true future is
used as any simulator uses it; no policy sees it.
"""

from collections.abc import Callable

from gpu_cluster_gym.envs.rewards import Moment, Number


def reward(before: Moment, action: Number, after: Moment, rollout: Callable[[], Number]) -> Number:
    """Return the advantage in discounted job-seconds."""
    return rollout()
