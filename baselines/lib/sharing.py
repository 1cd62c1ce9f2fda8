"""What jobs that share GPUs are chosen by: profiles, an order, and what became of two that were tried together."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait
from gpu_cluster_gym.simulator.search import Joins

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LARGEST_LOG = (
    7.0  # our choice; of the ratio of active to idle: the largest that Xonar's authors met is 852, e^6.7
)


class Profile(NamedTuple):
    """What a profiler measured of an iteration of jobs: ms with their GPUs busy and idle, and what follows.

    log_ratio: ln(active / idle), within `LARGEST_LOG`; 0 for jobs without a profile.
    """

    active: np.ndarray
    idle: np.ndarray
    duty: np.ndarray
    log_ratio: np.ndarray


def profile(view: "View", jobs: np.ndarray) -> Profile:
    """Return the profiles of jobs, in the shape in which these come; of any job where one is -1."""
    some = view.jobs_of(np.maximum(jobs, 0).ravel())
    active, idle = (of.reshape(jobs.shape) for of in (some.profiled_active_ms, some.profiled_idle_ms))
    tiny = np.finfo(float).tiny
    log_ratio = np.log(np.maximum(active, tiny)) - np.log(np.maximum(idle, tiny))
    return Profile(
        active, idle, some.gpu_utilization.reshape(jobs.shape), np.clip(log_ratio, -LARGEST_LOG, LARGEST_LOG)
    )


def in_order(view: "View", order: np.ndarray, *, knows_memory: bool = True) -> Action:
    """Start what fits in order: on GPUs of its own, else where fewest jobs are."""
    if start := view.start_first(order):
        return start
    joins = Joins(view, order, knows_memory=knows_memory)
    return joins.cheapest(by_rank(joins, joins.sizes[joins.group])) or Wait()


def by_rank(joins: Joins, preference: np.ndarray) -> np.ndarray:
    """Return costs (pairs,) by which the first job comes first, and then what is least of `preference` (0 to 99)."""
    cost: np.ndarray = 100.0 * joins.job + preference
    return cost


class Trial:
    """Two jobs that share GPUs, watched from when both run."""

    def __init__(self, host: int, guest: int, window_s: float, view: "View") -> None:
        """Note what the host got done before: its utilisation, or 1 where it has run for less than a window."""
        self.host, self.guest = host, guest
        ran = float(view.jobs.ran_s[host])
        self.before = float(view.jobs.busy_s[host]) / ran if ran >= window_s else 1.0
        self.began_s = np.inf
        self.busy_s = 0.0

    def goes_on(self, view: "View") -> bool:
        """Tell whether both still hold their GPUs; begin to measure once both run."""
        pair = [self.host, self.guest]
        runs = np.isin(pair, view.running)
        if runs.all() and np.isinf(self.began_s):
            self.began_s, self.busy_s = view.now, float(view.jobs.busy_s[pair].sum())
        return bool((runs | np.isin(pair, view.loading)).all())

    def is_worse(self, view: "View") -> bool:
        """Tell whether the two together got less done than the host before."""
        done = float(view.jobs.busy_s[[self.host, self.guest]].sum()) - self.busy_s
        return done < self.before * (view.now - self.began_s)
