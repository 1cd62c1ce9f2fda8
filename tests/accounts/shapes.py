"""Shapes of jobs, and the inputs of a plan of shapes."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.vocabulary import DONE, SERVER_CORES, WORKER_CORES

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import Entities, View


class Once:
    """The arrays of jobs, GPUs or nodes, each read once."""

    def __init__(self, entities: "Entities") -> None:
        """Take the arrays."""
        self._entities = entities

    def __getattr__(self, column: str) -> np.ndarray:
        """Read an array, and keep it."""
        read: np.ndarray = getattr(self._entities, column)
        setattr(self, column, read)
        return read


class Now:
    """A view before anything is done at an instant."""

    def __init__(self, view: "View") -> None:
        """Take a view."""
        self.view = view
        self.jobs, self.gpus, self.nodes = Once(view.jobs), Once(view.gpus), Once(view.nodes)


class Shape(NamedTuple):
    """Numbers of workers and parameter servers of a job.

    on_cpu: whether the workers have cores, not GPUs. apart: whether the servers have GPUs of their own, not cores.
    """

    workers: int
    servers: int
    on_cpu: bool = False
    apart: bool = False

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return 0 if self.on_cpu else self.workers + self.servers * self.apart


class Request(NamedTuple):
    """A job, and the shapes that would do, the best first."""

    job: int
    shapes: Sequence[Shape]


def active(now: Now) -> np.ndarray:
    """Return the jobs that request GPUs and have arrived and not ended, by (submit, job)."""
    jobs: np.ndarray = np.flatnonzero((now.jobs.phase != DONE) & (now.jobs.num_gpus > 0))
    return jobs


@cache
def smaller(shape: Shape, least: int) -> tuple[Shape, ...]:
    """Return the shapes with fewer workers, the largest first."""
    return tuple(shape._replace(workers=workers) for workers in range(shape.workers - 1, least - 1, -1))


def held(now: Now, job: int) -> Shape:
    """Return the shape of a job that runs, or waits for GPUs."""
    workers, gpus = int(now.jobs.workers_now[job]), int(now.jobs.gpus_now[job])
    return Shape(workers, int(now.jobs.servers_now[job]), gpus == 0, gpus > workers)


def asked(now: Now, job: int) -> Shape:
    """Return the requested shape of a job."""
    return Shape(int(now.jobs.num_gpus[job]), int(now.jobs.servers[job]))


def cores_feeding(now: Now) -> list[float]:
    """Return the requested cores per GPU of each job, without those of its servers."""
    servers = SERVER_CORES * now.jobs.servers / np.maximum(now.jobs.num_gpus, 1)
    feeding: list[float] = np.maximum(now.jobs.cores_each - servers, 1.0).tolist()
    return feeding


def cores_each(feeding: float, shape: Shape) -> float:
    """Return the cores that a job requests in a shape: for each GPU, or as a whole on CPU workers."""
    if shape.on_cpu:
        return WORKER_CORES * shape.workers + SERVER_CORES * shape.servers
    if shape.apart:
        return feeding
    return feeding + SERVER_CORES * shape.servers / shape.workers
