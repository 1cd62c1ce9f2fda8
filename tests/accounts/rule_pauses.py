"""Which jobs `union` pauses for another, and which it lets run on slow GPUs meanwhile."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.policy import Placement, Start
from tests.accounts.room_by_hand import alone, cheapest, make_room
from tests.accounts.rule_places import Options
from tests.accounts.rule_seats import Offer, Seats

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


class Swap(NamedTuple):
    """Jobs to pause, and what another finds in their place."""

    victims: list[int]
    offer: Offer


class Openings(NamedTuple):
    """How slow a job would be on each GPU, when it has a seat there, whom to pause for one, and how slow it is then."""

    crowd: np.ndarray
    opens_s: np.ndarray
    evicted: np.ndarray
    after: np.ndarray


def worthwhile(
    view: "View", seats: Seats, job: int, options: Options, *, price: float, ends_s: float, least: float = 0.0
) -> Swap | None:
    """Return the jobs to pause for one that has no share slot, if that pays; the rule is Xion's (`baselines.xion`).

    What the job gains, by starting after the pause and not when another ends, must exceed `caution` times what others
    lose: each victim until the job has ended, and its load; all that wait, the overhead. A running job gains over going
    on where it is. Where others wait too, it waits by `backlog` for as long as its victims would hold their GPUs.
    ends_s: when it ends if it waits; infinite if that is to be found here. least: seconds that must be won.
    """
    runs, able = job in seats.gpus, may_give_way(view, seats, job, float(seats.anew_s[job]))
    if not len(able):
        return None
    crowd = seats.crowding(job, view.can_hold(job))
    found = Openings(crowd, *seats.openings(job, crowd, set(able.tolist()), view.can_hold(job)))
    wait_s, counted = ends_s - float(seats.left_s[job]), 0.0 if runs else hold_counted(seats)
    if runs:
        ends_s = float(seats.left_s[job])
    elif np.isinf(ends_s):
        ends_s, wait_s = unaided(seats, job, options, found, price)
    best, most = None, least
    for way in options.ways:
        for gpus in options.places:
            free = gpus[np.isfinite(crowd[gpus])]
            alone_s = way.pace * float(seats.anew_s[job])
            victims, held_s = victims_on(view, seats, gpus, found, way.workers - len(free), alone_s)
            if way.workers > len(gpus) or not victims:
                continue
            chosen = [*free.tolist(), *gpus[np.isin(found.evicted[gpus], victims)].tolist()][: way.workers]
            slow = float(np.where(np.isfinite(crowd[chosen]), crowd[chosen], found.after[chosen]).max())
            pause_s = max(view.jobs.pause_s[[*victims, *([job] if runs else [])]].tolist())
            mine_s = pause_s + way.pace * slow * float(seats.anew_s[job])
            gain = ends_s - mine_s - seats.rule.caution * loss_s(view, seats, victims, mine_s)
            gain += counted * (held_s - wait_s) if counted and held_s > wait_s else 0.0
            if gain > most:
                best, most = Swap(victims, Offer(tuple(chosen), way.servers, slow, 0)), gain
    return best


def worthwhile_beyond(view: "View", seats: Seats, job: int) -> tuple[float, Swap | None]:
    """Return what is won by pauses for one larger than any node, by what the others would hold, and who is paused."""
    counted, left_s = hold_counted(seats), seats.left_s
    able = alone(view, may_give_way(view, seats, job, float(left_s[job])))
    if not counted or not len(able):
        return 0.0, None
    width, cost = view.jobs.gpus_now, np.zeros(len(left_s))
    for victim in able.tolist():
        share = min(width[victim] / view.jobs.num_gpus[job], 1)
        cost[victim] = cost_of_pause(view, seats, victim, float(left_s[job]), share)
    room = make_room(view, job, able, cost, left_s)
    if room is None or not room.victims:
        return 0.0, None
    victims = room.victims
    held_s = sum((left_s[victims] * width[victims]).tolist()) / sum(width[victims].tolist())
    pause_s = view.jobs.pause_s[victims].max()
    lost_s = loss_s(view, seats, victims, pause_s + left_s[job])
    gain = float(counted * held_s - pause_s - seats.rule.caution * lost_s)
    offer = Offer(room.gpus, int(view.jobs.servers[job]), 1.0, 0)
    return (gain, Swap(victims, offer)) if gain > 0 else (0.0, None)


def may_give_way(view: "View", seats: Seats, job: int, mine_s: float) -> np.ndarray:
    """Return the running jobs that may be paused for another: they have longer to go, and have run for a while."""
    running = view.preemptible
    longer = (seats.left_s[running] > mine_s) & (running != job)
    settled = seats.now - view.jobs.phase_began_s[running] >= seats.rule.settled
    able: np.ndarray = running[(view.jobs.num_gpus[running] > 0) & longer & settled]
    return able


def unaided(seats: Seats, job: int, options: Options, found: Openings, price: float) -> tuple[float, float]:
    """Return the seconds until a job would end, and begin, that starts in its cheapest shape when others end."""
    way = min(options.ways, key=lambda way: way.pace * (1 + price * way.workers))
    ends_s, begins_s = np.inf, np.inf
    for gpus in options.places:
        if len(gpus) >= way.workers:
            opens_s = np.sort(found.opens_s[gpus])[way.workers - 1]
            slow = max(seats.slow[job, seats.node[gpus]].max(), 1.0)
            ends_s = min(ends_s, opens_s + way.pace * slow * seats.left_s[job])
            begins_s = min(begins_s, opens_s)
    return float(ends_s), float(begins_s)


def victims_on(
    view: "View", seats: Seats, gpus: np.ndarray, found: Openings, wanted: int, alone_s: float
) -> tuple[list[int], float]:
    """Return the cheapest jobs by whose pauses so many of these GPUs come free, and how long they would hold them.

    None if there are not so many. alone_s: what the job takes for which they are paused.
    """
    cost = seats.pause_area.copy()
    evicted = found.evicted[gpus]
    offers = {int(job): int((evicted == job).sum()) for job in np.unique(evicted) if job >= 0}
    for victim, freed in offers.items() if hold_counted(seats) else ():
        cost[victim] = cost_of_pause(view, seats, victim, alone_s, min(freed, wanted) / max(wanted, 1))
    room = cheapest(wanted, list(offers.items()), cost, seats.left_s)
    if room is None or not room.jobs:
        return [], 0.0
    frees = [offers[victim] for victim in room.jobs]
    held = sum(seats.left_s[victim] * freed for victim, freed in zip(room.jobs, frees, strict=True))
    return list(room.jobs), float(held / sum(frees))


def cost_of_pause(view: "View", seats: Seats, victim: int, mine_s: float, share: float) -> float:
    """Return what a victim loses, less what its hold counts of the wait of a job of whose GPUs it frees a share."""
    area = seats.pause_area[victim]
    lost_s = mine_s + view.jobs.load_s[victim] + (seats.waiting - 1) * area / len(seats.node)
    return float(seats.rule.caution * lost_s - hold_counted(seats) * share * seats.left_s[victim])


def hold_counted(seats: Seats) -> float:
    """Return how far a job is taken to wait for as long as its victims would hold their GPUs."""
    return seats.rule.backlog * (1 - 1 / seats.waiting)


def loss_s(view: "View", seats: Seats, victims: list[int], mine_s: float) -> float:
    """Return what others lose where a job takes the place of victims until `mine_s` from now."""
    area = seats.pause_area[victims]
    delay_s = (seats.waiting - 1) * sum(area.tolist()) / len(seats.node)
    return float(sum((mine_s + view.jobs.load_s[victims]).tolist()) + delay_s)


def waits_s(view: "View", seats: Seats, job: int, ahead: int) -> float:
    """Return in how many seconds so many GPUs that are not too slow for a job are free, or as many as there are."""
    able = view.can_hold(job)[seats.node] & (seats.slow[job, seats.node] <= seats.rule.most_slow)
    frees_s = np.sort(seats.frees_s[able])
    return float(frees_s[min(ahead, len(frees_s)) - 1]) if len(frees_s) else np.inf


def later_end_s(view: "View", seats: Seats, job: int, ahead: int) -> float:
    """Return when a queued job ends that waits for fast GPUs; -1 where no slow ones would end it sooner."""
    if job in seats.gpus:
        return -1.0
    ends_s = waits_s(view, seats, job, ahead) + float(seats.left_s[job])
    slow = seats.slow[job][view.can_hold(job)]
    return ends_s if (slow[slow > 1] * seats.left_s[job] <= ends_s).any() else -1.0


def slow_offer(view: "View", seats: Seats, job: int, places: list[np.ndarray], ahead: int) -> Offer | None:
    """Return empty GPUs on which a job, as asked, had better run until those before it leave it fast ones."""
    crowd, left_s = seats.crowding(job, view.can_hold(job)), float(seats.left_s[job])
    wait_s, wanted = waits_s(view, seats, job, ahead), int(view.jobs.num_gpus[job])
    restart_s = seats.rule.growth * float(view.jobs.pause_s[job] + view.jobs.load_s[job])
    best, least = None, wait_s + left_s
    for gpus in places:
        chosen = gpus[seats.empty[gpus] & np.isfinite(crowd[gpus])][:wanted]
        if len(chosen) < wanted:
            continue
        slow = float(seats.slow[job, seats.node[chosen]].max())
        ends_s = min(left_s * slow, wait_s + left_s - wait_s / slow + restart_s)
        if ends_s < least:
            best, least = Offer(tuple(chosen.tolist()), int(view.jobs.servers[job]), slow, wanted), ends_s
    is_legal = best and view.why_not(Start(job, Placement(best.gpus))) is None
    return best if is_legal else None
