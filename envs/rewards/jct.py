"""Minus the integral of the number of jobs present: by Little's law the return is minus the total JCT."""

from collections.abc import Callable

from gpu_cluster_gym.envs.rewards import Moment, Number


def reward(before: Moment, action: Number, after: Moment, rollout: Callable[[], Number]) -> Number:
    """Return minus the job-seconds that passed."""
    return before.job_seconds - after.job_seconds
