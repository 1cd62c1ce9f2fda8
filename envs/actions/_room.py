"""What a start, or a move, that is being put together can still become: which shapes, and whether there is room."""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, floor
from typing import Any

import numpy as np

from gpu_cluster_gym.envs.slots import PartialAction, Shape
from gpu_cluster_gym.simulator.policy import Placement, Resize, Start
from gpu_cluster_gym.simulator.view import Entities, View
from gpu_cluster_gym.simulator.vocabulary import (
    MAX_SERVERS,
    MIN_CORES,
    NOBODY,
    OPEN,
    PAUSING,
    ROUNDING,
    RUNNING,
    SERVER_CORES,
    WORKER_CORES,
)

EMPTY, FREED, SHARED, SHUT = range(
    4
)  # a GPU: without jobs; whose jobs all pause; with a seat left; none of these
NEARLY = 1e-6  # of a core


class Still:
    """A view at which nothing happens, or its jobs, GPUs or nodes: each array is read once."""

    def __init__(self, shown: View | Entities) -> None:
        """Look at a view, or at a part of it."""
        self._shown = shown

    def __getattr__(self, name: str) -> Any:
        """Return what is shown, and remember it."""
        value = getattr(self._shown, name)
        self.__dict__[name] = still = Still(value) if isinstance(value, Entities) else value
        return still


def shape_of(view: View, job: int) -> Shape:
    """Return the shape that a running job has, or that a queued one asks for."""
    running = view.jobs.phase[job] == RUNNING
    gpus = int((view.jobs.gpus_now if running else view.jobs.num_gpus)[job])
    workers, servers = int(view.jobs.workers_now[job]), int(view.jobs.servers_now[job])
    return Shape(workers, servers, on_cores=gpus == 0, apart=gpus > workers)


def asked_cores(view: View, job: int, shape: Shape) -> float:
    """Return the cores that a job asks for in a shape, for each GPU, or as a whole without GPUs."""
    asked = Shape(int(view.jobs.num_gpus[job]), int(view.jobs.servers[job]))
    if not asked.workers or shape == asked:
        return float(view.jobs.cores_each[job])
    if shape.on_cores:
        return WORKER_CORES * shape.workers + SERVER_CORES * shape.servers
    return float(view.jobs.cores_each[job]) - cores_beside(asked) + cores_beside(shape)


def cores_beside(shape: Shape) -> float:
    """Return the cores that parameter servers take beside each GPU."""
    return 0.0 if shape.on_cores or shape.apart else SERVER_CORES * shape.servers / shape.gpus


def next_cores(now: float, asked: float, shape: Shape, way: int) -> float:
    """Return the cores after a step up or down: those beside servers are whole numbers, or as asked for in between."""
    servers = cores_beside(shape)
    own = now - servers
    whole = floor(own + NEARLY) + 1.0 if way > 0 else ceil(own - NEARLY) - 1.0
    low, high = sorted((now, whole + servers))
    return asked if low + NEARLY < asked < high - NEARLY else whole + servers


def whole_action(partial: PartialAction, node: int | None = None) -> Start | Resize:
    """Return the action that was put together."""
    shape = partial.shape
    placement = Placement(tuple(partial.gpus), partial.cores, node, shape.workers or None, shape.servers)
    return Resize(partial.job, placement=placement) if partial.moves else Start(partial.job, placement)


def changed(partial: PartialAction, view: View, field: str, way: int) -> PartialAction | None:
    """Return it with its cores, or a field of its shape, changed by a step; None where that makes no sense.

    Each goes in one direction only; the shape is settled before the cores, and both before the first GPU.
    """
    settled = partial.gpus or ("cores" in partial.ways and field != "cores")
    if settled or partial.ways.get(field, way) != way:
        return None
    ways = partial.ways | {field: way}
    if field == "cores":
        asked = asked_cores(view, partial.job, partial.shape)
        cores = next_cores(asked if partial.cores is None else partial.cores, asked, partial.shape, way)
        return replace(partial, cores=cores, ways=ways) if _may_ask(partial, view, cores) else None
    now = getattr(partial.shape, field)
    after = way > 0 if isinstance(now, bool) else now + way
    shape = partial.shape._replace(**{field: after})
    if field == "on_cores":
        shape = shape._replace(apart=False)
    legal = after != now and is_shape(view, partial.job, shape)
    return replace(partial, shape=shape, ways=ways) if legal else None


def _may_ask(partial: PartialAction, view: View, cores: float) -> bool:
    """Tell whether a job may ask for so many cores in its shape: no more than a node has."""
    if not view.cpu_limited:
        return False
    if view.jobs.is_cpu_job[partial.job]:
        return bool(MIN_CORES <= cores <= view.jobs.cores_each[partial.job])
    least = MIN_CORES + cores_beside(partial.shape)
    return not partial.shape.on_cores and bool(least <= cores <= view.nodes.cores.max())


def is_shape(view: View, job: int, shape: Shape) -> bool:
    """Tell whether a job with GPUs can have a shape."""
    if (
        not view.jobs.num_gpus[job]
        or not view.jobs.min_workers[job] <= shape.workers <= view.jobs.max_workers[job]
    ):
        return False
    most = MAX_SERVERS if view.jobs.servers[job] else 0
    servers = min(most, 1) <= shape.servers <= most and (shape.servers > 0 or not shape.apart)
    return servers and not (shape.on_cores and (shape.apart or not view.jobs.cpu_slowdown[job]))


def shapes_left(partial: PartialAction, view: View) -> Iterator[Shape]:
    """Yield shapes that a partial action can still take: if any of those it can take has room, one of these has.

    They have as few servers as can be, and as few workers but where those make room for servers beside them.
    """
    shape, ways, job = partial.shape, partial.ways, partial.job
    if partial.gpus or "cores" in ways or not view.jobs.num_gpus[job]:
        yield shape
        return
    fewest = shape.workers if ways.get("workers") == 1 else int(view.jobs.min_workers[job])
    most = shape.workers if ways.get("workers") == -1 else int(view.jobs.max_workers[job])
    servers = shape.servers if not shape.servers or ways.get("servers") == 1 else 1
    if _may_be(partial, "on_cores", on=True) and view.jobs.cpu_slowdown[job]:
        yield Shape(fewest, servers, on_cores=True)
    if not _may_be(partial, "on_cores", on=False):
        return
    if servers and _may_be(partial, "apart", on=True):
        yield Shape(fewest, servers, apart=True)
    if _may_be(partial, "apart", on=False):
        last = min(most, len(view.gpus.first_owner)) if servers else fewest
        yield from (Shape(workers, servers) for workers in range(fewest, last + 1))


def _may_be(partial: PartialAction, field: str, *, on: bool) -> bool:
    """Tell whether workers can still come onto cores (or stay off them), or servers onto GPUs of their own."""
    return field not in partial.ways or getattr(partial.shape, field) == on


def can_be_completed(partial: PartialAction, view: View) -> bool:
    """Tell whether what is left to be changed and named can make this a legal action."""
    kinds = kinds_for(partial, view)
    return any(_has_room(partial, view, shape, kinds) for shape in shapes_left(partial, view))


def kinds_for(partial: PartialAction, view: View) -> np.ndarray:
    """Return what each GPU is to a job: EMPTY, FREED, SHARED, or SHUT if it may not be given to it.

    A move may take GPUs that pausing jobs, and the job itself, hold; they count as empty.
    """
    here = view.gpus.jobs
    leaving = (here < 0) | (view.jobs.phase[here] == PAUSING)
    if partial.moves:
        kinds = np.where((leaving | (here == partial.job)).all(axis=1), EMPTY, SHUT)
    else:
        taken = np.where(view.gpus.num_jobs < view.max_share, SHARED, SHUT)
        kinds = np.where(leaving.all(axis=1), np.where(view.gpus.num_jobs > 0, FREED, EMPTY), taken)
    able = (view.gpus.reserved_for == NOBODY) & view.can_hold(partial.job)[view.gpus.node]
    return np.where(able, kinds, SHUT)


def _has_room(partial: PartialAction, view: View, shape: Shape, kinds: np.ndarray) -> bool:
    """Tell whether there are GPUs for all that are still to be named, or a node."""
    if not shape.gpus:
        spare = view.nodes.unreserved_cores[view.nodes.closed == OPEN]
        wanted = -np.inf if partial.moves else _least_whole(partial, view, shape)
        return bool((spare + ROUNDING >= wanted).any())
    named = kinds[partial.gpus]
    left = kinds.copy()
    left[partial.gpus] = SHUT
    still = shape.gpus - len(named)
    empty, freed = (int((left == kind).sum()) for kind in (EMPTY, FREED))
    waits = bool((named == FREED).any())
    # Where some are still being freed the others must be empty, and it gets what cores there are.
    if (waits or (freed and still)) and not (named == SHARED).any() and empty + freed >= still:
        return True
    if waits or SHUT in named:
        return False
    if partial.moves or not view.cpu_limited:
        return int((left != SHUT).sum()) - freed >= still
    return _room_with_cores(view, partial.gpus, kinds, left, _least_each(partial, shape)) >= still


def _room_with_cores(view: View, gpus: list[int], kinds: np.ndarray, left: np.ndarray, cores: float) -> int:
    """Return how many more free GPUs there are with so many cores each; -1 if not even the named.

    On each node those without a job come first: each brings the core that is kept for it.
    """

    def on_nodes(some: np.ndarray) -> np.ndarray:
        return np.bincount(view.gpus.node[some], minlength=len(view.nodes.num_gpus))[:, None]

    named = np.array(gpus, int)
    empty, shared = on_nodes(left == EMPTY), on_nodes(left == SHARED)
    more = np.arange(view.nodes.num_gpus.max() + 1)
    kept = on_nodes(named[kinds[named] == EMPTY]) + np.minimum(more, empty)
    count = on_nodes(named) + more
    enough = (view.nodes.unreserved_cores[:, None] + kept) / np.maximum(count, 1) + ROUNDING >= cores
    fits = ((count == 0) | enough) & (more <= empty + shared)
    return int((fits.sum(axis=1) - 1).sum()) if fits[:, 0].all() else -1


def _least_whole(partial: PartialAction, view: View, shape: Shape) -> float:
    """Return the fewest cores of a node with which a partial action can start without GPUs."""
    return MIN_CORES if view.jobs.is_cpu_job[partial.job] else asked_cores(view, partial.job, shape)


def _least_each(partial: PartialAction, shape: Shape) -> float:
    """Return the fewest cores a GPU for which a partial action can still ask."""
    least = MIN_CORES + cores_beside(shape)
    if partial.cores is None:
        return least
    going_down = partial.ways["cores"] < 0 and not partial.gpus
    return least if going_down else partial.cores
