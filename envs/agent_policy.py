"""An agent that was trained on an environment as a policy: whatever predicts an action from an observation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_cluster_gym.envs import validation
from gpu_cluster_gym.envs.moves import QUEUED, RUNNING, shown
from gpu_cluster_gym.envs.openings import DEFAULT
from gpu_cluster_gym.envs.rule_batch import one_of
from gpu_cluster_gym.envs.slots import PartialAction, Slots
from gpu_cluster_gym.envs.steer import DECISIONS, WEIGHTS
from gpu_cluster_gym.envs.task import MOST_INSTANTS, base_policy, forgives, seen_and_done, why_illegal
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.moves import move_steps
from gpu_cluster_gym.simulator.kernel.moves.move_list import MAX_MOVES, list_dtype
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.kernel.union.steering import CRITIC, DefaultRun, StepOutputs
from gpu_cluster_gym.simulator.policy import BASE_POLICY, Action, Policy, Preempt, Resize, RunsWhole, Wait
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule, Steered, arrivals_per_decision, memory_of
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Scenario

Predict = Callable[[Any, np.ndarray], Any]
"""From an observation and the mask of legal actions, bool (actions,), to an action."""
HELD = 2  # of the field `endless`, which is 1 once a job will never end
ENDLESS = "the agent pauses and restarts jobs again and again, and they do not end"


def AgentPolicy(  # noqa: N802 - reads as what it makes
    predict: Predict, *, action: str = "primitive", **choices: Any
) -> Policy:
    """Return an agent as a policy, for `--policy mylab.agent:policy`: it does what it does in the environment.

    predict: `predict(observation, mask) -> action`, on what `gymnasium.make("GPUCluster-v2", action=action, **choices)`
    shows, one environment at a time. choices: those keywords of it that say what is seen and done: see `SlotAgent`,
    `MovesAgent` and `steer_agent`. ValueError, with the episode stopped, for an action that is illegal.
    """
    if action == "steer":
        return steer_agent(predict, **choices)
    if action == "moves":
        return MovesAgent(predict, **choices)
    return SlotAgent(predict, action=action, **choices)


class SlotAgent:
    """An agent that sees slots of jobs: actions `pick`, `primitive` and `elastic`."""

    def __init__(
        self,
        predict: Predict,
        *,
        action: str = "primitive",
        observation: str = "tables",
        queue_slots: int = 16,
        running_slots: int = 16,
        exponent: float = BASE_POLICY.exponent,
        margin: float = BASE_POLICY.margin,
        illegal: str = "raise",
    ) -> None:
        """Take keywords of `GPUClusterEnv`."""
        self._observation, self._action = seen_and_done(observation, action)
        self._predict, self._forgives = predict, forgives(illegal)
        self._base_policy = base_policy(exponent, margin)
        self._sizes = validation.slots(queue_slots, running_slots)
        self._view: View | None = None

    def __call__(self, view: View) -> Action:
        """Return the next move of the action in progress, else the first of the next action, else Wait."""
        if view is not self._view:
            self._view, self._slots, self._pauses = view, Slots(*self._sizes), 0
            self._moves: list[Action] = []
        while not self._moves:
            self._moves = self._decide(view)
        move = self._moves.pop(0)
        if isinstance(move, Preempt | Resize):
            self._count(view)
        return move

    def _count(self, view: View) -> None:
        self._pauses += 1
        if self._pauses > MOST_INSTANTS * len(view.jobs.phase):
            raise StalledEpisodeError(ENDLESS)

    def _decide(self, view: View) -> list[Action]:
        """Return what the agent does next; nothing where it has only put a start together."""
        slots, action = self._slots, self._action
        source = source_of(view)
        source.copy_under(self._base_policy)
        slots.refresh(source.states, 1, source.jobs)
        mask = action.mask(slots, view)
        wait = action.wait(slots, view)
        if not len(view.jobs.phase) or (len(action.waits) == 1 and not mask[:wait].any()):
            return [Wait()]
        legal = mask.astype(bool)
        chosen = self._predict(self._observation(slots, view, mask), legal)
        number = allowed(chosen, legal, forgiven=self._forgives)
        if number >= wait:
            return self._waits(view, Wait(action.waits[number - wait]))
        made: list[Action] = action.moves(number, slots, view)
        return made

    def _waits(self, view: View, wait: Wait) -> list[Action]:
        """Return to wait; or nothing, where nothing is pending and the jobs given up are to be chosen from again."""
        if not self._slots.partial.dropped or not view.why_not(wait):
            return [wait]
        self._slots.partial = PartialAction(instant=view.instant)
        self._count(view)
        return []


@dataclass
class MovesAgent(RunsWhole):
    """An agent that chooses among moves; it runs inside the kernel, which asks it at each choice.

    start: weights of the rule that makes the moves which are no choices. The others as for `MovesEnv`.
    """

    predict: Predict
    start: Mapping[str, float] | None = None
    queued: int = QUEUED
    running: int = RUNNING
    most: int = MAX_MOVES
    cores: bool = False
    illegal: str = "raise"

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        validation.whole_number("queued", self.queued, least=0)
        validation.whole_number("running", self.running, least=0)
        if not 3 <= validation.whole_number("most", self.most) <= MAX_MOVES:
            raise ValueError(f"most {self.most}: expected 3 to {MAX_MOVES}")
        validation.either("cores", self.cores)
        self._rule: Rule = changed(DEFAULT, validation.weights("start", self.start))
        self._forgives = forgives(self.illegal)

    def __call__(self, view: View) -> Action:
        """ValueError: it is not asked move by move."""
        raise ValueError("an agent that chooses among moves makes them inside the kernel: run it whole")

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Carry it out on the first record to the end; tell whether every job ended. RuntimeError if none comes."""
        for _ in self.by_instants(states, jobs, histories):
            pass
        return bool(states["num_done"][0] == states["num_jobs"][0])

    def by_instants(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> Iterator[None]:
        """Carry it out like `run_whole` and stop at the end of each instant."""
        memory, lists = memory_of(self._rule, states, jobs, histories), np.zeros(1, list_dtype())
        default, told = nobody_held_against(len(jobs))
        chosen, more = np.full(1, -1), told.more
        sizes = np.array([self.queued, self.running, self.most, self.cores])
        records = states[:1], memory, lists, jobs[None], chosen, sizes
        while states["num_done"][0] < states["num_jobs"][0] and calls.advance(states, 0, jobs):
            chosen[0], more[0] = -1, True
            while True:
                with time_held(states):
                    move_steps.step(*records, default, told)
                if not more[0]:
                    break
                if states["instant"][0] - states["ticks"][0] >= MOST_INSTANTS * states["num_jobs"][0]:
                    raise StalledEpisodeError(ENDLESS)
                seen = one_of(shown(lists, told.load, self.most), 0)
                mask = seen["mask"].astype(bool)
                chosen[0] = allowed(self.predict(seen, mask), mask, forgiven=self._forgives)
            yield


def nobody_held_against(jobs: int) -> tuple[DefaultRun, StepOutputs]:
    """Return what the kernel tells of one environment, and that there is no default run to tell it by."""
    seen = np.zeros((1, len(LOAD)), np.float32), np.zeros((1, len(CRITIC)), np.float32)
    return DefaultRun(np.zeros((1, jobs)), np.ones(1)), StepOutputs(*seen, np.zeros(1), np.ones(1, bool))


@contextmanager
def time_held(states: np.ndarray) -> Iterator[None]:
    """Let the kernel do what is done at this instant and nothing later: to an endless record no time passes."""
    held = states["endless"]
    if not held[0]:
        held[0] = HELD
    yield
    if held[0] == HELD:
        held[0] = 0


def steer_agent(
    predict: Predict,
    *,
    weights: Sequence[str] = WEIGHTS,
    decisions: int = DECISIONS,
    jobs: int = Scenario().jobs,
    start: Mapping[str, float] | None = None,
) -> Steered:
    """Return an agent that sets weights of the rule, as the policy that decides at the same instants.

    It sees the load alone, as any scheduler must. jobs: of the windows that it was trained on, which with `decisions`
    says after how many arrivals it decides again. The others as for `SteerEnv`.
    """
    every = arrivals_per_decision(
        validation.whole_number("jobs", jobs), validation.whole_number("decisions", decisions)
    )
    legal = np.ones(len(validation.names("weights", weights)), bool)

    def choose(load: np.ndarray) -> np.ndarray:
        offsets = np.asarray(predict(load, legal), float).reshape(-1)
        if offsets.shape != legal.shape or not np.isfinite(offsets).all():
            raise ValueError(
                f"the agent answers {offsets}: expected a number for each of {', '.join(weights)}"
            )
        return offsets

    return Steered(Offsets(changed(DEFAULT, validation.weights("start", start)), weights), every, choose)


def allowed(chosen: Any, legal: np.ndarray, *, forgiven: bool) -> int:
    """Return the number of an action, the first legal one where an illegal one is forgiven; else ValueError."""
    answer = np.asarray(chosen)
    if answer.size != 1 or answer.dtype.kind not in "iu":
        raise ValueError(f"the agent answers {chosen!r}: expected the number of one action")
    number = int(answer.reshape(-1)[0])
    if 0 <= number < len(legal) and legal[number]:
        return number
    if not forgiven:
        raise ValueError(why_illegal(number, len(legal)))
    return int(legal.argmax())
