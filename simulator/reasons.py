"""Reasons of decisions: what a policy compared at the instant at which it started or paused a job.

A `Ranking` is explained here, by the kernel's own functions on a copy of the state; `union` in `rule_reasons`. Another
policy may have a method `reason(view, action) -> Reason`, which is called before the action is carried out. A policy
that runs inside the kernel only records its decisions itself (`RecordsReasons`). Other policies have no reasons.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import EASY, NOBODY, RUNNING, STRICT
from gpu_cluster_gym.simulator.measurements import estimate_s
from gpu_cluster_gym.simulator.policy import Action, Policy, Preempt, Ranking, Resize, RunsCompiled, Start
from gpu_cluster_gym.simulator.source import Source, source_of

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.episode import Episode
    from gpu_cluster_gym.simulator.view import View

SHOWN = 3
"""Jobs listed before and after the one that is explained."""
OPTIONS_SHOWN = 5
"""Moves listed, that of the action included."""

Terms = tuple[tuple[str, float], ...]
"""Compared quantities, as name and value; see `Reason`."""


class Ranked(NamedTuple):
    """A job and its key in the policy's order; smaller keys come first, equal ones by job."""

    job: int
    key: float


class Option(NamedTuple):
    """A compared move, and its value in the unit of the reason's keys; the largest is best.

    name: the move in words; `{job}` in it stands for the job. job: -1 for none, as where the move is to wait.
    minimum: the value that it must exceed to be made.
    """

    name: str
    job: int
    value: float
    minimum: float = -math.inf


class Reason(NamedTuple):
    """Comparison behind an action of a policy.

    rule: the policy's rule, as a sentence.
    keys: description of the keys, with their unit.
    own: the job of the action.
    place: its place in the order, from 1.
    ranked: number of jobs in the order.
    skipped: number of queued jobs earlier in the order that do not start at this instant.
    earlier: the first of these.
    later: the next queued jobs in the order that do not start at this instant.
    cause: of a pause, the first job that gets its GPUs, if there is one.
    terms: further compared quantities, as name and value. A name that ends in ", s" is of seconds, one in ", job" of a
        job; the value of any other name is shown before it, as in 3600 "GPU-seconds attained".
    options: of a policy that compares moves instead of jobs, the move of this action and some others: those that exceed
        their minimum first, and of these the largest value. `place` and `ranked` count the compared moves then.

    Keys that end in ", %" are probabilities, the largest first.
    """

    rule: str
    keys: str
    own: Ranked
    place: int
    ranked: int
    skipped: int = 0
    earlier: tuple[Ranked, ...] = ()
    later: tuple[Ranked, ...] = ()
    cause: Ranked | None = None
    terms: Terms = ()
    options: tuple[Option, ...] = ()


class Decision(NamedTuple):
    """A start, pause or resize: time in s, the action, and its reason."""

    time_s: float
    action: Action
    reason: Reason


class Decisions:
    """Decisions of an episode, recorded by `simulator.episode.run(policy, episode, decisions=decisions)`."""

    def __init__(self) -> None:
        """Create an empty record."""
        self.rows: list[Decision] = []

    def watched(self, ask: Callable[[], Action], policy: Policy, episode: "Episode") -> Callable[[], Action]:
        """Return a function that asks a policy for its next action and records its reason, if the policy gives any."""
        explain = explainer(policy, episode)
        if explain is None:
            return ask

        def asked() -> Action:
            action = ask()
            if isinstance(action, Start | Preempt | Resize) and (reason := explain(action)) is not None:
                self.rows.append(Decision(float(episode.state.clock), action, checked(reason)))
            return action

        return asked


class RecordsReasons(RunsCompiled):
    """A policy that runs inside the kernel only, and can record its decisions there."""

    @property
    @abstractmethod
    def has_reasons(self) -> bool:
        """Whether it has reasons for its actions."""

    @abstractmethod
    def recording(self, decisions: Decisions) -> RunsCompiled:
        """Return a copy that appends its decisions to this record; results are the same."""


def checked(reason: object) -> Reason:
    """Return a reason that a policy gave; TypeError where it is none, or its jobs are not `Ranked`."""
    if isinstance(reason, Reason):
        jobs = (reason.own, *reason.earlier, *reason.later, *([] if reason.cause is None else [reason.cause]))
        if all(isinstance(each, Ranked) for each in jobs):
            return reason
    raise TypeError(
        f"`reason` returned {reason!r}: expected None, or a Reason whose jobs (own, earlier, later, cause) are "
        "Ranked(job, key)"
    )


def gives_reasons(policy: object) -> bool:
    """Return whether a policy has reasons for its actions."""
    if isinstance(policy, RecordsReasons):
        return policy.has_reasons
    return isinstance(policy, Ranking) or callable(getattr(policy, "reason", None))


def explainer(policy: Policy, episode: "Episode") -> Callable[[Action], Reason | None] | None:
    """Return a function of an action that returns its reason; None for a policy without reasons."""
    if isinstance(policy, Ranking):
        return Passes(policy, source_of(episode.view)).reason
    give: Callable[[View, Action], Reason | None] | None = getattr(policy, "reason", None)
    return (lambda action: give(episode.view, action)) if callable(give) else None


def in_order(
    rule: str,
    keys: str,
    job: int,
    order: Sequence[int] | np.ndarray,
    key: Sequence[float] | np.ndarray,
    waiting: Callable[[int], bool],
    **more: Any,
) -> Reason:
    """Return the reason of an action on a job that is in a policy's order; ValueError for another job.

    order, key: jobs, best first, and their keys.
    waiting: whether a job is queued and does not start at this instant.
    more: further fields of the reason.
    """
    ranked = [Ranked(int(each), float(own)) for each, own in zip(order, key, strict=True)]
    at = next((place for place, each in enumerate(ranked) if each.job == job), None)
    if at is None:
        raise ValueError(
            f"job {job} is not in the order, as in_order requires: for a pause return None, or a Reason with a cause"
        )
    earlier = [each for each in ranked[:at] if waiting(each.job)]
    later: list[Ranked] = []
    for each in ranked[at + 1 :]:
        if len(later) == SHOWN:
            break
        if waiting(each.job):
            later.append(each)
    return Reason(
        rule,
        keys,
        ranked[at],
        at + 1,
        len(ranked),
        len(earlier),
        tuple(earlier[:SHOWN]),
        tuple(later),
        **more,
    )


def of_moves(
    rule: str, keys: str, own: Ranked, options: Sequence[Option], chosen: int, *, cause: Ranked | None = None
) -> Reason:
    """Return the reason of an action by which a policy makes one of the moves that it has compared.

    own: the job of the action, with the value of the move. options: all compared moves; chosen: the one that is made.
    """
    order = sorted(
        range(len(options)),
        key=lambda at: (at != chosen, options[at].value <= options[at].minimum, -options[at].value, at),
    )
    listed = tuple(options[at] for at in order[:OPTIONS_SHOWN])
    return Reason(rule, keys, own, 1, len(options), cause=cause, options=listed)


# Rankings.

KEYS = {
    "submit": "time of submission, s",
    "estimate": "estimated run time, s",
    "remaining": "estimated remaining time, s",
    "remaining_area": "estimated remaining time x GPUs, s",
    "level": "level of attained GPU-seconds",
    "true_remaining": "true remaining time, s",
    "priority": "priority of the log, negated",
}
GREEDY_RULE = "Jobs are tried in this order: each that fits starts, and one that does not fit is skipped."
STRICT_RULE = (
    "Jobs start in this order; one that does not fit blocks later ones (of its tenant) that may use a node that its "
    "constraints allow."
)
EASY_RULE = (
    "Jobs start in this order up to the first that does not fit, the head; a later one (of its tenant, on its nodes) "
    "starts only if it cannot delay the head."
)
ORDER_RULE = (
    "GPUs are granted in this order to queued and running jobs; a running job whose GPUs are granted to another is "
    "paused."
)
COST_RULE = (
    "Jobs start in this order where they fit; one that does not fit displaces running jobs if their mean remaining "
    "time exceeds the sum over them of its own remaining time and {margin:g} x their overhead."
)


def rule_of(ranking: Ranking, discipline: int) -> str:
    """Return the rule of a ranking in a sentence; discipline: the one in force."""
    match ranking.preempt:
        case "by_order":
            return ORDER_RULE
        case "cost_aware":
            return COST_RULE.format(margin=ranking.margin)
    return {EASY: EASY_RULE, STRICT: STRICT_RULE}.get(discipline, GREEDY_RULE)


def keys_of(ranking: Ranking) -> str:
    """Return a description of a ranking's keys, with their unit."""
    if ranking.key != "weighted":
        return KEYS[ranking.key]
    power = "" if ranking.exponent == 0 else f" x GPUs ** {ranking.exponent:g}"
    return f"remaining and loading time{power}, s"


class Passes:
    """Reasons of a ranking's actions; all actions of an instant are explained by one scheduling pass.

    The pass is repeated on the scratch record, from the state before its first action, as the ranking itself makes it.
    """

    def __init__(self, ranking: Ranking, source: Source) -> None:
        """Take the ranking and the records of the episode."""
        self.ranking, self.source, self._instant = ranking, source, -1
        self.rule, self.keys = rule_of(ranking, int(source.state.discipline)), keys_of(ranking)
        self._order = self._key = self._queue = np.empty(0)
        self._starts: set[int] = set()
        self._granted: dict[int, set[int]] = {}  # GPUs by job
        self._held: dict[int, set[int]] = {}  # GPUs of each job to be paused
        self._worth: dict[int, Terms] = {}

    def reason(self, action: Action) -> Reason | None:
        """Return the reason of a start or a pause, which is not carried out yet."""
        if self._instant != self.source.instant:
            self._instant = self.source.instant
            self._repeat(action)
        match action:
            case Start(job):
                return self._explain(job, terms=self._worth.get(job, ()) or self._shadow(job))
            case Preempt(job):
                causes = [each for each, gpus in self._granted.items() if self._held[job] & gpus]
                if not causes:
                    return self._explain(job)
                cause = Ranked(causes[0], float(self._key[self._order == causes[0]][0]))
                return self._explain(job, cause=cause, terms=self._worth.get(causes[0], ()))
        return None

    def _repeat(self, first: Action) -> None:
        """Repeat the pass of this instant, and note its order, grants and actions. first: its first action."""
        source, ranking = self.source, self.ranking
        source.copy_under(ranking)
        self._queue = source.queue
        jobs = self._queue
        if ranking.preempt != "never":
            jobs = np.concatenate([jobs, source.active(RUNNING)])
        if ranking.key == "submit":
            key = source.jobs["submit_s"][jobs].astype(float)
        else:
            key = np.empty(len(jobs))
            calls.keys(source.states, 1, source.jobs, jobs, key)
        order = np.lexsort((jobs, key))
        self._order, self._key = jobs[order], key[order]
        actions = [first, *source.moves]
        self._held = {
            each.job: set(source.gpus_of(each.job)) for each in actions if isinstance(each, Preempt)
        }
        self._granted = {each.job: set(each.placement.gpus) for each in actions if isinstance(each, Start)}
        self._starts = {*self._granted}
        self._worth = {}
        if ranking.preempt == "cost_aware":
            for job, gpus in self._granted.items():
                if victims := [each for each, held in self._held.items() if held & gpus]:
                    self._worth[job] = self._worth_of(job, victims)
        elif self._held:
            self._granted |= self._grants()

    def _grants(self) -> dict[int, set[int]]:
        """Return the GPUs granted to each queued job by the pass, those that pausing jobs still hold included."""
        source = self.source
        source.after.granted[:] = NOBODY
        calls.walk(source.states, 1, source.jobs)
        found = {}
        for job, begin in zip(source.after.granted.tolist(), source.after.granted_from.tolist(), strict=True):
            if job == NOBODY:
                break
            count = int(source.jobs["num_gpus"][job])
            found[job] = set(source.after.gpus[begin : begin + count].tolist()) if count else set()
        return found

    def _explain(self, job: int, **more: Any) -> Reason | None:
        """Return the reason of an action on a job; None if the order lacks it."""
        if job not in self._order:
            return None
        waiting = {*self._queue.tolist()} - self._starts
        return in_order(self.rule, self.keys, job, self._order, self._key, waiting.__contains__, **more)

    def _worth_of(self, job: int, victims: list[int]) -> Terms:
        """Return the comparison by which a job displaces others."""
        source = self.source
        some = np.array(victims, dtype=np.int64)
        worth = float(calls.worth(source.states, 1, source.jobs, job, self.ranking.margin, some))
        mean_s = float(source.progress[1][some].mean())
        return (
            ("jobs to pause", float(len(victims))),
            ("their mean remaining time, s", mean_s),
            ("sum that it must exceed, s", mean_s / worth),
        )

    def _shadow(self, job: int) -> Terms:
        """Return the times that EASY compares for a job behind the head; empty for other jobs and rankings."""
        source = self.source
        if self.ranking.preempt != "never" or source.state.discipline != EASY or source.state.num_tenants:
            return ()
        earlier = self._order[: int(np.flatnonzero(self._order == job)[0])].tolist()
        before = [each for each in earlier if each not in self._starts and source.jobs["num_gpus"][each] > 0]
        if not before:
            return ()
        source.copy_under(self.ranking)  # with the starts before this one
        shadow_s = float(calls.shadow(source.states, 1, source.jobs, before[0]))
        return (
            ("head of the queue, job", float(before[0])),
            ("it could start in, s", shadow_s - float(source.state.clock)),
            ("this job ends by its estimate in, s", float(estimate_s(source)[job])),
        )
