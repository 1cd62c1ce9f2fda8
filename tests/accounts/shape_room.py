"""Grants in an order, in plain Python: the GPUs, or the cores of a node, of each job that no job before it got."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.vocabulary import LOADING, NOBODY, OPEN, PAUSING, RUNNING
from tests.accounts.shapes import Now, Request, Shape, cores_each, cores_feeding, held

ROUNDING = 1e-6  # of sums of cores
FREE, AWAITED, HELD = range(3)  # GPUs that may be granted


class Grant(NamedTuple):
    """Grant to a job: a shape, and the GPUs or the node for it."""

    shape: Shape
    gpus: tuple[int, ...]
    node: int = NOBODY


class Room:
    """Capacity that a pass can still grant: GPUs by node, the first to be taken first, and cores."""

    def __init__(self, now: Now, order: Sequence[int], movable: dict[int, Shape]) -> None:
        """Count GPUs and cores; order: of all jobs with a request; movable: shapes of running jobs that may change."""
        self._now, self.feeding = now, cores_feeding(now)
        place = {job: number for number, job in enumerate(order)}
        self._node, self._holder = now.gpus.node.tolist(), now.gpus.first_owner.tolist()
        self._shape = movable
        self._held: dict[int, list[int]] = {job: [] for job in movable}
        self._kind: dict[int, tuple[int, int, int]] = {}
        self._open: list[list[int]] = [[] for _ in now.nodes.num_gpus]
        self._taken: set[int] = set()
        self._cores = _cores_left(now, self.feeding, movable).tolist()
        closed, pausing = (
            ((now.gpus.reserved_for != NOBODY) | (now.gpus.num_jobs > 1)).tolist(),
            now.jobs.phase == PAUSING,
        )
        for gpu, job in enumerate(self._holder):
            if job in self._held:
                self._held[job].append(gpu)
            if closed[gpu] or not (job == NOBODY or job in self._held or pausing[job]):
                continue
            kind = FREE if job == NOBODY else HELD if job in self._held else AWAITED
            self._kind[gpu] = kind, -place.get(job, len(place)), gpu
            self._open[self._node[gpu]].append(gpu)
        for gpus in self._open:
            gpus.sort(key=self._kind.__getitem__)
        self._left = len(self._kind)

    def grant(self, request: Request) -> Grant | None:
        """Grant a job the first of its shapes for which there is space, or what it has if no other job got that."""
        if request.job in self._held:
            shapes = [*request.shapes, self._shape[request.job]]
        else:
            shapes = [shape for shape in request.shapes if shape.on_cpu or shape.gpus <= self._left]
        for shape in shapes:
            if grant := self._find(request.job, shape):
                self._give(request.job, grant)
                return grant
        return None

    def changes(self, job: int, grant: Grant) -> bool:
        """Return whether a grant changes the shape or the GPUs of a running job."""
        return job in self._held and not self._keeps(job, grant)

    def _keeps(self, job: int, grant: Grant) -> bool:
        there = int(self._now.jobs.node[job]), self._held[job]
        return grant.shape == self._shape[job] and (grant.node, list(grant.gpus)) == there

    def _find(self, job: int, shape: Shape) -> Grant | None:
        if job in self._held and shape == self._shape[job] and (grant := self._same(job, shape)):
            return grant
        each = cores_each(self.feeding[job], shape)
        if shape.on_cpu:
            return self._on_cores(shape, each)
        if self._left < shape.gpus:
            return None
        able = np.flatnonzero(self._now.view.can_hold(job)).tolist()
        if gpus := self._on_one_node(job, shape.gpus, each, able):
            return Grant(shape, tuple(sorted(gpus)))
        largest = max(int(self._now.nodes.num_gpus[node]) for node in able)
        if shape.servers or shape.gpus > largest:
            gpus = self._spread(job, shape.gpus, each, able)
        return Grant(shape, tuple(sorted(gpus))) if gpus else None

    def _same(self, job: int, shape: Shape) -> Grant | None:
        """Return what a running job holds, if no other job was granted any of it."""
        gpus = self._held[job]
        grant = Grant(shape, tuple(gpus), int(self._now.jobs.node[job]))
        there = not self._taken.intersection(gpus)
        cores = self._cost(job, grant)
        return grant if there and all(self._cores[node] + ROUNDING >= some for node, some in cores) else None

    def _on_cores(self, shape: Shape, cores: float) -> Grant | None:
        """Return the open node with most cores left, if they suffice."""
        closed = self._now.nodes.closed.tolist()
        nodes = [node for node, left in enumerate(self._cores) if closed[node] == OPEN and left >= cores]
        best = max(nodes, key=lambda node: self._cores[node], default=None)
        return None if best is None else Grant(shape, (), best)

    def _on_one_node(self, job: int, wanted: int, each: float, able: Sequence[int]) -> list[int]:
        """Return GPUs of the node where fewest jobs are displaced, then fewest GPUs awaited, then fewest left."""
        best: tuple[int, int, int, int] | None = None
        found: list[int] = []
        for node in able:
            there = self._open[node]
            if len(there) < wanted or self._cores[node] + ROUNDING < wanted * (each - 1):
                continue
            gpus = self._own_first(job, there)[:wanted]
            others = [gpu for gpu in gpus if self._holder[gpu] != job]
            victims = {self._holder[gpu] for gpu in others if self._kind[gpu][0] == HELD}
            awaited = sum(self._kind[gpu][0] == AWAITED for gpu in others)
            key = len(victims), awaited, len(there), node
            if best is None or key < best:
                best, found = key, gpus
        return found

    def _spread(self, job: int, wanted: int, each: float, able: Sequence[int]) -> list[int]:
        """Return GPUs of several nodes, those with most free GPUs first, as far as there are cores."""
        free = [sum(self._kind[gpu][0] == FREE for gpu in gpus) for gpus in self._open]
        gpus = sorted(
            (gpu for node in able for gpu in self._open[node]),
            key=lambda gpu: (self._kind[gpu][:2], -free[self._node[gpu]], gpu),
        )
        left = list(self._cores)
        chosen: list[int] = []
        for gpu in self._own_first(job, gpus):
            if len(chosen) < wanted and left[self._node[gpu]] + ROUNDING >= each - 1:
                left[self._node[gpu]] -= each - 1
                chosen.append(gpu)
        return chosen if len(chosen) == wanted else []

    def _own_first(self, job: int, gpus: Sequence[int]) -> list[int]:
        return sorted(gpus, key=lambda gpu: self._holder[gpu] != job)

    def _cost(self, job: int, grant: Grant) -> list[tuple[int, float]]:
        """Return the cores that a grant takes of nodes, beyond one for each GPU."""
        each = cores_each(self.feeding[job], grant.shape)
        if job in self._held and self._keeps(job, grant):
            each = float(self._now.jobs.cores_now[job])
        if grant.shape.on_cpu:
            return [(grant.node, each)]
        nodes = [self._node[gpu] for gpu in grant.gpus]
        return [(node, (each - 1) * nodes.count(node)) for node in sorted(set(nodes))]

    def _give(self, job: int, grant: Grant) -> None:
        for node, cores in self._cost(job, grant):
            self._cores[node] -= cores
        self._taken.update(grant.gpus)
        for node in {self._node[gpu] for gpu in grant.gpus}:
            self._open[node] = [gpu for gpu in self._open[node] if gpu not in self._taken]
        self._left = sum(map(len, self._open))


def _cores_left(now: Now, feeding: Sequence[float], movable: Iterable[int]) -> np.ndarray:
    """Return the cores of each node beyond one for each GPU, and beyond what jobs keep that are not in question."""
    if not now.view.cpu_limited:
        return np.full(len(now.nodes.num_gpus), np.inf)
    left: np.ndarray = now.nodes.cores - now.nodes.num_gpus.astype(float)
    stays = (now.jobs.phase == LOADING) | (now.jobs.phase == RUNNING)
    stays[list(movable)] = False
    gpus = np.flatnonzero((now.gpus.first_owner >= 0) & stays[now.gpus.first_owner])
    np.subtract.at(left, now.gpus.node[gpus], now.jobs.cores_now[now.gpus.first_owner[gpus]] - 1)
    on_cores = np.flatnonzero(stays & (now.jobs.node != NOBODY))
    np.subtract.at(left, now.jobs.node[on_cores], now.jobs.cores_now[on_cores])
    for gpu in np.flatnonzero(now.gpus.reserved_for >= 0).tolist():
        reserved_for = int(now.gpus.reserved_for[gpu])
        left[now.gpus.node[gpu]] -= cores_each(feeding[reserved_for], held(now, reserved_for)) - 1
    return left
