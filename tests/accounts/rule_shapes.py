"""The shapes that jobs can have, and how long they take in each by what fits their profiles."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.speed_model import Speeds, seconds
from gpu_cluster_gym.simulator.vocabulary import MAX_SERVERS, SERVER_CORES

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

WIDTHS = (1, 2, 4, 8, 16)  # and what a job asks for
ROUNDING = 1e-6


class Way(NamedTuple):
    """Workers and parameter servers that a job can have, and its time over that with those it asks for."""

    workers: int
    servers: int
    pace: float


Ways = Sequence[Way]


class Paces:
    """How long jobs take in other shapes, over what they take as asked; fitted to their profiles."""

    def __init__(self) -> None:
        """Know no job yet."""
        self._speeds = Speeds()
        self._known: dict[tuple[int, int, int], float] = {}

    def of(self, view: "View", job: int, workers: int, servers: int) -> float:
        """Return the seconds with so many workers and servers over those with as many as a job asks for."""
        if (job, workers, servers) not in self._known:
            shapes = np.array([workers, max(int(view.jobs.num_gpus[job]), 1)])
            counts = np.array([servers, int(view.jobs.servers[job])])
            took = seconds(self._speeds.of(view, np.array([job])), shapes, counts, np.zeros(2))
            self._known[job, workers, servers] = float(took[0] / took[1])
        return self._known[job, workers, servers]

    def ways(self, view: "View", job: int, *, sizing: bool, spreads: bool) -> Ways:
        """Return the shapes in which a job may run, and how long it takes in each.

        As many servers belong to each number of workers as are best, of those for which a fair share of the cores is
        enough; the shape asked for is one too. spreads: whether it may be on several nodes.
        """
        asked, least, most, servers = (
            int(each[job])
            for each in (view.jobs.num_gpus, view.jobs.min_workers, view.jobs.max_workers, view.jobs.servers)
        )
        if not sizing:
            return [Way(asked, servers, 1.0)]
        if not spreads:
            most = min(most, int(max(view.nodes.num_gpus[view.can_hold(job)], default=0)))
        widths = {asked, *(width for width in WIDTHS if least <= width <= most)}
        shapes = [(width, self._best_servers(view, job, width)) for width in sorted(widths)]
        as_asked = [(asked, servers)] if (asked, servers) not in shapes else []
        return [Way(*shape, self.of(view, job, *shape)) for shape in (*shapes, *as_asked)]

    def _best_servers(self, view: "View", job: int, workers: int) -> int:
        servers, most = int(view.jobs.servers[job]), MAX_SERVERS
        if not servers:
            return 0
        if view.cpu_limited:
            fair = float(view.nodes.cores.sum()) / int(view.nodes.num_gpus.sum())
            left = (
                fair
                - float(view.jobs.cores_each[job])
                + SERVER_CORES * servers / int(view.jobs.num_gpus[job])
            )
            most = min(max(int(left * workers / SERVER_CORES + ROUNDING), 1), MAX_SERVERS)
        fitted = self._speeds.of(view, np.array([job]))
        takes = seconds(fitted, np.full(most, workers), np.arange(1, most + 1), np.zeros(most))
        return 1 + int(np.argmin(takes))
