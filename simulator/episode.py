"""An episode: one workload on one cluster, from the first job to the last."""

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_cluster_gym import traces
from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.constraints import NO_CONSTRAINTS, Constraints
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.history import History, records_of
from gpu_cluster_gym.simulator.interrupts import interruptible
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    DISCIPLINES,
    DONE,
    EASY,
    GPU_TYPES,
    GREEDY,
    JOB,
    MAX_FAILURES,
    MAX_LEVELS,
    OVER_QUOTA,
    PLACEMENTS,
    STALLED,
    state_dtype,
)
from gpu_cluster_gym.simulator.kernel.cluster.plan import tier_of
from gpu_cluster_gym.simulator.kernel.initial_state import fresh
from gpu_cluster_gym.simulator.kernel.union.estimates import history_dtype
from gpu_cluster_gym.simulator.kernel.union.weights import memory_dtype
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.simulator.policy import (
    Action,
    Policy,
    Preempt,
    Ranking,
    Resize,
    RunsCompiled,
    Start,
    Throttle,
    Wait,
    fixed,
    may_run_compiled,
    plain,
)
from gpu_cluster_gym.simulator.reasons import RecordsReasons
from gpu_cluster_gym.simulator.source import Source, adopt, seat_of, source_of
from gpu_cluster_gym.simulator.tenants import NO_TENANTS, Tenants
from gpu_cluster_gym.simulator.view import View

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.account import Account
    from gpu_cluster_gym.simulator.reasons import Decisions

TICK_S = 300.0
NAMED_JOBS = 5  # in the message of an episode without progress
ACTIONS_AT_ONCE, ACTIONS_AT_ONCE_PER_JOB = 1000, 100  # most actions of a policy at one instant
ALONE = Physics()


class Episode:
    """A workload on a cluster under a placement rule and a discipline; policies see it through `view`.

    jobs: array of `simulator.kernel.cluster.layout.JOB`, sorted by submission
    cluster: the machines
    placement: first_fit, best_fit, spread or pooled
    discipline: greedy, strict or easy
    exact: whether estimates equal the truth; then there are no ticks
    tick_s: period of scheduling passes between events while jobs are queued; 0: at events only
    levels: attained GPU-seconds at which a job's level changes; each crossing is an event
    seed: of all random draws, up to 63 bits
    rows: number of records: the first is the episode, the second scratch, others belong to the caller
    room: number of jobs for which the records have room at least
    physics: interactions of jobs
    fits: (jobs, terms) speed models fitted to profiles, zero where unknown; written as they become known
    history: run-time predictor; without one, expected values are estimates
    tenants: tenant of each job, and the quotas; by default there are none
    constraints: nodes that each job may use, and jobs that it waits for; by default there are none
    """

    def __init__(
        self,
        jobs: np.ndarray,
        cluster: Cluster,
        *,
        placement: str = "best_fit",
        discipline: str = "greedy",
        exact: bool = False,
        tick_s: float = TICK_S,
        levels: tuple[float, ...] = (),
        seed: int = 0,
        rows: int = 2,
        room: int = 0,
        physics: Physics = ALONE,
        fits: np.ndarray | None = None,
        history: History | None = None,
        tenants: Tenants = NO_TENANTS,
        constraints: Constraints = NO_CONSTRAINTS,
    ) -> None:
        """Lay out the machines; no job has arrived."""
        physics.check(placement)
        tenants.check(jobs["num_gpus"], cluster.num_gpus, placement)
        constraints.check(placement)
        self.jobs = typed(np.array(jobs), JOB)
        self.fits = self.jobs["fitted"].copy() if fits is None else fits
        self.jobs["fitted"] = self.fits
        self.cluster = cluster
        self.discipline = DISCIPLINES.index(discipline)
        self.states = lay_out(
            self.jobs,
            cluster,
            placement,
            rows=rows,
            room=room,
            discipline=self.discipline,
            exact=exact,
            tick=0.0 if exact else tick_s,
            seed=seed,
            **tenants.fields(),
            **constraints.fields(),
            **physics.fields(cluster),
        )
        self.tenants = tenants.names
        self.state = self.states[0]
        refuse_infeasible_jobs(self.states, self.jobs, cluster)
        self.set_levels(levels)
        self.histories = records_of(history, self.jobs, self.states)
        self._view = View(Source(self.states, self.jobs, traces.stream(seed, "view"), self.histories))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state from which a copy continues exactly as this episode; the rest is derived again."""
        source = source_of(self._view)
        own = {name: value for name, value in vars(self).items() if name not in ("state", "_view")}
        asked = (source.moves, source.moves_at, source.rule, source.rule_memory)
        return own | {"rng": source.rng, "asked": asked}

    def __copy__(self) -> "Episode":
        """Return an independent episode: records are never shared."""
        return copy.deepcopy(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the records, in the kernel's own types, and a view of them."""
        rng, asked = state.pop("rng"), state.pop("asked")
        vars(self).update(state)
        size = tier_of(self.states)
        self.jobs, self.states = typed(self.jobs, JOB), typed(self.states, state_dtype(size))
        self.histories = typed(self.histories, history_dtype(self.histories["cell"].shape[1]))
        self.state = self.states[0]
        source = Source(self.states, self.jobs, rng, self.histories)
        source.moves, source.moves_at, source.rule, memory = asked
        source.rule_memory = typed(memory, memory_dtype(size))
        self._view = View(source)

    def set_levels(self, levels: tuple[float, ...]) -> None:
        """Set the limits between a ranking's levels; ValueError for too many."""
        if len(levels) > MAX_LEVELS:
            raise ValueError(f"{len(levels)} limits between levels: expected at most {MAX_LEVELS}")
        self.state.num_limits = len(levels)
        self.state.limits[: len(levels)] = levels
        if self.state.num_active and len(levels):
            calls.replan(self.states, 0, self.jobs)

    @property
    def view(self) -> View:
        """A scheduler's view; what it has copied before is copied again."""
        source_of(self._view).forget_copies()
        return self._view

    @property
    def done(self) -> bool:
        """Whether every job has ended."""
        return source_of(self._view).is_over

    @property
    def fastest_s(self) -> np.ndarray:
        """Lower bound on the seconds of each job from a start to its end, with any resources."""
        seconds = np.empty(len(self.jobs))
        calls.fastest(self.states, 0, self.jobs, seconds)
        return seconds

    @property
    def endless(self) -> bool:
        """Whether a job has reached the maximum number of failures, so that it will never end."""
        return bool(self.state.endless)

    @property
    def num_present(self) -> int:
        """Number of jobs that have arrived and not ended."""
        state = source_of(self._view).state  # read at each instant, several times faster than `self.state`
        return int(state.num_arrived - state.num_done)

    @property
    def nothing_pending(self) -> bool:
        """Whether no event is due: no completion, no arrival."""
        return self._view.nothing_pending

    def advance(self, *, ticks: bool = True) -> bool:
        """Move to the next instant, or without ticks to the next event; return whether there was one."""
        move = calls.advance if ticks else calls.advance_past_ticks
        moved = bool(move(self.states, 0, self.jobs))
        source_of(self._view).forget_old_copies()
        return moved

    def why_not(self, action: object) -> str | None:
        """Return why an action is illegal now, or None."""
        return self._view.why_not(action)

    def apply(self, action: Action) -> None:
        """Carry out an action; ValueError says why it is illegal."""
        source = source_of(self._view)
        try:
            action = plain(action)
            if type(action) is Wait and source.wait(action.seconds):
                return
            reason = source.why_illegal(action)
        except ValueError as error:
            reason = str(error)
        if reason:
            raise ValueError(f"at {self._view.now:g} s: {reason}")
        source.forget_copies()
        match action:
            case Start(job, placement, claim):
                calls.start_as(self.states, 0, self.jobs, job, seat_of(placement), claim)
            case Resize(job, None, placement):
                calls.move(self.states, 0, self.jobs, job, seat_of(placement))
            case Resize(job, cores):
                calls.resize(self.states, 0, self.jobs, job, cores or 0.0)
            case Throttle(job, level):
                calls.throttle(self.states, 0, job, level)
            case Preempt(job):
                calls.pause(self.states, 0, self.jobs, job)

    def run_until(self, ranking: Ranking, time_s: float, account: "Account | None" = None) -> None:
        """Carry out a ranking from the first job up to a time, whose own events are not carried out yet.

        account: records what happens; pass the same one to `run` to continue the record.
        """
        if account:
            account.begin(self)
        self.state.discipline = discipline_of(ranking, self.discipline)
        adopt(self.states, 0, self.jobs, ranking)
        while calls.step_until(self.states, 0, self.jobs, time_s):
            if account:
                account.note(self)
        self.state.discipline = self.discipline

    def run_compiled(self, policy: Ranking | RunsCompiled, account: "Account | None" = None) -> bool:
        """Run a ranking, or another compiled policy, inside the kernel to the end of the episode.

        account: records what happens. Return False, with nothing done, where that requires asking step by step.
        """
        if isinstance(policy, Ranking):
            adopt(self.states, 0, self.jobs, policy)
            rule = partial(interruptible, self.states, calls.run_rule, self.states, 0, self.jobs)
            ended = account.run_rule(self) if account else rule()
        elif account is None:
            ended = policy.run_compiled(self.states, self.jobs, self.histories)
        else:
            instants = policy.by_instants(self.states, self.jobs, self.histories)
            if instants is None:
                return False
            for _ in instants:
                account.note(self)
            ended = self.done
        self.fits[:] = self.jobs["fitted"]
        if not ended:
            raise StalledEpisodeError(self.why_stuck("jobs are left that can never start"))
        return True

    def why_stuck(self, otherwise: str) -> str:
        """Return why jobs never end: they make no progress, one fails again and again, or else `otherwise`."""
        if not self.endless:
            return otherwise
        if self.state.endless == OVER_QUOTA:
            return (
                "the policy started a job that its tenant's quota does not allow (it ignores tenants: choose a "
                "policy that respects quotas, see docs/rules.md, or drop --quotas)"
            )
        if self.state.endless == STALLED:
            return self.no_progress("all jobs together have run for less than a millisecond per decision")
        job = int(self.state.failures.argmax())
        if self.state.failures[job] < MAX_FAILURES:
            job = int(self.state.oom_restarts.argmax())
            return (
                f"job {job} has run out of memory {MAX_FAILURES:,} times (start it alone, or with jobs that leave it "
                "enough memory)"
            )
        return (
            f"job {job} has failed {MAX_FAILURES:,} times: with its {self.jobs['num_gpus'][job]} GPUs it fails before "
            "it has loaded or written a checkpoint (change node_mtbf_h, restart_delay or checkpoint_every)"
        )

    def no_progress(self, why: str) -> str:
        """Return that the policy makes no progress: the time, why, and the first of the jobs that wait for it."""
        phase = self.state.phase[: self.state.num_arrived]
        left = np.flatnonzero(phase != DONE)
        named = ", ".join(f"job {job} ({self.state.preemptions[job]:,} pauses)" for job in left[:NAMED_JOBS])
        more = f" and {len(left) - NAMED_JOBS:,} more" if len(left) > NAMED_JOBS else ""
        return (
            f"no progress at {self.state.clock:,.10g} s: {why}, and none has arrived or ended; left are {named}{more} "
            "(the policy must let started jobs run)"
        )


def typed(records: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Return records whose dtype is the object that the kernel was compiled for; an equal one is slower."""
    if records.dtype is kind:
        return records
    found = np.empty(len(records), kind)
    found[:] = records
    return found


def lay_out(
    jobs: np.ndarray, cluster: Cluster, placement: str, *, rows: int = 1, room: int = 0, **choices: Any
) -> np.ndarray:
    """Return new records of these jobs on a cluster; the placement `pooled` makes it one node."""
    pooled = placement == "pooled"
    return fresh(
        jobs,
        node_gpus=(cluster.num_gpus,) if pooled else cluster.node_gpus,
        node_memory=(cluster.largest_gpu_gib,) if pooled else cluster.node_gpu_memory_gib,
        node_cores=(sum(cluster.node_cores),) if pooled else cluster.node_cores,
        node_type=(0,)
        if pooled
        else [GPU_TYPES.index(name) if name in GPU_TYPES else 0 for name in cluster.types],
        rows=rows,
        room=room,
        placement=PLACEMENTS.index("first_fit" if pooled else placement),
        pooled=pooled,
        **choices,
    )


def infeasible_jobs(states: np.ndarray, jobs: np.ndarray) -> np.ndarray:
    """Return the jobs that the empty cluster of new records could never hold."""
    found = np.empty(len(jobs), np.int64)
    return found[: calls.infeasible_jobs(states, 0, jobs, found)]


def refuse_infeasible_jobs(states: np.ndarray, jobs: np.ndarray, cluster: Cluster) -> None:
    """Raise ValueError where the empty cluster of new records could never hold a job."""
    if len(wrong := infeasible_jobs(states, jobs)):
        raise ValueError(
            f"{len(wrong)} jobs can never run on {cluster.name} (the first is job {wrong[0]}): drop them, or choose a "
            "larger cluster"
        )


def discipline_of(ranking: Ranking, default: int) -> int:
    """Return a ranking's discipline: its own, else the scenario's; greedy in place of easy with preemption."""
    wanted = DISCIPLINES.index(ranking.discipline) if ranking.discipline else default
    return GREEDY if wanted == EASY and ranking.preempt != "never" else wanted


def set_up(ranking: Ranking, episode: Episode) -> None:
    """Set the levels and the discipline of a ranking in an episode; ValueError for too many levels."""
    episode.set_levels(ranking.levels)
    episode.state.discipline = discipline_of(ranking, episode.discipline)


def asking(policy: Policy, episode: Episode) -> Callable[[], Action]:
    """Return a function that asks a policy for its next action, in built-in types only (`plain`).

    A ranking reads the record, which an oracle needs; a subclass, or an object that passes for one, reads the view.
    """
    if type(policy) is Ranking:
        return moves_of(policy, episode)
    return actions_of(policy, episode)


def moves_of(ranking: Ranking, episode: Episode) -> Callable[[], Action]:
    """Return a function that returns the next action of a ranking."""
    return partial(source_of(episode.view).next_move, ranking)


def actions_of(policy: Policy, episode: Episode) -> Callable[[], Action]:
    """Return a function that asks a policy about the view."""
    view = episode.view

    def ask() -> Action:
        action = policy(view)
        try:
            return plain(action)
        except ValueError as error:
            raise ValueError(f"at {view.now:g} s: {error}") from None

    return ask


def run(
    policy: Policy,
    episode: Episode,
    *,
    step_by_step: bool = False,
    oracle: bool = False,
    account: "Account | None" = None,
    decisions: "Decisions | None" = None,
) -> Episode:
    """Run a policy on an episode to its end and return the episode.

    step_by_step: whether to ask a compiled policy action by action instead of running it inside the kernel; results are
        the same. Compiled policies of other packages are asked so in any case
    oracle: whether a ranking may use the truth; ValueError if it would and may not
    account: a new one that records what happens; ValueError if it is used, or the episode has started; results are
        the same
    decisions: records the reasons of a policy that gives reasons (`simulator.reasons`), which is then asked action by
        action; results are the same
    """
    if account:
        account.begin(episode)
    ranking = fixed(policy, oracle=oracle) if isinstance(policy, Ranking) else None
    if ranking:
        set_up(ranking, episode)
    whole = ranking or (policy if may_run_compiled(policy) else None)
    if decisions is not None and isinstance(whole, RecordsReasons) and whole.has_reasons:
        whole, decisions = whole.recording(decisions), None
    if whole and not (step_by_step or decisions is not None) and episode.run_compiled(whole, account):
        return episode
    with traces.asking():
        ask = moves_of(ranking, episode) if ranking else actions_of(policy, episode)
        if decisions is not None:
            ask = decisions.watched(ask, ranking or policy, episode)
        ask_to_the_end(ask, episode, account)
    episode.fits[:] = episode.jobs["fitted"]
    return episode


def ask_to_the_end(ask: Callable[[], Action], episode: Episode, account: "Account | None") -> None:
    """Ask for actions and carry them out until every job has ended."""
    waits = Wait()
    while not episode.done:
        if not episode.advance(ticks=account is not None or waits.ticks):
            usual = "jobs are left, and the policy waits although nothing is pending"
            raise StalledEpisodeError(episode.why_stuck(usual))
        _, waits = ask_at_this_instant(ask, episode)
        episode.apply(waits)
        if account:
            account.note(episode)


def ask_at_this_instant(ask: Callable[[], Action], episode: Episode) -> tuple[list[Action], Wait]:
    """Ask for actions and carry them out until a wait, which is not; return them and the wait."""
    made: list[Action] = []
    most = ACTIONS_AT_ONCE + ACTIONS_AT_ONCE_PER_JOB * episode.num_present
    while not isinstance(action := ask(), Wait):
        episode.apply(action)
        made.append(action)
        if len(made) > most:
            raise StalledEpisodeError(
                episode.no_progress("the policy keeps acting at one instant without waiting")
            )
    return made, action
