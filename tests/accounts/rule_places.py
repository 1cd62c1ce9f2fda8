"""The choices of `union`: where a job starts, and which moves to GPUs that no other needs.

Time on GPUs has a price, seconds that others wait for each second of a GPU, which grows with the queue: a job is given
as many workers as make its own time and what it costs others least. All times are estimates.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.vocabulary import SERVER_CORES
from tests.accounts.rule_across import first_node, second_node
from tests.accounts.rule_seats import Offer, Seats
from tests.accounts.rule_shapes import ROUNDING, Paces, Way, Ways

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


class Options(NamedTuple):
    """The shapes that a job can have, and the places, each so many GPUs, among which its own must be."""

    ways: Ways
    places: list[np.ndarray]


class Move(NamedTuple):
    """A running job, the GPUs to which it is worth moving, and its servers there."""

    job: int
    gpus: tuple[int, ...]
    servers: int


def best_offer(
    view: "View", seats: Seats, job: int, options: Options, *, price: float, divides: bool
) -> Offer | None:
    """Return the seats with the least cost to a job and to others, None if there are none good enough.

    options: of the job. divides: whether cores are divided: then only a job with servers must find what it asks for.
    """
    crowd = seats.crowding(job, view.can_hold(job))
    if np.isinf(crowd).all():
        return None
    rule = seats.rule
    best, least = None, (np.inf, 0, 0)
    left_s = max(float(seats.left_s[job]), 1.0)
    needs_cores = view.cpu_limited and (not divides or view.jobs.servers[job] > 0)
    for place, gpus in enumerate(options.places):
        ranked = gpus[np.argsort(crowd[gpus], kind="stable")]
        slow, free = crowd[ranked].tolist(), int(seats.empty[ranked].sum())
        for way in options.ways:
            workers, servers, pace = way
            if workers > len(slow) or pace * slow[workers - 1] > rule.most_slow:
                continue
            if needs_cores and not finds_cores(view, seats, ranked[:workers], cores_each(view, job, way)):
                continue
            owned = int(seats.empty[ranked[:workers]].sum())
            offer = Offer(tuple(ranked[:workers].tolist()), servers, slow[workers - 1], owned)
            cost = pace * offer.slowdown * (1 + price * (owned + rule.shared_price * (workers - owned)))
            if owned < workers and cost <= least[0]:
                cost += rule.harm * seats.harm_s(job, offer) / left_s
            if (cost, free, place) < least:
                best, least = offer, (cost, free, place)
    return best


def worth_moving(
    view: "View", seats: Seats, options_of: dict[int, Options], paces: Paces, *, price: float
) -> Move | None:
    """Return the running job that gains most by having free GPUs, with its own or instead of them; None if none does.

    It must win `growth` times what its restart takes. The jobs that it leaves behind win too.
    """
    best, most = None, 0.0
    if not seats.empty.any() and not seats.rule.spanning:
        return best
    for job, options in options_of.items():
        gpus_now, remaining_s = len(seats.gpus[job]), seats.remaining_s[job]
        slowed = seats.pace[job], seats.crowd[job], seats.type_now[job]
        now_s = seats.left_s[job] + remaining_s * slowed[0] * slowed[1] * slowed[2] * price * gpus_now
        restart_s = seats.rule.growth * (view.jobs.pause_s[job] + view.jobs.load_s[job])
        won_s = seats.rule.relief * seats.relief_s(job)
        shape_now = set(seats.gpus[job]), int(seats.servers[job])
        found = [free_for(view, seats, job, gpus) for gpus in options.places]
        for way in options.ways:
            for free in found if way.workers >= gpus_now else []:
                chosen = its_place(free, way, *shape_now)
                if not len(chosen) or not can_serve(view, seats, job, chosen, way):
                    continue
                by_type = seats.slow[job, seats.node[chosen]].max()
                there_s = remaining_s * way.pace * by_type * (1 + price * way.workers)
                if now_s - there_s - restart_s + won_s > most:
                    most = now_s - there_s - restart_s + won_s
                    best = Move(job, tuple(chosen.tolist()), way.servers)
        span = other_span(view, seats, job, paces)
        if span:
            won_s = now_s - restart_s - remaining_s * span.pace * (1 + price * len(span.gpus))
            if won_s > most:
                best, most = Move(job, span.gpus, int(view.jobs.servers[job])), won_s
    return best


class Span(NamedTuple):
    """GPUs on two nodes, or on one again, and the pace there."""

    gpus: tuple[int, ...]
    pace: float


def other_span(view: "View", seats: Seats, job: int, paces: Paces) -> Span | None:
    """Return what a job that may span nodes and is alone could have, once no job waits: a second node, or one again."""
    waits = (view.jobs.num_gpus[view.queue] > 0).any()
    if waits or not seats.may_span[job] or (seats.num_jobs[seats.gpus[job]] > 1).any():
        return None
    gpus = first_node(seats, job) if seats.is_across[job] else second_node(view, seats, job)
    if not gpus:
        return None
    pace = paces.of(view, job, len(gpus), int(view.jobs.servers[job]))
    return Span(tuple(gpus), pace if seats.is_across[job] else pace * seats.across.slow(job))


def free_for(view: "View", seats: Seats, job: int, gpus: np.ndarray) -> np.ndarray:
    """Return those of these GPUs that a running job could have to itself: its own, if alone, then empty ones."""
    able = gpus[view.can_hold(job)[seats.node[gpus]]]
    its = np.zeros(len(seats.node), bool)
    its[seats.gpus[job]] = True
    return np.concatenate([able[its[able] & (seats.num_jobs[able] == 1)], able[seats.empty[able]]])


def its_place(free: np.ndarray, way: Way, gpus_now: set[int], servers_now: int) -> np.ndarray:
    """Return the first of the GPUs that a job could have; none if too few, or if it has that shape there already."""
    chosen = free[: way.workers]
    is_same = way.servers == servers_now and set(chosen.tolist()) == gpus_now
    return chosen if len(chosen) == way.workers and not is_same else chosen[:0]


def can_serve(view: "View", seats: Seats, job: int, gpus: np.ndarray, way: Way) -> bool:
    """Tell whether there are the cores that a running job would ask for on these GPUs, its own cores among them."""
    if not way.servers or not view.cpu_limited:
        return True
    its, each = np.array(seats.gpus[job]), cores_each(view, job, way)
    for node in np.unique(seats.node[gpus]).tolist():
        own = int((seats.node[its] == node).sum())
        here = gpus[seats.node[gpus] == node]
        there = (
            seats.unreserved_cores[node]
            + own * float(view.jobs.cores_now[job])
            + int(seats.empty[here].sum())
        )
        there -= own - int(np.isin(here, its).sum())
        if there + ROUNDING < each * len(here):
            return False
    return True


def cores_each(view: "View", job: int, way: Way) -> float:
    """Return the cores that a job asks for on each GPU in a shape."""
    asked, servers = int(view.jobs.num_gpus[job]), int(view.jobs.servers[job])
    own = float(view.jobs.cores_each[job])
    if (way.workers, way.servers) == (asked, servers):
        return own
    return own - SERVER_CORES * servers / asked + SERVER_CORES * way.servers / way.workers


def finds_cores(view: "View", seats: Seats, gpus: np.ndarray, each: float) -> bool:
    """Tell whether the nodes of these GPUs have so many cores for each; one is kept for each that is free."""
    if each <= 1:
        return True
    for node in np.unique(seats.node[gpus]).tolist():
        here = gpus[seats.node[gpus] == node]
        there = seats.unreserved_cores[node] + int(seats.empty[here].sum())
        if there + ROUNDING < each * len(here):
            return False
    return True
