"""Share GPUs, preempt, size jobs and divide CPU cores, all at once: the strongest policy made by hand.

Claims nothing of its own: it puts together what the papers do one by one, where all of it counts (`docs/mixed.md`).

- Sharing, as Xonar and Lucid: a job runs beside those with which it loses least by profiled duty, and they least by it,
  never beyond the profiled memory; GPUs of its own are better where the queue is short.
- Preemption, by Xion's derived rule: the first in order of remaining time may take the place of a running job, or of
  several, if its gain exceeds `caution` times the loss of these and of all that wait.
- Sizing, as AITurbo and Optimus by speeds fitted to profiles: a job starts with as many workers as cost it and those
  that wait least; once no job waits, the one that gains most by more GPUs, or by GPUs of its own, restarts there.
- Cores, as CODA: what each job needs is found by trying, whatever it asks for, and others give up what they do not
  need; CPU jobs keep what they ask for, and are throttled only where a node's memory is too slow.

It takes jobs that share a GPU to slow each other by what they demand beyond it (`--contention-form excess`), with the
figures of `mixed`; where they take turns it shares too much.

Our choice: how they fit together, and the price of a GPU (`lib.union_places`). Left out: servers and workers on CPUs,
types of GPUs. The defaults were found on training windows of `mixed`; how, `docs/mixed.md` says.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from baselines.lib.order import start_first
from baselines.lib.throttling import throttling
from baselines.lib.union_cores import Feeder
from baselines.lib.union_places import SETTLED_S, best_offer, worth_moving, worthwhile
from baselines.lib.union_seats import Offer, Paces, Seats
from simulator.policy import Action, Placement, Preempt, Resize, Start, Wait
from simulator.vocabulary import PAUSING, QUEUED

if TYPE_CHECKING:
    from baselines.lib.arrays import Holders
    from simulator.view import View

WINDOW_S = 60.0  # of CODA's tuner


@dataclass
class Union:
    """One episode of the policy; the first four switch its levers off.

    exponent: of a job's GPUs, by which its remaining time is multiplied in the order. price: of GPU time, for each that
    waits and `expected` that will. most_busy: sum of duties on a shared GPU. most_slow: times its time as asked with
    which a job may start. caution, growth: see `lib.union_places`.
    """

    sharing: bool = True
    preemption: bool = True
    sizing: bool = True
    cores: bool = True
    exponent: float = 0.5
    price: float = 4.0
    expected: float = 1.0
    most_busy: float = 2.0
    most_slow: float = 3.0
    caution: float = 0.25
    growth: float = 1.0

    def __post_init__(self) -> None:
        self._instant = -1
        self._moves: list[Action] = []
        self._paces, self._feeder = Paces(), Feeder()
        self._kept: dict[int, Offer] = {}  # seats that are being freed, by the job they are for

    def __call__(self, view: "View") -> Action:
        """Start what fits, displace jobs where it pays, move jobs that can grow, divide the cores, then wait."""
        if self._instant != view.instant:
            self._instant, self._moves, self._is_fed = view.instant, [], False
            self._hopeless: set[int] = set()
            self._feeds = self.cores and view.cpu_limited
        while moves := self._moves or self._next(view):
            self._moves = moves[1:]
            if view.why_not(moves[0]) is None:
                return moves[0]
            self._moves = []
            if not isinstance(moves[0], Start) or moves[0].job in self._hopeless:
                break
            self._hopeless.add(moves[0].job)
        of_use = self._feeds and self._feeder.tuner.begin(view)
        throttled = self._feeds and bool((view.jobs.throttle[view.running] < 1).any())
        return Wait(WINDOW_S) if of_use or throttled else Wait()

    def _next(self, view: "View") -> list[Action]:
        if self._feeds:
            self._feeder.tuner.watch(view)
        self._kept = {job: offer for job, offer in self._kept.items() if view.jobs.phase[job] == QUEUED}
        kept = {gpu for offer in self._kept.values() for gpu in offer.gpus}
        seats = Seats(view, self._paces, kept, self.most_busy * self.sharing)
        held = self._feeder.holders(view) if self._feeds else None
        queue = view.queue
        on_cpu = view.jobs.num_gpus[queue] == 0
        jobs = queue[~on_cpu]
        order = jobs[
            np.argsort(seats.left_s[jobs] * view.jobs.num_gpus[jobs] ** self.exponent, kind="stable")
        ]
        self._price = self.price * (max(len(order) - 1, 0) + self.expected) / len(view.gpus.first_owner)
        return (
            self._start_cpu_job(view, held, queue[on_cpu])
            or self._start(view, seats, held, order.tolist())
            or self._displace(view, seats, order.tolist())
            or self._move(view, seats, len(order))
            or self._feed(view, held)
            or self._anything(view, order.tolist())
        )

    def _start_cpu_job(self, view: "View", held: "Holders | None", jobs: np.ndarray) -> list[Action]:
        if held:
            return self._feeder.start_cpu_job(view, held, jobs)
        start = start_first(view, jobs.tolist())
        return [start] if start else []

    def _start(self, view: "View", seats: Seats, held: "Holders | None", order: list[int]) -> list[Action]:
        """Start the job that has waited for its place to be freed, else the first in order that finds one."""
        for job, kept in list(self._kept.items()):
            here = seats.here[list(kept.gpus)]
            if not ((here >= 0) & (view.jobs.phase[here] == PAUSING)).any():
                del self._kept[job]
                if seats.can_take(job, list(kept.gpus), view.max_share):
                    return self._sit(view, seats, held, job, kept.gpus)
        for job in order:
            if job in self._kept or job in self._hopeless or view.just_paused(job):
                continue
            as_asked = view.cpu_limited and (not self._feeds or view.jobs.servers[job] > 0)
            cores = float(view.jobs.cores_each[job]) if as_asked else 1.0
            limits = {"price": self._price, "most_slow": self.most_slow, "cores": cores}
            if offer := best_offer(
                view, seats, job, self._paces.ways(view, job, sizing=self.sizing), **limits
            ):
                return self._sit(view, seats, held, job, offer.gpus)
            beyond_a_node = view.jobs.num_gpus[job] > max(view.nodes.num_gpus[view.can_hold(job)], default=0)
            if beyond_a_node and not self._kept and (placement := view.place(job)):
                return [Start(job, placement)]
            self._hopeless.add(job)
        return []

    def _sit(
        self, view: "View", seats: Seats, held: "Holders | None", job: int, gpus: tuple[int, ...]
    ) -> list[Action]:
        """Return the start of a job, after what others must give up so that each of its workers has a core."""
        self._is_fed = False
        lacking = seats.cores_lacking(gpus)
        moves = self._feeder.shrink(view, held, lacking) if held and lacking.any() else []
        return [*moves, Start(job, self._placement(view, job, gpus))]

    def _placement(self, view: "View", job: int, gpus: tuple[int, ...]) -> Placement:
        return Placement(gpus, 1.0 if self._feeds and not view.jobs.servers[job] else None)

    def _displace(self, view: "View", seats: Seats, order: list[int]) -> list[Action]:
        """Pause those whose seats the first in order had better have, one job at a time."""
        if not self.preemption or self._kept or not order or view.just_paused(order[0]):
            return []
        ways = self._paces.ways(view, order[0], sizing=self.sizing)
        weights = {"price": self._price, "caution": self.caution}
        swap = worthwhile(view, seats, order[0], ways, waiting=len(order), **weights)
        if not swap:
            return []
        self._kept[order[0]] = swap.offer
        return list(map(Preempt, swap.victims))

    def _move(self, view: "View", seats: Seats, waiting: int) -> list[Action]:
        """Give free GPUs for which no job waits to the job that gains most by them."""
        if not self.sizing or waiting:
            return []
        jobs = view.preemptible
        jobs = jobs[(view.jobs.num_gpus[jobs] > 0) & (view.now - view.jobs.phase_began_s[jobs] >= SETTLED_S)]
        ways = {job: self._paces.ways(view, job, sizing=self.sizing) for job in jobs.tolist()}
        move = worth_moving(view, seats, ways, price=self._price, growth=self.growth)
        return [Resize(move.job, placement=self._placement(view, *move))] if move else []

    def _feed(self, view: "View", held: "Holders | None") -> list[Action]:
        """Divide the cores, once after each change, and throttle."""
        if not held or self._is_fed:
            return []
        self._is_fed = True
        if moves := self._feeder.moves(view, held):
            return moves
        throttle = throttling(view)
        self._is_fed = throttle is None
        return [throttle] if throttle else []

    def _anything(self, view: "View", order: list[int]) -> list[Action]:
        """Start the first that the scenario's rule finds a place for, where nothing would happen otherwise."""
        start = start_first(view, order) if view.nothing_pending else None
        return [start] if start else []


policy = Union
GRID = {
    "price": (1.0, 2.0, 4.0, 8.0),
    "caution": (0.0, 0.25, 0.5, 1.0),
    "growth": (1.0, 2.0, 4.0),
    "most_slow": (2.0, 3.0, 5.0),
}
