"""Look-ahead, a policy on top of a rule over moves: it tries moves in imagined futures and makes what wins.

What is imagined rests on what a scheduler knows (`simulator.kernel.moves.beliefs`); the formula is in
`simulator.kernel.moves.look_ahead`. It runs whole inside the kernel, or is asked move by move; both ways do the same.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.compiled_policy import next_listed
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.moves import labels, look_ahead
from gpu_cluster_gym.simulator.kernel.moves.look_ahead import Choices, Room
from gpu_cluster_gym.simulator.kernel.moves.move_list import list_dtype
from gpu_cluster_gym.simulator.policy import Action, RunsWhole
from gpu_cluster_gym.simulator.rule import Rule, memory_of
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.steered import Steered

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

__all__ = ["Labels", "LookAhead", "label"]


@dataclass(frozen=True)
class LookAhead(RunsWhole):
    """Do what a rule does, but where another move wins in imagined futures; ValueError where a choice is out of bounds.

    rule: whose choices are compared with others, and that goes on after each; or what steers one, whose weights of then
        it goes on with. They change with arrivals, of which a future has none.
    draws: futures in which the finalists are compared with the rule's own choice; at least 2 where estimates err.
    screening: futures, others than those, in which all moves listed are; 0 to compare all in `draws` at once.
    finalists: the moves that win most in the screening, at most; none if none wins anything.
    z: standard errors that a mean gain must exceed.
    margin_s: discounted job-seconds that it must exceed.
    tau_s: time constant of the discount; futures are cut at 4 of it. Infinite: nothing is discounted, and a future ends
        with the last of the jobs of now.
    rounds: deviations from the rule at an instant, at most; 0 for the rule itself.
    queued, running: how many jobs are looked at, see `envs.moves`.
    rest_s: seconds after which moves are compared again though nothing has arrived, ended, started or been paused.
    contention: times the slowdown on shared GPUs that there is, as it is believed; to see what a wrong model costs.
    """

    rule: Rule | Steered = Rule()  # noqa: RUF009 - frozen
    draws: int = 8
    screening: int = 2
    finalists: int = 4
    z: float = 2.0
    margin_s: float = 1.0
    tau_s: float = np.inf
    rounds: int = 3
    queued: int = 4
    running: int = 4
    rest_s: float = 600.0
    contention: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is out of bounds."""
        least = {"draws": 1, "screening": 0, "finalists": 1, "rounds": 0, "queued": 0, "running": 0}
        wrong = [f"{name} {getattr(self, name)}" for name, low in least.items() if getattr(self, name) < low]
        wrong += [
            f"{name} {getattr(self, name)}"
            for name in ("z", "margin_s", "rest_s", "contention")
            if not getattr(self, name) >= 0
        ]
        wrong += [] if self.tau_s > 0 else [f"tau_s {self.tau_s}"]
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: too small")

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant."""
        source = source_of(view)
        if isinstance(self.rule, Steered):
            self.rule.choose_where_due(source, (self.rule.key, self.choices), rows=2)
        elif source.rule != self:
            source.rule = self
            source.rule_memory = memory_of(self.rule, source.states, source.jobs, source.histories, rows=2)
        if not isinstance(source.room, Futures) or source.room.room.memory is not source.rule_memory:
            source.room = futures(source.states, source.jobs, source.rule_memory)
        kind = look_ahead.next_move(source.states, source.jobs, *source.room, self.choices)
        return next_listed(source.rule_memory, kind)

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Carry it out on the first record to the end; tell whether every job ended."""
        return carried_out(self, states, jobs, memory_of(self.start, states, jobs, histories, rows=2))

    @property
    def start(self) -> Rule:
        """The rule with the weights with which an episode begins."""
        return self.rule.offsets.start if isinstance(self.rule, Steered) else self.rule

    @property
    def choices(self) -> Choices:
        """What the kernel is told of it."""
        counts = (self.draws, self.screening, self.finalists, self.rounds, self.queued, self.running)
        return Choices(
            *map(int, counts),
            *map(float, (self.z, self.margin_s, self.tau_s, self.rest_s, self.contention)),
        )


class Futures(NamedTuple):
    """A list of moves, and room to imagine what becomes of each."""

    lists: np.ndarray
    room: Room


class Labels(NamedTuple):
    """What is estimated of each move of a list, the rule's own among them.

    features: (moves, `simulator.kernel.moves.move_list.FEATURES`). won_s: (moves,), discounted job-seconds over the
    rule's own choice, of which it is 0. error_s: (moves,), standard errors. own: the place of the rule's own choice.
    """

    features: np.ndarray
    won_s: np.ndarray
    error_s: np.ndarray
    own: int


def carried_out(policy: LookAhead, states: np.ndarray, jobs: np.ndarray, memory: np.ndarray) -> bool:
    """Do so with this memory, (2,), which then holds what was counted on the way."""
    act_until = partial(look_ahead.act_until, states, jobs, *futures(states, jobs, memory), policy.choices)
    if isinstance(policy.rule, Steered):
        return policy.rule.carry_out(states, jobs, memory, act_until)
    if calls.advance(states, 0, jobs):
        act_until(np.inf)
    return bool(states["num_done"][0] == states["num_jobs"][0])


def label(policy: LookAhead, states: np.ndarray, jobs: np.ndarray, memory: np.ndarray) -> Labels | None:
    """Estimate what each move at this instant wins, in `draws` futures all; None where there is no choice.

    The first record and the first memory, of a rule or of this policy, are only read.
    """
    states, jobs, memory = states[:1].copy(), jobs.copy(), memory[[0, 0]]
    lists, room = futures(states, jobs, memory)
    if not labels.label(states, jobs, lists, room, policy.choices):
        return None
    v, count = lists[0], int(lists[0].num)
    won, futures_tried = v.won[:count], v.futures[:count]
    squares = v.won_squared[:count] - won**2 / futures_tried
    error = np.sqrt(np.maximum(squares, 0.0) / np.maximum(futures_tried - 1, 1) / futures_tried)
    return Labels(v.features[:count].copy(), won / futures_tried, error, int(v.own))


def futures(states: np.ndarray, jobs: np.ndarray, memory: np.ndarray) -> Futures:
    """Make room for the futures of an episode, and for the list of its moves; memory: (2,)."""
    imagined, others = np.zeros(2, states.dtype), np.zeros(len(jobs), jobs.dtype)
    words = (states[:1], jobs, imagined, others, memory)
    return Futures(np.zeros(1, list_dtype()), Room(imagined, others, memory, *map(as_words, words)))


def as_words(records: np.ndarray) -> Any:
    """Return records as whole numbers, a row each, in the same place."""
    return records.view(np.uint64).reshape(len(records), -1)
