"""Agents trained on an environment as policies, given a function that predicts an action from an observation."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, get_args

import numpy as np

from gpu_cluster_gym.envs import validation
from gpu_cluster_gym.envs.batch import Illegal, MaskIn, replaced, why_illegal
from gpu_cluster_gym.envs.env import (
    MIN_RUN_S,
    QUEUE_SLOTS,
    RUNNING_SLOTS,
    Observe,
    base_policy,
    plain_actions,
    plain_observation,
)
from gpu_cluster_gym.envs.moves import QUEUED_JOBS, RUNNING_JOBS, move_sizes, observed
from gpu_cluster_gym.envs.observations import FromView, Sizes
from gpu_cluster_gym.envs.spaces import row
from gpu_cluster_gym.envs.steer import DECISIONS, WEIGHTS
from gpu_cluster_gym.envs.windows import MAX_INSTANTS_PER_JOB, default_rule
from gpu_cluster_gym.simulator import move_reasons, rule_reasons
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    LOADING,
    NOBODY,
    PAUSED_TIME,
    RESERVED,
    RUNNING,
)
from gpu_cluster_gym.simulator.kernel.moves import move_steps
from gpu_cluster_gym.simulator.kernel.moves.move_list import MAX_MOVES, list_dtype
from gpu_cluster_gym.simulator.kernel.slots import stepping
from gpu_cluster_gym.simulator.kernel.slots.feature_cache import cache_dtype
from gpu_cluster_gym.simulator.kernel.slots.features import IS_LEGAL
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.kernel.union.steering import CRITIC, DefaultRun, StepOutputs
from gpu_cluster_gym.simulator.policy import (
    BASE_POLICY,
    Action,
    Placement,
    Policy,
    Preempt,
    Resize,
    RunsCompiled,
    Start,
    Wait,
    fixed,
)
from gpu_cluster_gym.simulator.reasons import Decision, Decisions, Ranked, Reason, RecordsReasons
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule, Steered, arrivals_per_decision, memory_of
from gpu_cluster_gym.simulator.slots import Slots, parts_of, width
from gpu_cluster_gym.simulator.source import adopt, source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import stream, unknown
from gpu_cluster_gym.workloads import Scenario

Predict = Callable[[Any, np.ndarray], Any]
"""Map an observation and the mask of legal actions, bool (actions,), to an action."""
ENDLESS = "the agent pauses and restarts jobs again and again, and they do not end (with action plain, raise min_run_s)"


def AgentPolicy(  # noqa: N802 - reads like a class
    predict: Predict, *, action: str = "plain", mask: str = "info", **choices: Any
) -> Policy:
    """Return an agent as a policy, for `--policy mylab.agent:policy`; it acts as in the environment.

    predict: `predict(observation, mask) -> action`, for observations of a single environment
    `gymnasium.make("GPUCluster-v2", action=action, mask=mask, **choices)`.
    choices: the keywords of that environment that define observations and actions; see `PlainAgent`, `MovesAgent` and
    `steer_agent`.
    ValueError for an unknown action or an invalid keyword.
    """
    kinds: dict[str, Callable[..., Policy]] = {
        "plain": PlainAgent if callable(choices.get("observation")) else CompiledPlainAgent,
        "moves": MovesAgent,
        "steer": steer_agent,
    }
    if action not in kinds:
        raise ValueError(unknown("action", action, list(kinds)))
    if not callable(predict):
        raise ValueError(f"predict {predict!r}: expected a function of the observation and the mask")
    if validation.choice("mask", mask, get_args(MaskIn)) == "observation":
        predict = partial(_predict_with_mask, predict)
    return kinds[action](predict, **choices)


def _predict_with_mask(predict: Predict, observation: Any, mask: np.ndarray) -> Any:
    return predict({"observations": observation, "action_mask": mask.astype(np.int8)}, mask)


class PlainAgent:
    """An agent of the action `plain`."""

    def __init__(
        self,
        predict: Predict,
        *,
        observation: str | Observe | None = None,
        hints: bool = False,
        placed_by: str = "rule",
        victims_by: str = "agent",
        queue_slots: int = QUEUE_SLOTS,
        running_slots: int = RUNNING_SLOTS,
        exponent: float = BASE_POLICY.exponent,
        margin: float | None = None,
        queue_order: str | None = None,
        min_run_s: float = MIN_RUN_S,
        when_full: str = "claim",
        illegal: str = "next_legal",
    ) -> None:
        """Store the keywords of `GPUClusterEnv`."""
        self._actions = plain_actions(queue_slots, running_slots, placed_by, victims_by, when_full)
        self._observation = plain_observation(observation, self._actions, hints)
        self._predict, self._illegal = predict, _illegal(illegal)
        self._base_policy = base_policy(exponent, margin, queue_order, hints=hints)
        self._min_run_s = validation.finite("min_run_s", min_run_s, minimum=0)
        self._view: View | None = None

    def __call__(self, view: View) -> Action:
        """Return the next move of the action in progress, else the first move of the next action, else Wait."""
        if view is not self._view:
            self._view, self._num_pauses, self._quiet = view, 0, -1
            self._slots = Slots(*self._actions[:2], self._min_run_s)
            self._moves: list[Action] = []
            source = source_of(view)
            adopt(source.states, 0, source.jobs, fixed(self._base_policy))
        if not self._moves:
            self._moves = self._decide(view) if self._is_asked(view) else []
        move = self._moves.pop(0) if self._moves else self._wait(view)
        if isinstance(move, Preempt):
            self._num_pauses += 1
            if self._num_pauses > MAX_INSTANTS_PER_JOB * len(view.jobs.phase):
                raise StalledEpisodeError(ENDLESS)
        return move

    def _is_asked(self, view: View) -> bool:
        """Return whether the agent is asked at this instant: not at ticks while it waits, if it pauses jobs itself."""
        return not self._actions.pauses or _events(view) != self._quiet

    def _wait(self, view: View) -> Wait:
        """Return a wait for the next event, until at most `stepping.LONGEST_WAIT_S` after the agent was last asked."""
        if self._is_asked(view):
            self._until_s = view.now + stepping.LONGEST_WAIT_S
        # Not past the next instant where a job was paused at this one, since it may start then.
        self._quiet = -1 if len(view.waiting) < len(view.queue) else _events(view)
        state = source_of(view).states[0]
        limited = (
            self._actions.pauses and not view.nothing_pending and state["num_done"] < state["num_arrived"]
        )
        return Wait(self._until_s - view.now if limited else None)

    def _decide(self, view: View) -> list[Action]:
        """Return the moves of the agent's next action, none to wait."""
        slots, actions, source = self._slots, self._actions, source_of(view)
        slots.refresh(source.states, 0, source.jobs)
        mask = actions.mask(slots)
        if not len(view.jobs.phase) or not mask[:-1].any():
            return []
        if actions.pauses:
            slots.running_features[:, IS_LEGAL] = mask[actions.pausing]
        if actions.places == 1:
            count = len(slots.queue_mask)
            slots.queue_part[-count:-1], slots.queue_part[-1] = mask[: count - 1], mask[-1]
        legal = mask.astype(bool)
        if isinstance(self._observation, FromView):
            seen = self._observation(view)
        else:
            sizes = Sizes(*actions[:2], len(view.gpus.node), len(view.nodes.cores))
            seen = self._observation(slots.observation, sizes)
        chosen = self._predict(seen, legal)
        number = allowed(chosen, legal, illegal=self._illegal, last_resort=actions.pausing)
        if number == actions.wait:
            return []
        moves = actions.moves(number, slots, view)
        return moves or (self._decide(view) if actions.when_full == "displace" else [])


def _events(view: View) -> int:
    """Return the number of instants so far that were not only ticks."""
    state = source_of(view).states[0]
    return int(state["instant"] - state["ticks"])


class CompiledPlainAgent(PlainAgent, RunsCompiled):
    """The same agent, which the kernel calls at each choice without copies of the episode: results are the same."""

    def run_compiled(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Run the first record to the end; return whether every job ended. StalledEpisodeError if it never ends."""
        actions, first = self._actions, states[0]
        adopt(states, 0, jobs, fixed(self._base_policy))
        sizes = Sizes(*actions[:2], int(first["num_gpus"]), int(first["num_nodes"]))
        queue_only = width(actions.queue_slots), parts_of(*sizes)["free_cores"].stop
        rows = np.zeros((1, queue_only[0] if self._observation.only_queue else queue_only[1]), np.float32)
        listed = np.full((1, actions.queue_slots + actions.running_slots), -1, np.int64)
        masks, outcomes = np.zeros((1, actions.wait + 1), np.int8), np.zeros((1, len(stepping.OUTCOME)))
        caches, chosen = np.zeros(1, cache_dtype(states.dtype)), np.full(1, stepping.BEGIN)
        rules = actions.queue_slots, actions.places, actions.lever, self._min_run_s
        num_pauses = 0
        while True:
            stepping.step(states[:1], jobs[np.newaxis], caches, chosen, *rules, listed, rows, masks, outcomes)
            if outcomes[0, stepping.DONE] or outcomes[0, stepping.ENDLESS]:
                return bool(outcomes[0, stepping.DONE])
            num_pauses += actions.starts <= chosen[0] < actions.wait
            if max(num_pauses, outcomes[0, stepping.INSTANTS]) > MAX_INSTANTS_PER_JOB * len(jobs):
                raise StalledEpisodeError(ENDLESS)
            legal = masks[0].astype(bool)
            seen = self._observation(rows[0], sizes)
            chosen[0] = allowed(
                self._predict(seen, legal), legal, illegal=self._illegal, last_resort=actions.pausing
            )


class DrawingAgent(CompiledPlainAgent):
    """An agent of the action `plain` that draws, by random numbers `_rng` that depend on the jobs of a window alone."""

    _rng: np.random.Generator

    def __call__(self, view: View) -> Action:
        """Return the next move; the random numbers begin with the episode."""
        if view is not self._view:
            self._begin(source_of(view).jobs)
        return super().__call__(view)

    def run_compiled(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Run the first record to the end."""
        self._begin(jobs)
        return super().run_compiled(states, jobs, histories)

    def _begin(self, jobs: np.ndarray) -> None:
        self._rng = stream(zlib.crc32(self._seeds(jobs).tobytes()), "actions")

    def _seeds(self, jobs: np.ndarray) -> np.ndarray:
        """Return the numbers on which the random ones depend: of the first job, since no policy knows of later ones."""
        return np.array([jobs[name][0] for name in ("submit_s", "num_gpus", "profiled_duration_s")], float)


class ExplainsMoves(Protocol):
    """A function that predicts a move, and says by what values it chooses.

    It chooses the move of the largest value, if that exceeds the value of the rule's own choice by more than `margin`.
    keys: description of the values.
    """

    keys: str
    margin: float

    def __call__(self, observation: Mapping[str, np.ndarray], mask: np.ndarray) -> int:
        """Return the index of a move."""

    def values(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the value of each move, (max_moves,); -inf for those that it may not choose."""


STARTED = (RESERVED, LOADING, RUNNING)
"""Phases of a job whose start has been decided."""
VALUED = (
    "Of the listed moves the agent makes the best in place of the rule's own choice if it exceeds a margin."
)


@dataclass
class MovesAgent(RecordsReasons):
    """An agent of the action `moves`; the kernel runs the episode and calls it at each choice.

    predict: a function, which may be an `ExplainsMoves`; then decisions have reasons.
    default_weights: weights of the rule that lists the moves, and makes those that are not chosen.
    decisions: the record of decisions, see `recording`. The other fields are keywords of `MovesEnv`.
    """

    predict: Predict
    default_weights: Mapping[str, float] | None = None
    queued_jobs: int = QUEUED_JOBS
    running_jobs: int = RUNNING_JOBS
    max_moves: int = MAX_MOVES
    cores: bool = False
    illegal: str = "next_legal"
    decisions: Decisions | None = None

    def __post_init__(self) -> None:
        """Validate the fields."""
        self._sizes = move_sizes(self.queued_jobs, self.running_jobs, self.max_moves, self.cores)
        self._rule: Rule = default_rule(self.default_weights)
        self._illegal = _illegal(self.illegal)

    def __call__(self, view: View) -> Action:
        """Raise ValueError: the agent cannot be called move by move."""
        raise ValueError(
            "an agent with action 'moves' runs inside the kernel: use `run` without step_by_step"
        )

    @property
    def has_reasons(self) -> bool:
        """Whether the agent says by what values it chooses."""
        return callable(getattr(self.predict, "values", None))

    def recording(self, decisions: Decisions) -> "MovesAgent":
        """Return a copy that appends its decisions to a record."""
        return replace(self, decisions=decisions)

    def run_compiled(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Run the first record to the end; return whether every job ended. RuntimeError if the episode never ends."""
        for _ in self.by_instants(states, jobs, histories):
            pass
        return bool(states["num_done"][0] == states["num_jobs"][0])

    def by_instants(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> Iterator[None]:
        """Run the first record like `run_compiled`, and yield at the end of each instant."""
        memory, lists = memory_of(self._rule, states, jobs, histories), np.zeros(1, list_dtype())
        reference, written = _without_reference(len(jobs))
        chosen, more = np.full(1, -1), written.more
        records = states[:1], memory, lists, jobs[None], chosen, np.array(self._sizes)
        moments = self.decisions and MovesRecord(self.decisions, states, jobs, memory, lists)
        while states["num_done"][0] < states["num_jobs"][0] and calls.advance(states, 0, jobs):
            chosen[0], more[0] = -1, True
            while True:
                with _paused_time(states):
                    move_steps.step(*records, reference, written)
                if moments:
                    moments.note_made()
                if not more[0]:
                    break
                if states["instant"][0] - states["ticks"][0] >= MAX_INSTANTS_PER_JOB * states["num_jobs"][0]:
                    raise StalledEpisodeError(ENDLESS)
                observation = row(observed(lists, written.load, self._sizes.max_moves), 0)
                mask = observation["mask"].astype(bool)
                chosen[0] = allowed(self.predict(observation, mask), mask, illegal=self._illegal)
                if moments:
                    moments.note_choice(int(chosen[0]), self.predict, observation)
            yield


class MovesRecord:
    """Decisions of an agent of the action `moves`, and the starts that follow from the rule between its choices."""

    def __init__(
        self,
        decisions: Decisions,
        states: np.ndarray,
        jobs: np.ndarray,
        memory: np.ndarray,
        lists: np.ndarray,
    ) -> None:
        """Take the record of decisions, and those of an episode."""
        self.decisions, self.state, self.jobs, self.memory, self.lists = (
            decisions,
            states[0],
            jobs,
            memory,
            lists,
        )
        self._phase = self.state["phase"].copy()
        self._chosen: list[tuple[Action, Reason]] = []  # what the last choice is to do
        self._pending = NOBODY

    def note_choice(self, k: int, predict: Any, observation: Mapping[str, np.ndarray]) -> None:
        """Note the chosen move, which is not made yet."""
        v, values = self.lists[0], predict.values(observation)
        own = int(v["own"])
        over_own = values[: v["num"]] - values[own]
        there = {int(at): float(over_own[at]) for at in np.flatnonzero(np.isfinite(over_own))}
        minima = dict.fromkeys((at for at in there if at != own), predict.margin)
        compared = move_reasons.options(v, there, minima, self.state["gpu_node"])
        self._chosen = [
            (action, move_reasons.reason(VALUED, predict.keys, action, v, k, compared))
            for action in move_reasons.actions_of_move(v, k)
        ]
        self._phase = self.state["phase"].copy()
        self._pending = int(self.memory[0]["pending_job"])

    def note_made(self) -> None:
        """Add the decisions of the last choice that were made, and the starts after it that follow from the rule."""
        phase, m = self.state["phase"], self.memory[0]
        for action, reason in self._chosen:
            if isinstance(action, Resize) or phase[reason.own.job] != self._phase[reason.own.job]:
                self._add(action, reason)
        chosen = {reason.own.job for _, reason in self._chosen}
        started = np.flatnonzero(~np.isin(self._phase, STARTED) & np.isin(phase, STARTED))
        for job in (int(each) for each in started if each not in chosen):
            if self.jobs["num_gpus"][job] == 0:
                own = Ranked(job, float(self.jobs["submit_s"][job]))
                rule, keys = rule_reasons.CPU_RULE, "time of submission, s"
            elif job == self._pending:
                own = Ranked(job, float(m["left_s"][job]))
                rule, keys = rule_reasons.FREED_RULE, rule_reasons.LEFT
            else:
                continue
            self._add(Start(job, Placement(())), Reason(rule, keys, own, 0, 0))
        self._phase, self._chosen, self._pending = phase.copy(), [], int(m["pending_job"])

    def _add(self, action: Action, reason: Reason) -> None:
        self.decisions.rows.append(Decision(float(self.state["clock"]), action, reason))


def _without_reference(jobs: int) -> tuple[DefaultRun, StepOutputs]:
    """Return the arrays that the kernel writes for one environment, and an empty reference run."""
    seen = np.zeros((1, len(LOAD)), np.float32), np.zeros((1, len(CRITIC)), np.float32)
    return DefaultRun(np.zeros((1, jobs)), np.ones(1)), StepOutputs(*seen, np.zeros(1), np.ones(1, bool))


@contextmanager
def _paused_time(states: np.ndarray) -> Iterator[None]:
    """Keep the kernel at the current instant: in a record that is marked as endless no time passes."""
    endless = states["endless"]
    if not endless[0]:
        endless[0] = PAUSED_TIME
    yield
    if endless[0] == PAUSED_TIME:
        endless[0] = 0


def steer_agent(
    predict: Predict,
    *,
    weights: Sequence[str] = WEIGHTS,
    decisions_per_window: int = DECISIONS,
    jobs: int = Scenario().jobs,
    default_weights: Mapping[str, float] | None = None,
) -> Steered:
    """Return an agent of the action `steer` as the policy that decides at the same instants.

    It observes the load only, as any scheduler must. jobs: number of jobs of its training windows, or `jobs` of a
    steady scenario, which with `decisions_per_window` determines the arrivals between decisions. The others are
    keywords of `SteerEnv`.
    """
    decisions = validation.whole_number("decisions_per_window", decisions_per_window)
    every = arrivals_per_decision(validation.whole_number("jobs", jobs), decisions)
    legal = np.ones(len(validation.names("weights", weights)), bool)

    def choose(load: np.ndarray) -> np.ndarray:
        offsets = np.asarray(predict(load, legal), float).reshape(-1)
        if offsets.shape != legal.shape or not np.isfinite(offsets).all():
            raise ValueError(
                f"the agent returned {offsets}: expected a finite number for each of {', '.join(weights)}"
            )
        return offsets

    return Steered(Offsets(default_rule(default_weights), weights), every, choose)


def _illegal(illegal: str) -> Illegal:
    """Return the treatment of illegal actions; ValueError for an unknown one."""
    found: Illegal = validation.choice("illegal", illegal, get_args(Illegal))
    return found


def allowed(chosen: Any, legal: np.ndarray, *, illegal: Illegal, last_resort: slice = slice(0, 0)) -> int:
    """Return an action as an integer, or the one that replaces it if it is illegal; ValueError if none does.

    last_resort: actions that replace an illegal one only where no other is legal.
    """
    answer = np.asarray(chosen)
    if answer.size != 1 or answer.dtype.kind not in "iu":
        raise ValueError(f"the agent returned {chosen!r}: expected the number of one action")
    number = int(answer.reshape(-1)[0])
    if 0 <= number < len(legal) and legal[number]:
        return number
    if illegal == "raise":
        raise ValueError(why_illegal(number, len(legal)))
    return int(replaced(np.array([number]), legal[np.newaxis], illegal, last_resort)[0])
