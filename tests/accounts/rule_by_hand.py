"""The rule over moves written down plainly, against which the compiled one is held, move by move."""

import math
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Resize, Start, Wait
from gpu_cluster_gym.simulator.rule import Rule
from gpu_cluster_gym.simulator.vocabulary import PAUSING, QUEUED, RUNNING
from tests.accounts.rule_across import Across
from tests.accounts.rule_cores import Feeder
from tests.accounts.rule_pauses import later_end_s, slow_offer, worthwhile, worthwhile_beyond
from tests.accounts.rule_places import Options, best_offer, worth_moving
from tests.accounts.rule_seats import Offer, Seats
from tests.accounts.rule_shapes import Paces
from tests.accounts.rule_types import Types
from tests.accounts.throttling import throttling

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View
    from tests.accounts.shares_of_cores import Holders

TRIED = 8  # jobs that could gain by pauses, at most
WINDOW_S = 60.0  # of CODA's tuner


class RuleByHand:
    """One episode of a rule."""

    def __init__(self, rule: Rule, *, learns: bool = False) -> None:
        """Know nothing yet. learns: whether there is a history that teaches what jobs need of cores."""
        self.rule = rule
        self._instant = -1
        self._moves: list[Action] = []
        self._paces, self._types, self._across = Paces(), Types(), Across(rule)
        self._feeder = Feeder(rule, self._paces, learns=learns)
        self._kept: dict[int, Offer] = {}  # seats that are being freed, by the job they are for

    def __call__(self, view: "View") -> Action:
        """Start what fits, displace jobs where it pays, move jobs that can grow, divide the cores, then wait."""
        if self._instant != view.instant:
            self._instant, self._moves, self._is_fed = view.instant, [], False
            self._hopeless: set[int] = set()
            self._feeds = bool(self.rule.cores) and view.cpu_limited
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
        waits = (QUEUED, RUNNING) if self._types.typed else (QUEUED,)
        self._kept = {job: offer for job, offer in self._kept.items() if view.jobs.phase[job] in waits}
        kept = {gpu for offer in self._kept.values() for gpu in offer.gpus}
        seats = Seats(view, self._paces, self._types, self._across, kept, self.rule)
        held = self._feeder.holders(view, seats) if self._feeds else None
        queue = view.queue
        on_cpu = view.jobs.num_gpus[queue] == 0
        jobs = queue[~on_cpu]
        order = sorted(jobs.tolist(), key=lambda job: self._key(view, seats, job))
        slow = self._on_slow(view, seats) if seats.typed else []
        standing = (
            sorted([*order, *slow], key=lambda job: (self._key(view, seats, job), job)) if slow else order
        )
        waiting = max(len(order) - 1, 0) + self.rule.expected
        self._price = self.rule.price * waiting / len(view.gpus.first_owner)
        return (
            self._start_cpu_job(view, held, queue[on_cpu])
            or self._start(view, seats, held, self._takers(view, seats, standing))
            or self._displace(view, seats, standing)
            or self._start_slow(view, seats, held, standing)
            or self._move(view, seats, len(order))
            or self._feed(view, held)
            or self._anything(view, order)
        )

    def _key(self, view: "View", seats: Seats, job: int) -> float:
        rule, gpus = self.rule, int(view.jobs.num_gpus[job])
        weight = rule.by_duty * float(view.jobs.gpu_utilization[job])
        weight += rule.by_memory * float(view.jobs.profiled_memory_gib[job]) / view.nodes.gpu_memory_gib.max()
        weight += rule.by_doubt * (1 - int(view.jobs.is_predictable[job]))
        weight += rule.by_age * math.log1p((view.now - view.jobs.submit_s[job]) / 3600)
        return float(seats.anew_s[job] * math.pow(gpus, rule.exponent) * math.exp(weight))

    def _options(self, view: "View", seats: Seats, job: int) -> Options:
        spreads = self._types.may_spread(view, job)
        ways = self._paces.ways(view, job, sizing=bool(self.rule.sizing), spreads=spreads)
        return Options(ways, seats.places if spreads else seats.nodes)

    def _start_cpu_job(self, view: "View", held: "Holders | None", jobs: np.ndarray) -> list[Action]:
        if held:
            return self._feeder.start_cpu_job(view, held, jobs)
        start = view.start_first(jobs)
        return [start] if start else []

    def _start(self, view: "View", seats: Seats, held: "Holders | None", order: list[int]) -> list[Action]:
        """Start the job that has waited for its place to be freed, else the first in order that finds one."""
        for job, kept in list(self._kept.items()):
            here = seats.here[list(kept.gpus)]
            if not ((here >= 0) & (view.jobs.phase[here] == PAUSING)).any():
                del self._kept[job]
                if seats.can_take(job, list(kept.gpus), view.max_share):
                    if job in seats.gpus:
                        return self._go_on(view, job, kept.gpus, kept.servers)
                    return self._sit(view, seats, held, job, kept)
        for job in order:
            if job in self._kept or job in self._hopeless or view.just_paused(job):
                continue
            options = self._options(view, seats, job)
            if job in seats.gpus:
                move = worth_moving(view, seats, {job: options}, self._paces, price=self._price)
                if move and seats.empty.any():
                    return self._go_on(view, *move)
                continue
            if offer := best_offer(view, seats, job, options, price=self._price, divides=self._feeds):
                return self._sit(view, seats, held, job, offer)
            if self._needs_several_nodes(view, job) and not self._kept and (placement := view.place(job)):
                return [Start(job, placement)]
            self._hopeless.add(job)
        return []

    def _sit(
        self, view: "View", seats: Seats, held: "Holders | None", job: int, offer: Offer
    ) -> list[Action]:
        """Return the start of a job, after what others must give up so that each of its workers has a core."""
        self._is_fed = False
        lacking = seats.cores_lacking(offer.gpus)
        moves = self._feeder.shrink(view, held, lacking) if held and lacking.any() else []
        return [*moves, Start(job, self._placement(view, job, offer.gpus, offer.servers))]

    def _go_on(self, view: "View", job: int, gpus: tuple[int, ...], servers: int) -> list[Action]:
        return [Resize(job, placement=self._placement(view, job, gpus, servers))]

    def _placement(self, view: "View", job: int, gpus: tuple[int, ...], servers: int) -> Placement:
        if servers != view.jobs.servers[job]:
            return Placement(gpus, servers=servers)
        return Placement(gpus, self.rule.new_cores if self._feeds and not servers else None)

    def _on_slow(self, view: "View", seats: Seats) -> list[int]:
        """Return the jobs that run on a slower type of GPU than could hold them, and may move."""
        return [job for job in self._settled(view).tolist() if seats.type_now[job] > 1]

    def _takers(self, view: "View", seats: Seats, standing: list[int]) -> list[int]:
        """Return those to whom free GPUs are offered in order: those that stand, and jobs that could use more."""
        if not self.rule.widening or not self.rule.sizing or not seats.empty.any():
            return standing
        keys = {job: (self._key(view, seats, job), job) for job in standing}
        for job in self._settled(view).tolist():
            narrow = view.jobs.gpus_now[job] < view.jobs.max_workers[job] or seats.crowd[job] > 1
            if narrow and job not in keys:
                keys[job] = self._key(view, seats, job) / self.rule.widening, job
        return sorted(keys, key=lambda job: keys[job]) if len(keys) > len(standing) else standing

    def _settled(self, view: "View") -> np.ndarray:
        jobs = view.preemptible
        settled = view.now - view.jobs.phase_began_s[jobs] >= self.rule.settled
        found: np.ndarray = jobs[(view.jobs.gpus_now[jobs] > 0) & settled]
        return found

    def _start_slow(
        self, view: "View", seats: Seats, held: "Holders | None", standing: list[int]
    ) -> list[Action]:
        """Start the first in order that had better run on slow GPUs until those before it leave it fast ones."""
        if not seats.typed or not seats.empty.any():
            return []
        ahead = 0
        for job in standing:
            ahead += int(view.jobs.num_gpus[job])
            if job in seats.gpus or job in self._kept or view.just_paused(job):
                continue
            places = self._options(view, seats, job).places
            if offer := slow_offer(view, seats, job, places, ahead):
                return self._sit(view, seats, held, job, offer)
        return []

    def _displace(self, view: "View", seats: Seats, standing: list[int]) -> list[Action]:
        """Pause those whose seats one of the first in order had better have; where types differ, one behind it too."""
        if not self.rule.preemption or self._kept:
            return []
        first = int(self.rule.contenders)
        ahead = tried = 0
        for place, job in enumerate(standing if seats.typed else standing[:first]):
            ahead += int(view.jobs.num_gpus[job])
            ends_s = later_end_s(view, seats, job, ahead) if seats.typed and place else np.inf
            if ends_s < 0 and place < self.rule.contenders and job not in seats.gpus:
                ends_s = np.inf
            if view.just_paused(job) or ends_s < 0 or tried >= max(TRIED, self.rule.contenders):
                continue
            tried += 1
            several, ways = self._needs_several_nodes(view, job), self._options(view, seats, job)
            least, wide = (
                worthwhile_beyond(view, seats, job) if several and job not in seats.gpus else (0.0, None)
            )
            narrow = worthwhile(view, seats, job, ways, price=self._price, ends_s=ends_s, least=least)
            if swap := narrow or wide:
                self._kept[job] = swap.offer
                return list(map(Preempt, swap.victims))
        return []

    def _needs_several_nodes(self, view: "View", job: int) -> bool:
        most = max(view.nodes.num_gpus[view.can_hold(job)], default=0)
        return bool(view.jobs.num_gpus[job] > most) and not self._types.may_spread(view, job)

    def _move(self, view: "View", seats: Seats, waiting: int) -> list[Action]:
        """Give free GPUs for which no job waits to the job that gains most by them."""
        if not self.rule.sizing or waiting:
            return []
        options = {job: self._options(view, seats, job) for job in self._settled(view).tolist()}
        move = worth_moving(view, seats, options, self._paces, price=self._price)
        return self._go_on(view, *move) if move else []

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
        start = view.start_first(order) if view.nothing_pending else None
        return [start] if start else []
