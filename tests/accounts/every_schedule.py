"""Exhaustive search over the schedules of a few jobs on one or two GPUs, in the simulator itself."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.legality import Seat

MOST_TRIED = 150  # instants of an episode; after that the best so far stands


class Search:
    """Minimum sum of completion times of an episode, over each job's actions at each instant at which one may end.

    Each job waits, runs on any GPUs in any shape, or without GPUs, with few or many cores; moves and pauses are
    free.
    """

    def __init__(self, episode: Episode) -> None:
        """Search all schedules."""
        self.episode, self.states, self.jobs = episode, episode.states, episode.jobs
        self.seats = [list(self._seats(job)) for job in range(len(self.jobs))]
        self.best, self.tried = np.inf, 0
        self._go_on()

    @property
    def mean_jct_s(self) -> float:
        """Minimum mean JCT found, s."""
        return float(self.best) / len(self.jobs)

    def _seats(self, job: int) -> Iterator[Seat]:
        row, cluster = self.jobs[job], self.episode.cluster
        none = np.array([], np.int32)
        if row["num_gpus"] == 0:
            yield from (Seat(none, 0.0, node, 0, -1) for node in range(cluster.num_nodes))
            return
        servers = (1, 2) if row["servers"] else (0,)
        for workers in range(int(row["max_workers"]), int(row["min_workers"]) - 1, -1):
            for few in servers:
                for gpus in itertools.combinations(range(cluster.num_gpus), workers):
                    for cores in (3.0, 0.0, 1.0) if self.episode.state.cpu_limited and not few else (0.0,):
                        yield Seat(np.array(gpus, np.int32), cores, NOBODY, workers, few)
                if row["cpu_slowdown"] > 0:
                    yield from (Seat(none, 0.0, node, workers, few) for node in range(cluster.num_nodes))

    def _go_on(self) -> None:
        """Advance to the next instant, and try all actions there."""
        state = self.states[0]
        if state.num_done == state.num_jobs:
            self.best = min(self.best, state.present_seconds)
            return
        if self.tried >= MOST_TRIED or not calls.advance(self.states, 0, self.jobs):
            return
        self.tried += 1
        if state.present_seconds < self.best:
            self._each(0)

    def _each(self, job: int) -> None:
        """Try all actions of a job, and of those after it, at this instant."""
        if job == len(self.jobs):
            self._go_on()
            return
        before = self.states[0].copy()
        ways: list[tuple[Callable[..., int] | None, Callable[..., None], tuple[Any, ...]]] = []
        if before.phase[job] == QUEUED:
            ways += [(legality.legal_start, calls.start_as, (seat, False)) for seat in self.seats[job]]
        if before.phase[job] == RUNNING and self.jobs["num_gpus"][job] > 0:
            ways += [(legality.legal_move, calls.move, (seat,)) for seat in self.seats[job]]
            ways += [(None, calls.pause, ())] if before.num_queued else []
        for why_not, act, chosen in ways:
            if not (why_not and why_not(self.states, 0, self.jobs, job, *chosen)):
                act(self.states, 0, self.jobs, job, *chosen)
                self._each(job + 1)
                self.states[0] = before
        self._each(job + 1)
        self.states[0] = before
