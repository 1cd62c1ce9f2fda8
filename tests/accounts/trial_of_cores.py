"""Search by trial for the CPU cores that a job needs per GPU: the allocator in plain Python.

A reading is the share of a window in which a job's GPUs were busy, the job having the same number of cores all the
while. The smallest number with a reading about as good as the best is searched for: upwards while readings rise, in
proportion to what is missing to busy GPUs; then downwards between a number that was too small and one that is enough.
Readings are kept, so that no number is tried twice.
"""

from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

GROWTH = 1.5  # at least, from one number of cores to the next; our choice

Readings = dict[float, float]  # share of time in which a job's GPUs were busy, by cores a GPU


def enough(readings: Readings, eps: float) -> float:
    """Return the smallest number of cores with a reading within `eps` of the best."""
    best = max(readings.values())
    return min(cores for cores, busy in readings.items() if busy >= best - eps)


def next_cores(readings: Readings, eps: float) -> int:
    """Return the number of cores to try next; the smallest that is enough where all is known."""
    best, most, good = max(readings.values()), max(readings), enough(readings, eps)
    if good == most and best < 1 - eps:
        return ceil(most * max(GROWTH, (1 - eps) / max(best, eps)))
    fewer = max((cores for cores in readings if cores < good), default=0.0)
    if good - fewer <= 1:
        return ceil(good)
    guess = fewer * (best - eps) / max(readings[fewer], eps) if fewer else good / 2
    return ceil(min(max(guess, fewer + 1), good - 1))


@dataclass
class Curve:
    """Readings of one job, and the cores it wants.

    began_s, busy_s: when the present window began, and what was read then. cores: held since, 0 outside of windows.
    watched: by cores, seconds in windows, and those of them in which GPUs were busy. want: cores a GPU. gain: how much
    busier a core makes a GPU.
    """

    want: float
    gain: float = 1.0
    began_s: float = 0.0
    busy_s: float = 0.0
    cores: float = 0.0
    watched: dict[float, tuple[float, float]] = field(default_factory=dict)

    def begin(self, now: float, busy_s: float, cores: float) -> None:
        """Begin a window."""
        self.began_s, self.busy_s, self.cores = now, busy_s, cores

    def end(self, now: float, busy_s: float, eps: float, drop: float) -> None:
        """Add the reading of a window and begin the next; forget all others if it is far below earlier ones."""
        seconds, busy = now - self.began_s, busy_s - self.busy_s
        before_s, before = self.watched.get(self.cores, (0.0, 0.0))
        if before_s and busy / seconds < before / before_s - drop:
            self.watched, before_s, before = {}, 0.0, 0.0
        self.watched[self.cores] = before_s + seconds, before + busy
        readings = {cores: min(busy / seconds, 1.0) for cores, (seconds, busy) in self.watched.items()}
        self.want = next_cores(readings, eps)
        self.gain = readings[good := enough(readings, eps)] / good
        self.begin(now, busy_s, self.cores)


@dataclass
class Tuner:
    """Curves of the running jobs with GPUs.

    start: cores a GPU before anything is known.
    window_s: shortest length of a window; the first after a start is not read.
    eps: share of time by which GPUs may be less busy than at best.
    drop: a job that is so much less busy than it was with the same cores is tuned again.
    """

    start: float = 3
    window_s: float = 60.0
    eps: float = 0.04
    drop: float = 0.1

    def __post_init__(self) -> None:
        self._curves: dict[int, Curve] = {}
        self._instant = -1

    def watch(self, view: "View") -> None:
        """Read windows that are over; to be called at an instant before anything is changed."""
        if self._instant == view.instant:
            return
        self._instant = view.instant
        jobs = trained(view)
        self._curves = {job: self._curves.get(job) or Curve(self.start) for job in jobs.tolist()}
        for curve, busy_s in zip(self._curves.values(), view.jobs.busy_s[jobs].tolist(), strict=True):
            if curve.cores and view.now - curve.began_s >= self.window_s:
                curve.end(view.now, busy_s, self.eps, self.drop)

    def begin(self, view: "View") -> bool:
        """Begin windows where cores have changed, as the last step of an instant; return whether any is of use.

        Where the memory of a node is too slow, a reading says nothing about cores.
        """
        jobs = trained(view)
        vain = (view.now - view.jobs.phase_began_s[jobs] < self.window_s) | np.isin(jobs, on_slow_nodes(view))
        feeding = view.jobs.cores_now[jobs] - view.jobs.server_cores[jobs]
        rows = (jobs.tolist(), view.jobs.busy_s[jobs].tolist(), feeding.tolist(), vain.tolist())
        of_use = False
        for job, busy_s, cores, in_vain in zip(*rows, strict=True):
            curve = self._curves.setdefault(job, Curve(self.start))
            if in_vain or curve.cores != cores:
                curve.begin(view.now, busy_s, 0.0 if in_vain else cores)
            of_use |= in_vain or cores not in curve.watched
        return of_use

    def wishes(self, view: "View") -> tuple[np.ndarray, np.ndarray]:
        """Return the cores a GPU that each running job wants, and the gain of each core."""
        unknown = Curve(self.start)
        curves = [self._curves.get(job, unknown) for job in view.running.tolist()]
        return np.array([curve.want for curve in curves], float), np.array([curve.gain for curve in curves])


def trained(view: "View") -> np.ndarray:
    """Return the running jobs that have GPUs."""
    jobs: np.ndarray = view.running[~view.jobs.is_cpu_job[view.running]]
    return jobs


def on_slow_nodes(view: "View") -> np.ndarray:
    """Return the jobs on GPUs of nodes whose memory gives less bandwidth than is drawn from it."""
    too_slow = view.nodes.drawn_gbs > view.bandwidth_limit_gbs
    jobs: np.ndarray = view.gpus.jobs[too_slow[view.gpus.node]].ravel()
    return jobs
