"""Lower bound on the mean JCT of any schedule of a workload, from relaxations of its episode.

A relaxation assigns each job an amount of work, in seconds of the whole cluster, such that no schedule does more than
one second of work per second: its minimum, whatever its shape, GPU type and co-located jobs. A single machine of speed
1 with these jobs is therefore at least as capable as any schedule. Each relaxation is

    work = min(s g + (1 - s) c, (1 - s) c'),   g: on GPUs   c: on the cores next to them   c': on cores alone

for a weight s from 0 to 1. g counts GPUs only, and c and c' cores only, so a schedule does at most s + (1 - s) = 1
second of work per second.

Cores. Minimum core-seconds of a job (`min_core_seconds`) over the cores of the cluster, each held by one job
at a time; only if cores are allocated.

GPUs. A job of progress rate r on w GPUs makes r / w on each, and r / w <= 1 / a(x), where a(x) is the minimum
GPU-seconds per second of progress of a job whose computing is slowed x times by others (`min_gpu_seconds`).
Let a second of progress count (base + by_utilization x utilisation) x a(y), for some y >= 1. Since a(x) rises and a(x)
/ x falls, a(y) / a(x) <= max(y / x, 1), and all jobs on a GPU together count per second at most

    sum of (base + by_utilization x utilisation) x max(y / x, 1)   <=   `max_total`, over any set of jobs on a GPU,

where x is at least the slowdown of the least slowed job among this number of jobs, or under this total
utilisation.

With y = 1 and by_utilization = 0 these are exclusive GPU-seconds over the maximum number of jobs per GPU. If GPU types
differ, a(y) is that of one type, and a GPU of another type counts as many GPUs of that type as it is worth to the job
that gains most from it (`_capacity`).

Pauses, loads, start-ups, lost progress, bandwidth, links, GPU memory and failures are not counted: they only
add work.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import TURNS

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.episode import Episode

Seconds = NDArray[np.float64]
ROUNDS = 4  # of excluding jobs that hardly queue
WEIGHTS = ((1.0, 0.0), (1.0, 1.0), (1.0, 2.0), (1.0, 4.0), (0.0, 1.0))  # base, by_utilization
SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)  # the weight s


def lower_bound(episode: "Episode", counted: NDArray[np.bool_] | None = None) -> float:
    """Return a mean JCT in seconds that no schedule of a new episode's workload can beat.

    It is the maximum of several bounds. Each gives some jobs, whichever they are, their minimum time: alone, with the
    best shape, GPU type and cores. The others are served by a single machine that is at least as capable as the
    cluster. There the sum of JCTs is at least that of shortest remaining work first (`_by_remaining_work`), and at
    least the sum of mean moments of progress plus half of the minimum times (`_by_mean_moment`). Preemption costs,
    placement, lost work, failures and waits for them only make schedules worse.

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


def relaxed_works(episode: "Episode") -> np.ndarray:
    """Return the work of every job in each relaxation, (relaxations, jobs), s of the whole cluster."""
    cores = _min_resources(episode, 1.0)
    total = sum(episode.cluster.node_cores)
    has_gpus, can_do_without = episode.jobs["num_gpus"] > 0, np.isfinite(cores.without_gpus)
    beside = np.where(has_gpus, cores.on_cores, 0.0) / total
    alone = np.where(can_do_without, cores.without_gpus, 0.0) / total
    works = []
    for on_gpus in _on_gpus(episode):
        for share in SHARES if episode.state.cpu_limited else SHARES[:1]:
            with_gpus = np.where(has_gpus, share * on_gpus + (1 - share) * beside, np.inf)
            without = np.where(can_do_without, (1 - share) * alone, np.inf)
            works.append(np.minimum(with_gpus, without) * episode.jobs["duration_s"])
    return np.unique(works, axis=0)


class _MinResources(NamedTuple):
    """Minimum resources per second of progress.

    on_gpus: (jobs, types), GPU-seconds by GPU type.
    on_cores: (jobs,), core-seconds of a job on GPUs.
    without_gpus: (jobs,), core-seconds of a job without GPUs.
    """

    on_gpus: np.ndarray
    on_cores: np.ndarray
    without_gpus: np.ndarray


def _min_resources(episode: "Episode", slowdown: float) -> _MinResources:
    """Return the minimum resources of jobs whose computing is slowed by this factor."""
    jobs, types = len(episode.jobs), int(_types(episode).max()) + 1
    found = _MinResources(np.empty((jobs, types)), np.empty(jobs), np.empty(jobs))
    calls.min_resources(episode.states, 0, episode.jobs, slowdown, *found)
    return found


def _types(episode: "Episode") -> np.ndarray:
    types: np.ndarray = episode.state.node_type[: episode.state.num_nodes]
    return types


def _on_gpus(episode: "Episode") -> Iterator[np.ndarray]:
    """Yield the share of all GPUs that each job takes per second of progress, relaxation by relaxation."""
    utilization, max_share = episode.jobs["gpu_utilization"], int(episode.state.max_share)
    max_utilization = float(utilization.max())
    min_wait, max_wait = _waits(episode)
    turns = episode.state.contention_form == TURNS
    beyond = (max_share - 1) * max_wait if turns else max(max_share * max_utilization - 1, 0.0)
    crowded = calls.crowding(episode.states, 0, beyond, max_share)
    for slowdown in sorted({1.0, crowded}):
        min_gpu_s = _min_resources(episode, slowdown).on_gpus
        for kind in np.unique(_types(episode)).tolist():
            capacity = _capacity(episode, min_gpu_s, kind)
            for base, by_utilization in WEIGHTS if max_share > 1 else WEIGHTS[:1]:
                total = calls.max_total(
                    episode.states, 0, base, by_utilization, max_utilization, min_wait, slowdown
                )
                takes = (base + by_utilization * utilization) * min_gpu_s[:, kind]
                yield takes / (total * capacity) if takes.any() else takes


def _waits(episode: "Episode") -> tuple[float, float]:
    """Return the minimum and the maximum wait of one job for another on a shared GPU under `turns`."""
    on_gpus = episode.jobs[episode.jobs["num_gpus"] > 0]
    if not len(on_gpus):
        return 0.0, 0.0
    interference, interference_hold = on_gpus["interference"], on_gpus["interference_hold"]
    low, high = interference_hold.min(), interference_hold.max()
    if low + high <= 0:
        return 0.0, 0.0
    min_wait = interference.min() * 2 * low / (low + high)
    max_wait = interference.max() * 2 * high / (low + high)
    return float(min_wait), float(max_wait)


def _capacity(episode: "Episode", min_gpu_s: np.ndarray, kind: int) -> float:
    """Return how many GPUs of one type all GPUs are worth, each rated by the job that gains most from it.

    min_gpu_s: (jobs, types), GPU-seconds per second of progress.
    """
    state, types = episode.state, _types(episode)
    nodes = np.column_stack([types, state.node_memory[: len(types)], state.node_gpus[: len(types)]])
    total = 0.0
    for (other, gib, num_gpus), count in zip(*np.unique(nodes, axis=0, return_counts=True), strict=True):
        fits = (min_gpu_s[:, int(other)] > 0) & (episode.jobs["gpu_memory_gib"] <= gib)
        worth = (min_gpu_s[fits, kind] / min_gpu_s[fits, int(other)]).max(initial=0.0)
        total += float(count * num_gpus * worth)
    return total
