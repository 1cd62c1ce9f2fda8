"""By how much the action beats the prior's own choice, measured by simulating both futures.

The performance difference lemma: with time constant tau, J(policy) - J(prior) is the expected discounted sum of the
prior's advantages along the policy's path. It is 0 whenever the action is the prior's own. Undiscounted, the
rewards of an episode add up to the prior's total JCT minus the policy's. The true future is used as any simulator
uses it; no policy sees it.
"""

from collections.abc import Callable

from envs.rewards import Moment


def reward(before: Moment, action: int, after: Moment, rollout: Callable[[], float]) -> float:
    """Return the advantage in discounted job-seconds."""
    return rollout()
