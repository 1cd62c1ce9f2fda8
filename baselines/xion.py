"""Xion: preempt only when it pays, weighing the gains and losses of all jobs concerned.

Claim: schedulers favour the least remaining time, but pausing and loading a job take up to hundreds of seconds; SRTF
then becomes ineffective and FIFO is sometimes better; preempt only when that is beneficial (Xion, IEEE CLOUD 2023, pp.
175-177). Only the abstract was available, and it states no rule.

Inferred, with R the estimated remaining time, P and L the seconds to pause and to load, g the GPUs of a job and G those
of the cluster:

- order: E = R, plus L if the job was preempted before; queued jobs start in this order as long as they fit;
- the first job j that does not fit may displace running jobs V with R > E_j: the set that frees enough GPUs at the
  least cost, the sum of (P + L) g. No job is displaced while GPUs are being freed for j;
- gain = t_w - t_p, the wait for natural ends minus the slowest pause; loss = sum over V of t_p + E_j + L;
  queue = cost / G x the number of other queued jobs whose memory fits those GPUs;
- j displaces V if gain - loss - queue > margin.

A single victim v for whose end j would wait is thus displaced if R_v - E_j > 2 P_v + L_v + queue. The common form
"remaining gap exceeds overhead" (`rule="gap"`; for several victims: mean R > sum of E_j + P + L) neglects that j waits
for the pause. If pausing is free, the order alone decides, as in SRTF; this limit was added.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator import search
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Start, Wait
from gpu_cluster_gym.simulator.reasons import Ranked, Reason, in_order

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import Jobs, View

RULE = (
    "Queued jobs start in this order where they fit; the first that does not fit displaces running jobs with more "
    "remaining time if its net gain exceeds the margin."
)
KEYS = "remaining and loading time, s"
FEW = 64
"""Jobs of an order that are read at a time."""


class Weighed(NamedTuple):
    """Comparison by which a blocked job displaces running jobs: its queue, and the terms."""

    job: int
    queue: np.ndarray
    terms: tuple[tuple[str, float], ...]


class Benefit(NamedTuple):
    """Net gain of a displacement before the charge to the queue, s, and the terms it is made of."""

    seconds: float
    terms: tuple[tuple[str, float], ...] = ()


@dataclass
class Xion:
    """State of the policy in one episode.

    rule: condition for preemption, see above. count_queue: whether queued jobs are charged for overhead.
    q_min_s: minimum seconds that a victim has run since its last start. margin_s: minimum gain, s.
    """

    rule: Literal["derived", "gap"] = "derived"
    count_queue: bool = True
    q_min_s: float = 0.0
    margin_s: float = 0.0

    def __post_init__(self) -> None:
        self._instant = -1
        self._displaced: list[int] = []  # jobs preempted at this instant, which do not start again at once
        self._moves: list[Action] = []  # pending actions, in reverse order
        self._terms: tuple[tuple[str, float], ...] = ()  # of the comparison made last
        self._weighed: Weighed | None = None  # of the displacement that is being carried out
        self._cost_at, self._cost = -1, np.empty(0)
        self._order: np.ndarray | None = None  # queued jobs by effort, once sorted at this instant

    def __call__(self, view: "View") -> Action:
        """Start jobs that fit in order, then displace running jobs if it pays, else wait."""
        if self._instant != view.instant:
            self._instant = view.instant
            self._displaced = []
            self._order = None
        if self._moves:
            move = self._moves.pop()
            if self._moves or view.why_not(move) is None:
                return move
            # Where pauses are free, another tenant may now use its quota's GPUs, which were borrowed for the victims.
        self._weighed = None
        if search.may_any_start(view) and (start := view.start_first(self._by_effort(view))):
            return start
        return self._displace(view)

    def _by_effort(self, view: "View") -> np.ndarray:
        """Return the queue without displaced jobs by effort, sorted again in an instant only if jobs joined it."""
        order, displaced = self._order, np.array(self._displaced, np.int64)
        if order is not None:  # efforts of queued jobs change with time alone
            order = search.still_queued(view, order, displaced)
        if order is None:
            order = search.by_effort(view, without(view.queue, self._displaced))
        self._order = order
        return order

    def reason(self, view: "View", action: Action) -> Reason | None:
        """Return the order of the queue at a start, and what was compared for a displacement."""
        weighed = self._weighed
        if isinstance(action, Preempt) and weighed:
            cause = Ranked(weighed.job, float(search.efforts(view, [weighed.job])[0]))
            own = Ranked(action.job, float(view.jobs_of([action.job]).remaining_s[0]))
            return Reason(RULE, "remaining time, s", own, 0, 0, cause=cause, terms=weighed.terms)
        if not isinstance(action, Start):
            return None
        queue = without(view.queue, self._displaced)
        order = search.by_effort(view, weighed.queue if weighed else queue)
        key = search.efforts(view, order)
        terms = weighed.terms if weighed else ()
        return in_order(RULE, KEYS, action.job, order, key, lambda job: job != action.job, terms=terms)

    def _displace(self, view: "View") -> Action:
        """Preempt the cheapest victims for the first blocked job of a tenant if that pays, else wait."""
        # The first displacement of an instant searches the unsorted queue, which is faster than sorting it.
        is_sorted = bool(self._displaced)
        least_gain_s = self.margin_s if self.rule == "derived" else -np.inf
        for own in search.by_tenant(view, self._by_effort(view) if is_sorted else view.queue):
            found = search.displacement(
                view,
                first_on_gpus(view, own) if is_sorted else own,
                self._costs(view),
                least_run_s=self.q_min_s,
                least_gain_s=least_gain_s,  # less would not pay even without overhead
            )
            if found and self._pays(view, found, own):
                self._displaced += found.room.victims
                self._weighed = Weighed(found.job, own, self._terms)
                # pause the victims first: they are popped from the end
                self._moves = [
                    Start(found.job, Placement(found.room.gpus)),
                    *map(Preempt, found.room.victims),
                ]
                return self._moves.pop()
        return Wait()

    def _pays(self, view: "View", found: search.Displacement, queue: np.ndarray) -> bool:
        """Return whether a displacement pays; queue: queued jobs of the tenant."""
        room = found.room
        benefit, self._terms = self._benefit(view.jobs_of(room.victims), found.effort_s, found.wait_s)
        if np.isinf(benefit):
            return True
        charge = 0.0
        if self.count_queue:
            # each other queued job that could use the GPUs waits for the overhead's share of the cluster
            fits = (view.jobs.profiled_memory_gib <= room.memory_gib) & (view.jobs.num_gpus > 0)
            others, cost = np.count_nonzero(fits[queue]) - 1, self._costs(view)[room.victims].sum()
            charge = float(others * cost / len(view.gpus.first_owner))
        net = benefit - charge
        self._terms = (
            *self._terms,
            ("charge to other queued jobs, s", charge),
            ("net gain, s", net),
            ("margin that it must exceed, s", self.margin_s),
        )
        return net > self.margin_s

    def _costs(self, view: "View") -> np.ndarray:
        """Return the GPU-seconds of a pause and a load of each job that has arrived, once for each instant."""
        if self._cost_at != view.instant:
            self._cost_at = view.instant
            self._cost = (view.jobs.pause_s + view.jobs.load_s) * view.jobs.num_gpus
        return self._cost

    def _benefit(self, victims: "Jobs", effort: float, wait: float) -> Benefit:
        """Return the net gain of a start in place of these victims; infinite if pausing them is free."""
        overhead = victims.pause_s + victims.load_s
        if not overhead.any():
            return Benefit(np.inf, (("overhead of the jobs to pause, s", 0.0),))
        if self.rule == "gap":
            mean, least = float(victims.remaining_s.mean()), float((effort + overhead).sum())
            terms = (
                ("mean remaining time of the jobs to pause, s", mean),
                ("sum that it must exceed, s", least),
            )
            return Benefit(mean - least, terms)
        pause = victims.pause_s.max()  # t_p: the start waits for the slowest victim
        gain, loss = float(wait - pause), float((pause + effort + victims.load_s).sum())
        terms = (
            ("its wait for natural ends less the slowest pause, s", gain),
            ("loss of the jobs to pause, s", loss),
        )
        return Benefit(gain - loss, terms)


def first_on_gpus(view: "View", order: np.ndarray) -> np.ndarray:
    """Return the first job with GPUs of an order, or none: (1,) or (0,)."""
    for begin in range(0, len(order), FEW):
        part = order[begin : begin + FEW]
        found: np.ndarray = part[view.jobs.num_gpus[part] > 0]
        if len(found):
            return found[:1]
    return order[:0]


def without(queue: np.ndarray, displaced: list[int]) -> np.ndarray:
    """Return a queue in ascending order without displaced jobs, which are in it only if their pauses take no time."""
    if not (displaced and len(queue)):
        return queue
    jobs = np.array(displaced)
    places = np.searchsorted(queue, jobs)
    found = places[queue.take(places, mode="clip") == jobs]
    return np.delete(queue, found) if len(found) else queue


policy = Xion
GRID = {"rule": ("derived", "gap"), "count_queue": (True, False), "margin_s": (0.0, 60.0, 300.0, 1800.0)}
