"""Search in plain Python for jobs to pause for one that does not fit, and for its wait without a pause.

A gang that some node could hold stays on one; a larger one takes whole nodes of the largest size and the
rest of its GPUs on one more, as the placement rules do on equal nodes.
"""

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.vocabulary import CLOSED, NOBODY

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


ROUNDING = 1e-6  # of sums of cores

Ledger = tuple[dict[int, list[int]], dict[int, dict[int, list[int]]]]
"""By node, the free GPUs, and those that each of some jobs holds."""


class Room(NamedTuple):
    """The jobs to pause, the GPUs a job then gets, and the memory of the smallest of those, GiB."""

    victims: list[int]
    gpus: tuple[int, ...]
    memory_gib: float


class Offer(NamedTuple):
    """Jobs that would free GPUs; the best of several costs least, has fewest jobs, most time remaining."""

    cost: float = 0.0
    size: int = 0
    minus_remaining_s: float = 0.0
    jobs: tuple[int, ...] = ()


def alone(view: "View", jobs: np.ndarray) -> np.ndarray:
    """Return those of some running jobs that have GPUs, and share none: only their pauses free GPUs."""
    shared = view.gpus.jobs[view.gpus.num_jobs > 1]
    chosen: np.ndarray = jobs[(view.jobs.num_gpus[jobs] > 0) & ~np.isin(jobs, shared)]
    return chosen


def free_at(view: "View", effort: np.ndarray) -> np.ndarray:
    """Return the seconds until each GPU is free, by the estimates, if no further job is started or paused.

    effort: seconds that each job would hold GPUs, from its start to its end. A reserved GPU is free when its
        next job ends.
    """
    ends = view.jobs.remaining_s.copy()
    loading, pausing = view.loading, view.pausing
    ends[loading] += view.jobs.phase_began_s[loading] + view.jobs.loading_s[loading] - view.now
    ends[pausing] = view.jobs.phase_began_s[pausing] + view.jobs.pause_s[pausing] - view.now
    free = np.where(view.gpus.first_owner >= 0, ends[view.gpus.first_owner], 0.0)
    for reserved_for in np.unique(view.gpus.reserved_for[view.gpus.reserved_for >= 0]):
        inherited = view.gpus.reserved_for == reserved_for
        free[inherited] = free[inherited].max() + effort[reserved_for]
    return free


def time_until(view: "View", job: int, free_s: np.ndarray) -> float:
    """Return the seconds until a job could start, given those until each GPU is free; infinite if never."""
    earliest = free_s[np.lexsort((free_s, view.gpus.node))]  # on each node, one node behind the other
    first = np.cumsum(view.nodes.num_gpus) - view.nodes.num_gpus
    able = view.can_hold(job)
    latest = 0.0
    for wanted in parts(view, job):
        nodes = np.flatnonzero(able & (view.nodes.num_gpus >= wanted))
        if not len(nodes):
            return float("inf")
        times = earliest[first[nodes] + wanted - 1]
        able[nodes[np.argmin(times)]] = False
        latest = max(latest, float(times.min()))
    return latest


def make_room(
    view: "View", job: int, candidates: np.ndarray, cost: np.ndarray, left_s: np.ndarray | None = None
) -> Room | None:
    """Return the victims with the minimum total cost that let a job start, None if there are none.

    cost: of pausing each job. left_s: what each has to go, if that is not as the view has it. Exact on one node; a gang
    on several takes the cheapest node for each part.
    """
    free, held = ledger(view, candidates)
    sizes, remaining_s = view.nodes.num_gpus, view.jobs.remaining_s if left_s is None else left_s
    able = view.can_hold(job)
    room = Room([], (), float("inf"))
    for wanted in parts(view, job):
        best, best_node = None, -1
        for node in np.flatnonzero(able & (sizes >= wanted)).tolist():
            freed = len(free[node]) + sum(len(held[node].get(victim, ())) for victim in room.victims)
            offers = [(v, len(gpus)) for v, gpus in held[node].items() if v not in room.victims]
            found = cheapest(wanted - freed, offers, cost, remaining_s)
            if found is None or not serves(view, job, node, wanted, held[node], [*room.victims, *found.jobs]):
                continue
            if best is None or found[:3] < best[:3]:
                best, best_node = found, node
        if best is None:
            return None
        able[best_node] = False
        victims = [*room.victims, *best.jobs]
        gpus = free[best_node] + [gpu for victim in victims for gpu in held[best_node].get(victim, ())]
        memory = min(room.memory_gib, float(view.nodes.gpu_memory_gib[best_node]))
        room = Room(victims, (*room.gpus, *gpus[:wanted]), memory)
    return room


def room_of_one(view: "View", job: int, candidates: np.ndarray, there: Ledger) -> Room | None:
    """Return the GPUs of the first candidate whose pause alone lets the job start on one node.

    there: the ledger of the candidates.
    """
    free, held = there
    wanted, able = int(view.jobs.num_gpus[job]), np.flatnonzero(view.can_hold(job)).tolist()
    for victim in candidates.tolist():
        for node in able:
            gpus = held[node].get(victim, [])
            enough = len(gpus) + len(free[node]) >= wanted
            if gpus and enough and serves(view, job, node, wanted, held[node], [victim]):
                memory = float(view.nodes.gpu_memory_gib[node])
                return Room([victim], tuple((gpus + free[node])[:wanted]), memory)
    return None


def serves(
    view: "View", job: int, node: int, wanted: int, held: dict[int, list[int]], victims: list[int]
) -> bool:
    """Return whether a node has cores for a job's servers beside some GPUs once these victims are gone."""
    servers = float(view.jobs.server_cores[job])
    if not servers or not view.cpu_limited:
        return True
    freed = sum(len(held.get(victim, ())) * (float(view.jobs.cores_now[victim]) - 1) for victim in victims)
    return float(view.nodes.unreserved_cores[node]) + freed + ROUNDING >= servers * wanted


def parts(view: "View", job: int) -> list[int]:
    """Return the number of GPUs that a job takes on each of its nodes."""
    wanted = int(view.jobs.num_gpus[job])
    largest = int(view.nodes.num_gpus[view.can_hold(job)].max())
    whole, rest = divmod(wanted, largest)
    return [largest] * whole + [rest] * (rest > 0)


def ledger(view: "View", candidates: np.ndarray) -> Ledger:
    """Return, by node, the free GPUs, and those that each of the candidates holds."""
    free: dict[int, list[int]] = defaultdict(list)
    held: dict[int, dict[int, list[int]]] = defaultdict(dict)
    is_free = (view.gpus.first_owner < 0) & (view.gpus.reserved_for == NOBODY)
    obtainable = np.isin(view.gpus.first_owner, candidates) & (view.gpus.reserved_for != CLOSED)
    gpus = np.flatnonzero(is_free | obtainable)
    for gpu, node, job in zip(
        gpus.tolist(), view.gpus.node[gpus].tolist(), view.gpus.first_owner[gpus].tolist(), strict=True
    ):
        if job < 0:
            free[node].append(gpu)
        else:
            held[node].setdefault(job, []).append(gpu)
    return free, held


def cheapest(
    wanted: int, offers: list[tuple[int, int]], cost: np.ndarray, remaining_s: np.ndarray
) -> Offer | None:
    """Return the cheapest of all sets of offers (job, GPUs it would free) that free enough GPUs.

    Knapsack: `best[k]` frees k GPUs, the last at least as many as needed. Of equals the later job is paused.
    """
    best: list[Offer | None] = [Offer()] + [None] * max(wanted, 0)
    for job, gpus in sorted(offers, reverse=True):
        for freed in range(len(best) - 2, -1, -1):
            if (before := best[freed]) is None:
                continue
            total = min(freed + gpus, wanted)
            more = Offer(
                before.cost + float(cost[job]),
                before.size + 1,
                before.minus_remaining_s - float(remaining_s[job]),
                (*before.jobs, job),
            )
            held = best[total]
            if held is None or more[:3] < held[:3]:
                best[total] = more
    return best[-1]
