"""Criteria of policies that share GPUs: profiles, an order, and trials of two jobs together."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait
from gpu_cluster_gym.simulator.search import Joins

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LARGEST_LOG = 7.0
"""Bound on the absolute log ratio of active to idle time, our choice: Xonar's authors report at most 852, e^6.7."""


class Profile(NamedTuple):
    """Profiles of jobs, arrays of one shape.

    active, idle: milliseconds of an iteration with the GPUs busy and idle.
    duty: share of the time with the GPUs busy.
    log_ratio: ln(active / idle), clipped to +-`LARGEST_LOG`; 0 for jobs without a profile.
    """

    active: np.ndarray
    idle: np.ndarray
    duty: np.ndarray
    log_ratio: np.ndarray


def profile(view: "View", jobs: np.ndarray) -> Profile:
    """Return the profiles of jobs, in the shape of `jobs`; a job of -1 gets the profile of job 0."""
    some = view.jobs_of(np.maximum(jobs, 0).ravel())
    active, idle = (of.reshape(jobs.shape) for of in (some.profiled_active_ms, some.profiled_idle_ms))
    tiny = np.finfo(float).tiny
    log_ratio = np.log(np.maximum(active, tiny)) - np.log(np.maximum(idle, tiny))
    return Profile(
        active, idle, some.gpu_utilization.reshape(jobs.shape), np.clip(log_ratio, -LARGEST_LOG, LARGEST_LOG)
    )


def in_order(view: "View", order: np.ndarray, *, knows_memory: bool = True) -> Action:
    """Start the first job that fits on GPUs of its own, otherwise the first that may join a group, in the smallest one.

    Wait if there is none. order: (jobs,) queued jobs. knows_memory: whether profiled memory must suffice.
    """
    if start := view.start_first(order):
        return start
    joins = Joins(view, order, knows_memory=knows_memory)
    return joins.cheapest(by_rank(joins, joins.sizes[joins.group])) or Wait()


def by_rank(joins: Joins, preference: np.ndarray) -> np.ndarray:
    """Return costs (pairs,): by the job's place in the order, then by `preference`, 0 to 99, smallest first."""
    cost: np.ndarray = 100.0 * joins.job + preference
    return cost


class Trial:
    """Two jobs that share GPUs, measured from the time when both run."""

    def __init__(self, host: int, guest: int, window_s: float, view: "View") -> None:
        """Note the utilisation of the host so far, or 1 if it has run for less than a window."""
        self.host, self.guest = host, guest
        ran = float(view.jobs.ran_s[host])
        self.before = float(view.jobs.busy_s[host]) / ran if ran >= window_s else 1.0
        self.began_s = np.inf
        self.busy_s = 0.0

    def goes_on(self, view: "View") -> bool:
        """Return whether both still hold their GPUs; begin to measure once both run."""
        pair = [self.host, self.guest]
        runs = np.isin(pair, view.running)
        if runs.all() and np.isinf(self.began_s):
            self.began_s, self.busy_s = view.now, float(view.jobs.busy_s[pair].sum())
        return bool((runs | np.isin(pair, view.loading)).all())

    def is_worse(self, view: "View") -> bool:
        """Return whether host and guest together kept their GPUs less busy than the host had done alone."""
        done = float(view.jobs.busy_s[[self.host, self.guest]].sum()) - self.busy_s
        return done < self.before * (view.now - self.began_s)
