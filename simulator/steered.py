"""The rule over moves with weights that are set anew now and then, by what is seen of the load.

Decisions come with arrivals: at the first instant, and whenever another `every` jobs have arrived. So a policy that was
learned on windows decides as often for each job on a trace of any length, and knows of no job to come.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import numpy as np

from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.rule import steering
from gpu_cluster_gym.simulator.kernel.rule.load import LOAD
from gpu_cluster_gym.simulator.policy import Action, RunsWhole
from gpu_cluster_gym.simulator.rule import RULE_PARAMETERS, Rule, RuleParameter, memory_of, next_move
from gpu_cluster_gym.simulator.source import Source, source_of

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

REACH = 3.0  # units of a weight's scale that an offset of 1 moves it by
LOWEST, HIGHEST = -8.0, 8.0  # of what is seen; beyond them lies only the absurd
Choose = Callable[[np.ndarray], np.ndarray]
"""From what is seen of the load, float32 (len(LOAD),), LOWEST to HIGHEST, to the offset of each weight, -1 to 1."""


class Offsets:
    """Weights of a rule that may be moved away from where it begins, in their order.

    An offset of 1 moves a weight up by `REACH` times its scale, as far as its bounds allow.
    """

    def __init__(self, start: Rule, weights: Sequence[str]) -> None:
        """Take the rule at offsets of 0, and the names of weights; ValueError for what is no weight, or a switch."""
        known = {each.name: each for each in RULE_PARAMETERS if each.scale > 0}
        if wrong := [name for name in weights if name not in known]:
            raise ValueError(f"no weight {', '.join(wrong)} of the rule: there is {', '.join(known)}")
        self.start, self.names = start, tuple(weights)
        self._of: tuple[RuleParameter, ...] = tuple(known[name] for name in weights)

    def begin(self, memory: np.ndarray) -> None:
        """Set all weights in memories of the rule, (N,), those that are not moved among them, to where they begin."""
        for name, value in asdict(self.start).items():
            memory[name] = value

    def write(self, memory: np.ndarray, offsets: np.ndarray) -> None:
        """Set the weights in memories of the rule, (N,), to where these offsets, (N, weights), move them."""
        memory["seen"] = -1  # what was read at this instant is read again, by these weights
        for weight, values in zip(self._of, self.moved(offsets).T, strict=True):
            memory[weight.name] = values

    def moved(self, offsets: np.ndarray) -> np.ndarray:
        """Return the weights, (N, weights), at offsets (N, weights)."""
        begin, scale, low, high = (
            np.array(each)
            for each in (
                [getattr(self.start, name) for name in self.names],
                [weight.scale for weight in self._of],
                [weight.low for weight in self._of],
                [weight.high for weight in self._of],
            )
        )
        found: np.ndarray = np.clip(begin + REACH * scale * np.clip(offsets.astype(float), -1, 1), low, high)
        return found

    def to(self, rule: Rule) -> np.ndarray:
        """Return the offsets (weights,) at which these weights are those of a rule, or as near as -1 to 1 comes."""
        apart = [
            (getattr(rule, each.name) - getattr(self.start, each.name)) / (REACH * each.scale)
            for each in self._of
        ]
        found: np.ndarray = np.clip(apart, -1.0, 1.0)
        return found

    def rule(self, offsets: np.ndarray) -> Rule:
        """Return the rule at offsets (weights,) that do not change."""
        return replace(
            self.start, **dict(zip(self.names, self.moved(offsets[None])[0].tolist(), strict=True))
        )


class Steered(RunsWhole):
    """A policy: the rule, whose weights are chosen at the first instant and after every so many arrivals.

    It keeps nothing of an episode in itself: asked of copies of one in turn, it goes on in each.
    """

    def __init__(self, offsets: Offsets, every: int, choose: Choose) -> None:
        """Take the weights that are moved, arrivals between two choices, and what chooses the offsets."""
        self.offsets, self.every, self.choose = offsets, every, choose
        self.key = uuid4()

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant."""
        source = source_of(view)
        self.choose_where_due(source, self.key, rows=1)
        return next_move(source)

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Carry it out on the first record to the end, inside the kernel; tell whether every job ended."""
        memory = memory_of(self.offsets.start, states, jobs, histories)
        return self.carry_out(states, jobs, memory, partial(steering.act_until, states, 0, memory, 0, jobs))

    def choose_where_due(self, source: Source, policy: Hashable, rows: int) -> None:
        """Choose weights if that is due by now.

        They are written into the first of the memories that `policy` keeps of an episode, which are made here, so many
        `rows`, where the source has none of its.
        """
        due = Due(policy, (int(source.state.num_arrived) - 1) // self.every)
        if source.rule == due:
            return
        if not (isinstance(source.rule, Due) and source.rule.policy == policy):
            source.rule_memory = memory_of(
                self.offsets.start, source.states, source.jobs, source.histories, rows
            )
        source.rule = due
        self._choose(source.states, source.rule_memory, source.jobs)

    def carry_out(
        self, states: np.ndarray, jobs: np.ndarray, memory: np.ndarray, act_until: Callable[[float], bool]
    ) -> bool:
        """Carry out the first record to the end; tell whether every job ended.

        Weights go into the first memory whenever they are due. act_until: acts at this instant and all before a time,
        and goes on to the first at it or later; tells whether jobs are left there.
        """
        more = bool(calls.advance(states, 0, jobs))
        for until in (*choosing_times(jobs["submit_s"], self.every).tolist(), np.inf):
            if more:
                self._choose(states, memory, jobs)
                more = bool(act_until(until))
        return bool(states["num_done"][0] == states["num_jobs"][0])

    def _choose(self, states: np.ndarray, memory: np.ndarray, jobs: np.ndarray) -> None:
        load = np.zeros(len(LOAD), np.float32)
        steering.look(states, 0, memory, 0, jobs, load)
        self.offsets.write(memory[:1], self.choose(np.clip(load, LOWEST, HIGHEST))[None])


class Due(NamedTuple):
    """What an episode keeps of the last choice of weights: whose it was, and how many had been due before it."""

    policy: Hashable
    chosen: int


def arrivals_between(jobs: int, decisions: int) -> int:
    """Return after how many arrivals to choose anew, so that there are so many decisions in so many jobs."""
    return -(-jobs // decisions)


def choosing_times(submit_s: np.ndarray, every: int) -> np.ndarray:
    """Return when another `every` jobs have arrived, s, the first instant left out; once where many come together."""
    times = np.unique(submit_s[every::every])
    later: np.ndarray = times[times > submit_s[0]]
    return later
