"""Yardsticks for speed: textbook simulators of a pool of GPUs, environments that do nothing, and a plain loop."""

import heapq
import time
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

Job = tuple[float, int, float]  # submit_s, num_gpus, duration_s
LOOP_ITEMS = 200_000


def fifo(jobs: Sequence[Job], gpus: int) -> list[float]:
    """Return the finish times of jobs on a pool under FIFO, which skips jobs that do not fit."""
    return _non_preemptive(jobs, gpus, [(submit_s, number) for number, (submit_s, _, _) in enumerate(jobs)])


def sjf(jobs: Sequence[Job], gpus: int) -> list[float]:
    """Return the finish times of jobs on a pool under shortest job first."""
    return _non_preemptive(jobs, gpus, [(duration, number) for number, (_, _, duration) in enumerate(jobs)])


def _non_preemptive(jobs: Sequence[Job], gpus: int, keys: Sequence[tuple[float, int]]) -> list[float]:
    """Simulate a non-preemptive order: sort the queue at each instant and start the jobs that fit."""
    finish = [0.0] * len(jobs)
    running: list[tuple[float, int]] = []
    queue: list[int] = []
    arrived = 0
    while arrived < len(jobs) or running:
        arrival = jobs[arrived][0] if arrived < len(jobs) else float("inf")
        now = min(arrival, running[0][0] if running else float("inf"))
        while running and running[0][0] <= now:
            gpus += jobs[heapq.heappop(running)[1]][1]
        while arrived < len(jobs) and jobs[arrived][0] <= now:
            queue.append(arrived)
            arrived += 1
        queue.sort(key=keys.__getitem__)
        waiting = []
        for job in queue:
            _, wanted, duration = jobs[job]
            if wanted > gpus:
                waiting.append(job)
                continue
            gpus -= wanted
            finish[job] = now + duration
            heapq.heappush(running, (finish[job], job))
        queue = waiting
    return finish


def srtf(jobs: Sequence[Job], gpus: int) -> list[float]:
    """Return the finish times of jobs on a pool under shortest remaining time first, with free preemption."""
    finish = [0.0] * len(jobs)
    left = [duration for _, _, duration in jobs]
    present: list[int] = []
    running: list[int] = []
    arrived, now = 0, 0.0
    while arrived < len(jobs) or present:
        arrival = jobs[arrived][0] if arrived < len(jobs) else float("inf")
        until = min(arrival, now + min((left[job] for job in running), default=float("inf")))
        for job in running:
            left[job] -= until - now
        now = until
        for job in [job for job in running if left[job] <= 1e-9]:
            finish[job] = now
            present.remove(job)
        while arrived < len(jobs) and jobs[arrived][0] <= now:
            present.append(arrived)
            arrived += 1
        present.sort(key=lambda job: (left[job], job))
        running, free = [], gpus
        for job in present:
            if jobs[job][1] <= free:
                free -= jobs[job][1]
                running.append(job)
    return finish


class NullEnv(gymnasium.Env[Any, Any]):
    """Environment with given spaces that does nothing: constant observations, and episodes of `length` steps."""

    def __init__(
        self,
        observation: Any,
        action_space: gymnasium.Space[Any],
        observation_space: gymnasium.Space[Any],
        length: int,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._observation = observation
        self._length, self._steps = length, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self._steps = 0
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count a step."""
        self._steps += 1
        return self._observation, 0.0, self._steps >= self._length, False, {}


class NullBatch:
    """Vector environment that does nothing."""

    def __init__(self, observation: Any, count: int) -> None:
        self._observation = observation
        self._nothing = np.zeros(count), np.zeros(count, bool), np.zeros(count, bool)

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the episodes."""
        return self._observation, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Do nothing."""
        return self._observation, *self._nothing, {}


def loop_s() -> float:
    """Return the CPU seconds of a loop of plain Python and NumPy, which scale figures between machines."""
    return min(_loop_s() for _ in range(5))


def _loop_s() -> float:
    numbers = np.random.default_rng(0).random(LOOP_ITEMS)
    start = time.process_time()
    heap: list[float] = []
    for number in numbers.tolist():
        heapq.heappush(heap, number)
        if len(heap) > 1_000:
            heapq.heappop(heap)
    for _ in range(5):
        np.sort(numbers)
    return time.process_time() - start
