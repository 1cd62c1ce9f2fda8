"""Lower bound on the mean JCT of any schedule of a workload, and the share of the gap to it that a policy closes."""

import heapq
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpu_cluster_gym.simulator.relaxations import relaxed_works

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.episode import Episode

Seconds = NDArray[np.float64]
ROUNDS = 4  # of excluding jobs that hardly queue


def lower_bound(episode: "Episode", counted: NDArray[np.bool_] | None = None) -> float:
    """Return a mean JCT in seconds that no schedule of a new episode's workload can beat.

    It is the maximum of several bounds. Each gives some jobs, whichever they are, their minimum time: alone,
    with the best shape, GPU type and cores. The others are served by a single machine that is at least as
    capable as the cluster: see `simulator.relaxations`. There the sum of JCTs is at least that of shortest
    remaining work first (`_by_remaining_work`), and at least the sum of mean moments of progress plus half of
    the minimum times (`_by_mean_moment`). Preemption costs, placement, lost work, failures and waits for them
    only make schedules worse.

    counted: jobs of which the mean is taken, where these are not all; their bound is the mean of their minimum times
    """
    if counted is not None and not counted.all():
        return float(episode.fastest_s[counted].mean())
    startup_s = episode.jobs["startup_s"]
    from_s = episode.jobs["submit_s"] - episode.jobs["submit_s"].min() + startup_s  # earliest progress
    least_s = episode.fastest_s - startup_s
    best = float(least_s.mean())
    for work in relaxed_works(episode):
        for relaxed in (_by_mean_moment, _by_remaining_work):
            best = _mean_jct(from_s, work, least_s, relaxed, best)
    return float(startup_s.mean()) + best


def gap_closed(baseline: float, policy: float, bound: float) -> float:
    """Return the fraction of the gap between a baseline's mean JCT and the lower bound that a policy closes.

    1 at the bound, which may be unreachable; below 0 if the policy is worse than the baseline.
    """
    return (baseline - policy) / (baseline - bound)


Relaxed = Callable[[Seconds, Seconds, Seconds], Seconds]
"""Function of submission times, work and minimum times; it returns JCTs whose sum no schedule beats."""


def _mean_jct(submit_s: Seconds, work: Seconds, least_s: Seconds, relaxed: Relaxed, known: float) -> float:
    """Return the best bound found by excluding more and more jobs from the shared machine: those that would not queue.

    known: another bound; the search ends when these JCTs, none below its minimum time, have no greater mean.
    """
    meet = work > 0
    for _ in range(ROUNDS):
        jct_s = least_s.copy()
        jct_s[meet] = relaxed(submit_s[meet], work[meet], least_s[meet])
        known = max(known, float(jct_s.mean()))
        queue = meet & (jct_s > least_s)
        if queue.sum() == meet.sum() or float(np.maximum(jct_s, least_s).mean()) <= known:
            break
        meet = queue
    return known


def _by_remaining_work(submit_s: Seconds, work: Seconds, least_s: Seconds) -> Seconds:
    """Return the JCTs on one machine of speed 1 that serves the least remaining work (Schrage 1968).

    The shortest job of the queue stays the shortest while it is served.
    """
    ended = np.zeros(len(work))
    for job, _, end in _served(submit_s, work, by_remaining=True):
        ended[job] = end
    return ended - submit_s


def _by_mean_moment(submit_s: Seconds, work: Seconds, least_s: Seconds) -> Seconds:
    """Return for each job the mean moment of its progress plus half of its minimum time, with minimum total moments.

    A job that never progresses faster than in its minimum time ends at least half of that time after the mean
    moment of its progress. The total of these moments is least if one machine of speed 1 serves the job with
    the least work of all present jobs (Eastman, Even and Isaacs 1964 for simultaneous arrivals; cited from
    memory).
    """
    moment = np.zeros(len(work))
    for job, begin, end in _served(submit_s, work, by_remaining=False):
        moment[job] += (end - begin) * (begin + end) / 2
    return moment / work - submit_s + least_s / 2


def _served(submit_s: Seconds, work: Seconds, *, by_remaining: bool) -> Iterator[tuple[int, float, float]]:
    """Yield (job, start, end) on one machine of speed 1 that serves the least (remaining) work of the present jobs."""
    left = work.tolist()
    queue: list[tuple[float, int]] = []
    clock = 0.0
    for new in [*np.argsort(submit_s, kind="stable").tolist(), None]:
        until = np.inf if new is None else float(submit_s[new])
        while queue and clock < until:
            job = queue[0][1]
            end = min(clock + left[job], until)
            yield job, clock, end
            if clock + left[job] <= until:
                heapq.heappop(queue)
            else:
                left[job] -= end - clock
                heapq.heapreplace(queue, (left[job] if by_remaining else float(work[job]), job))
            clock = end
        if new is not None:
            clock = until
            heapq.heappush(queue, (left[new], new))
