"""The choices of `union`: where a job starts, which to pause for it, and which moves to GPUs that no other needs.

Time on GPUs has a price, seconds that others wait for each second of a GPU, which grows with the queue: a job is given
as many workers as make its own time and what it costs others least. All times are estimates.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.accounts.room_by_hand import alone, cheapest, make_room
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
    lose: each victim until the job has ended, and its load; all that wait, the overhead. Where others wait, it waits
    by `backlog` for as long as its victims would hold their GPUs.
    """
    able = may_give_way(view, seats, job)
    if not len(able):
        return None
    crowd = seats.crowding(job, view.can_hold(job))
    opens_s, evicted, after = seats.openings(job, crowd, set(able.tolist()), view.can_hold(job))
    pause_s, load_s, width = view.jobs.pause_s, view.jobs.load_s, view.jobs.gpus_now
    area = (pause_s + load_s) * width
    wanted, pace = min(ways, key=lambda way: way[1] * (1 + price * way[0]))
    waits = [np.sort(opens_s[gpus])[wanted - 1] for gpus in seats.nodes if len(gpus) >= wanted]
    wait_s = min(waits, default=np.inf)
    ends_s = wait_s + pace * seats.left_s[job]
    counted = seats.rule.backlog * (1 - 1 / waiting)
    best, most = None, 0.0
    for workers, pace in ways:
        for gpus in seats.nodes:
            free = gpus[np.isfinite(crowd[gpus])].tolist()
            offers = [(int(v), int((evicted[gpus] == v).sum())) for v in np.unique(evicted[gpus]) if v >= 0]
            missing = workers - len(free)
            cost = area.copy()
            for victim, freed in offers if counted else ():
                share = min(freed, missing) / max(missing, 1)
                cost[victim] = cost_of_pause(view, seats, victim, waiting, pace * seats.left_s[job], share)
            found = cheapest(missing, offers, cost, seats.left_s)
            if workers > len(gpus) or found is None or not found.jobs:
                continue
            victims = list(found.jobs)
            chosen = [*free, *gpus[np.isin(evicted[gpus], victims)].tolist()][:workers]
            slow = float(np.where(np.isfinite(crowd[chosen]), crowd[chosen], after[chosen]).max())
            mine_s = pause_s[victims].max() + pace * slow * seats.left_s[job]
            delay_s = (waiting - 1) * sum(area[victims].tolist()) / len(crowd)
            loss_s = sum((mine_s + load_s[victims]).tolist()) + delay_s
            frees = np.array([dict(offers)[victim] for victim in victims])
            held_s = sum((seats.left_s[victims] * frees).tolist()) / frees.sum()
            gain = ends_s - mine_s - seats.rule.caution * loss_s
            gain += counted * (held_s - wait_s) if counted and held_s > wait_s else 0.0
            if gain > most:
                most, best = gain, Swap(victims, Offer(tuple(chosen), slow, 0))
    return best


def may_give_way(view: "View", seats: Seats, job: int) -> np.ndarray:
    """Return the running jobs that may be paused for another: they have longer to go, and have run for a while."""
    running = view.preemptible
    longer = seats.left_s[running] > seats.left_s[job]
    settled = seats.now - view.jobs.phase_began_s[running] >= seats.rule.settled
    able: np.ndarray = running[(view.jobs.num_gpus[running] > 0) & longer & settled]
    return able


def cost_of_pause(
    view: "View", seats: Seats, victim: int, waiting: int, mine_s: float, share: float
) -> float:
    """Return what a victim loses, less what its hold counts of the wait of a job of whose GPUs it frees a share."""
    restart_s = view.jobs.pause_s[victim] + view.jobs.load_s[victim]
    area = restart_s * view.jobs.gpus_now[victim]
    lost_s = mine_s + view.jobs.load_s[victim] + (waiting - 1) * area / len(seats.node)
    counted = seats.rule.backlog * (1 - 1 / waiting)
    return float(seats.rule.caution * lost_s - counted * share * seats.left_s[victim])


def worthwhile_beyond(view: "View", seats: Seats, job: int, waiting: int) -> Swap | None:
    """Return the jobs to pause for one larger than any node, if that pays by what they would hold."""
    counted, left_s = seats.rule.backlog * (1 - 1 / waiting), seats.left_s
    able = alone(view, may_give_way(view, seats, job))
    if not counted or not len(able):
        return None
    width, cost = view.jobs.gpus_now, np.zeros(len(left_s))
    for victim in able.tolist():
        share = min(width[victim] / view.jobs.num_gpus[job], 1)
        cost[victim] = cost_of_pause(view, seats, victim, waiting, left_s[job], share)
    room = make_room(view, job, able, cost, left_s)
    if room is None or not room.victims:
        return None
    victims = room.victims
    held_s = sum((left_s[victims] * width[victims]).tolist()) / sum(width[victims].tolist())
    pause_s, area = view.jobs.pause_s[victims].max(), (view.jobs.pause_s + view.jobs.load_s) * width
    loss_s = sum((pause_s + left_s[job] + view.jobs.load_s[victims]).tolist())
    loss_s += (waiting - 1) * sum(area[victims].tolist()) / len(seats.node)
    pays = counted * held_s - pause_s > seats.rule.caution * loss_s
    return Swap(victims, Offer(room.gpus, 1.0, 0)) if pays else None


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
