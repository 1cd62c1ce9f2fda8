"""The choices of `union`: where a job starts, which to pause for it, and which moves to GPUs that no other needs.

Time on GPUs has a price, seconds that others wait for each second of a GPU, which grows with the queue: a job is given
as many workers as make its own time and what it costs others least. All times are estimates.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.accounts.room_by_hand import cheapest
from tests.accounts.rule_seats import Offer, Seats, Ways

if TYPE_CHECKING:
    from simulator.view import View

ROUNDING = 1e-6


class Swap(NamedTuple):
    """Jobs to pause, and what another finds in their place."""

    victims: list[int]
    offer: Offer


class Move(NamedTuple):
    """A running job and the GPUs to which it is worth moving."""

    job: int
    gpus: tuple[int, ...]


def best_offer(
    view: "View", seats: Seats, job: int, ways: Ways, *, price: float, cores: float
) -> Offer | None:
    """Return the seats with the least cost to a job and to others, None if there are none good enough.

    cores: those it must find for each worker, if more than one.
    """
    crowd = seats.crowding(job, view.can_hold(job))
    if np.isinf(crowd).all():
        return None
    rule = seats.rule
    best, least = None, (np.inf, 0, 0)
    left_s = max(float(seats.left_s[job]), 1.0)
    for node, gpus in enumerate(seats.nodes):
        ranked = gpus[np.argsort(crowd[gpus], kind="stable")]
        slow, free = crowd[ranked].tolist(), int(seats.empty[ranked].sum())
        for workers, pace in ways:
            if workers > len(slow) or pace * slow[workers - 1] > rule.most_slow:
                continue
            owned = min(workers, free)
            if cores > 1 and seats.unreserved_cores[node] + owned + ROUNDING < cores * workers:
                continue
            offer = Offer(tuple(ranked[:workers].tolist()), slow[workers - 1], owned)
            cost = pace * offer.slowdown * (1 + price * (owned + rule.shared_price * (workers - owned)))
            if owned < workers and cost <= least[0]:
                cost += rule.harm * seats.harm_s(job, offer) / left_s
            if (cost, free, node) < least:
                best, least = offer, (cost, free, node)
    return best


def worthwhile(view: "View", seats: Seats, job: int, ways: Ways, price: float, waiting: int) -> Swap | None:
    """Return the jobs to pause for one that has no share slot, if that pays; the rule is Xion's (`baselines.xion`).

    What the job gains, by starting after the pause and not when another ends, must exceed `caution` times what others
    lose: each victim until the job has ended, and its load; all that wait, the overhead.
    """
    running = view.preemptible
    longer = seats.left_s[running] > seats.left_s[job]
    settled = seats.now - view.jobs.phase_began_s[running] >= seats.rule.settled
    able = running[(view.jobs.num_gpus[running] > 0) & longer & settled]
    if not len(able):
        return None
    crowd = seats.crowding(job, view.can_hold(job))
    opens_s, evicted, after = seats.openings(job, crowd, set(able.tolist()), view.can_hold(job))
    pause_s, load_s, width = view.jobs.pause_s, view.jobs.load_s, view.jobs.gpus_now
    area = (pause_s + load_s) * width
    wanted, pace = min(ways, key=lambda way: way[1] * (1 + price * way[0]))
    waits = [np.sort(opens_s[gpus])[wanted - 1] for gpus in seats.nodes if len(gpus) >= wanted]
    ends_s = min(waits, default=np.inf) + pace * seats.left_s[job]
    best, most = None, 0.0
    for workers, pace in ways:
        for gpus in seats.nodes:
            free = gpus[np.isfinite(crowd[gpus])].tolist()
            offers = [(int(v), int((evicted[gpus] == v).sum())) for v in np.unique(evicted[gpus]) if v >= 0]
            found = cheapest(workers - len(free), offers, area, seats.left_s)
            if workers > len(gpus) or found is None or not found.jobs:
                continue
            victims = list(found.jobs)
            chosen = [*free, *gpus[np.isin(evicted[gpus], victims)].tolist()][:workers]
            slow = float(np.where(np.isfinite(crowd[chosen]), crowd[chosen], after[chosen]).max())
            mine_s = pause_s[victims].max() + pace * slow * seats.left_s[job]
            delay_s = (waiting - 1) * sum(area[victims].tolist()) / len(crowd)
            loss_s = sum((mine_s + load_s[victims]).tolist()) + delay_s
            if ends_s - mine_s - seats.rule.caution * loss_s > most:
                most = ends_s - mine_s - seats.rule.caution * loss_s
                best = Swap(victims, Offer(tuple(chosen), slow, 0))
    return best


def worth_moving(view: "View", seats: Seats, ways_of: dict[int, Ways], *, price: float) -> Move | None:
    """Return the running job that gains most by having free GPUs, with its own or instead of them; None if none does.

    It must win `growth` times what its restart takes. The jobs that it leaves behind win too.
    """
    if not seats.empty.any():
        return None
    restart_s = seats.rule.growth * (view.jobs.pause_s + view.jobs.load_s)
    remaining_s = seats.remaining_s
    best, most = None, 0.0
    for job, ways in ways_of.items():
        its = seats.gpus[job]
        crowd, able = seats.crowd[job], view.can_hold(job)
        now_s = seats.left_s[job] + remaining_s[job] * pace_now(ways, len(its)) * crowd * price * len(its)
        won_s = seats.rule.relief * seats.relief_s(job)
        for workers, pace in ways:
            gain = now_s - remaining_s[job] * pace * (1 + price * workers) - restart_s[job] + won_s
            if workers < len(its) or gain <= most:
                continue
            for node, gpus in enumerate(seats.nodes):
                own = [gpu for gpu in its if seats.num_jobs[gpu] == 1 and seats.node[gpu] == node]
                chosen = [*own, *gpus[seats.empty[gpus]].tolist()][:workers]
                if len(chosen) == workers and able[node] and set(chosen) != set(its):
                    best, most = Move(job, tuple(chosen)), gain
                    break
    return best


def pace_now(ways: Ways, workers: int) -> float:
    """Return the pace of a job with so many workers, 1 if it is none of its ways."""
    return dict(ways).get(workers, 1.0)
