"""Policies of the rule `union`: with fixed weights (`Rule`), or with weights chosen by the load (`Steered`).

The compiled algorithm is in `simulator.kernel.union`; this file is its Python side. A policy runs an episode inside the
kernel, from any state, or is asked move by move; both ways give the same results.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import numpy as np

from gpu_cluster_gym.simulator import measurements, rule_reasons
from gpu_cluster_gym.simulator.compiled_policy import next_listed
from gpu_cluster_gym.simulator.interrupts import interruptible
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.union import decide, steering
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.kernel.union.weights import (
    RULE_PARAMETERS,
    RuleParameter,
    RuleParameters,
    init_memory,
)
from gpu_cluster_gym.simulator.policy import Action, RunsCompiled
from gpu_cluster_gym.simulator.reasons import Reason
from gpu_cluster_gym.simulator.source import Source, source_of
from gpu_cluster_gym.simulator.speed_model import fit
from gpu_cluster_gym.traces import unknown

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

__all__ = ["RULE_PARAMETERS", "Offsets", "Rule", "RuleParameter", "Steered", "memory_of"]

REACH = 3.0  # change of a weight by an offset of 1, in units of its scale
LOWEST, HIGHEST = -8.0, 8.0  # bounds of load features; only absurd values are clipped
Choose = Callable[[np.ndarray], np.ndarray]
"""A function from load features, float32 (len(LOAD),), LOWEST to HIGHEST, to the offset of each weight, -1 to 1."""


@dataclass(frozen=True)
class Rule(RuleParameters, RunsCompiled):
    """The rule `union` with these weights; see `RuleParameters`. ValueError if one is out of bounds."""

    def __call__(self, view: "View") -> Action:
        """Return the next action of this instant."""
        source = source_of(view)
        if source.rule != self:
            source.rule, source.rule_memory = (
                self,
                memory_of(self, source.states, source.jobs, source.histories),
            )
        return next_move(source)

    def reason(self, view: "View", action: Action) -> Reason | None:
        """Return the reason of the action returned last; None for changes of cores."""
        return rule_reasons.reason(source_of(view), action)

    def run_compiled(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Run the first record to the end; return whether every job finished."""
        memory = memory_of(self, states, jobs, histories)
        return bool(interruptible(states, decide.run_until, states, 0, memory, 0, jobs, np.inf))


def memory_of(
    rule: Rule, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray, rows: int = 1
) -> np.ndarray:
    """Return `rows` initial memories of a rule for an episode, and fit the profiles of its jobs where that is missing.

    histories: history records, of which the first is copied.
    """
    fit_profiles(states, jobs)
    return init_memory(states, asdict(rule), histories, rows)


def fit_profiles(states: np.ndarray, jobs: np.ndarray) -> None:
    """Write the coefficients fitted to each job's profile into the jobs that lack them."""
    unfitted = np.flatnonzero(~jobs["fitted"].any(axis=1) & (jobs["num_gpus"] > 0))
    for job in unfitted.tolist():
        jobs["fitted"][job] = fit(measurements.profiled(states, jobs, job))


def next_move(source: Source) -> Action:
    """Return the next action of the rule, which its memory then treats as carried out."""
    memory = source.rule_memory
    kind = decide.next_move(source.states, 0, memory, 0, source.jobs)
    return next_listed(memory, kind)


class Offsets:
    """Adjustable weights of a rule, in order, as offsets from their initial values.

    An offset of 1 increases a weight by `REACH` times its scale, within its bounds.
    """

    def __init__(self, start: Rule, weights: Sequence[str]) -> None:
        """Take the rule at offsets of 0, and the names of weights; ValueError for an unknown weight or a switch."""
        known = {each.name: each for each in RULE_PARAMETERS if each.scale > 0}
        if wrong := [name for name in weights if name not in known]:
            raise ValueError(unknown("adjustable weight", wrong[0], known))
        self.start, self.names = start, tuple(weights)
        self._of: tuple[RuleParameter, ...] = tuple(known[name] for name in weights)

    def reset(self, memory: np.ndarray) -> None:
        """Set all weights in memories of the rule, (N,), to their initial values, adjustable or not."""
        for name, value in asdict(self.start).items():
            memory[name] = value

    def write(self, memory: np.ndarray, offsets: np.ndarray) -> None:
        """Set the adjustable weights in memories of the rule, (N,), by offsets (N, weights)."""
        memory["state_seen"] = -1  # so that the state is read again, under these weights
        for weight, values in zip(self._of, self.weights_at(offsets).T, strict=True):
            memory[weight.name] = values

    def weights_at(self, offsets: np.ndarray) -> np.ndarray:
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

    def of_rule(self, rule: Rule) -> np.ndarray:
        """Return the offsets (weights,), -1 to 1, at which the weights are nearest to those of a rule."""
        apart = [
            (getattr(rule, each.name) - getattr(self.start, each.name)) / (REACH * each.scale)
            for each in self._of
        ]
        found: np.ndarray = np.clip(apart, -1.0, 1.0)
        return found

    def rule_at(self, offsets: np.ndarray) -> Rule:
        """Return the rule at constant offsets (weights,)."""
        return replace(
            self.start, **dict(zip(self.names, self.weights_at(offsets[None])[0].tolist(), strict=True))
        )


class Steered(RunsCompiled):
    """The rule with weights chosen by the load, at the first instant and after every `every` arrivals.

    Since decisions follow arrivals, a policy that was trained on windows decides as often per job on a trace of any
    length, and knows of no future job. The object holds no state of an episode: it can be asked about copies in turn.
    """

    def __init__(self, offsets: Offsets, every: int, choose: Choose) -> None:
        """Take the adjustable weights, the number of arrivals between decisions, and the choice of offsets."""
        self.offsets, self.every, self.choose = offsets, every, choose
        self.key = uuid4()

    def __call__(self, view: "View") -> Action:
        """Return the next action of this instant."""
        source = source_of(view)
        self.update_weights(source, self.key, rows=1)
        return next_move(source)

    def reason(self, view: "View", action: Action) -> Reason | None:
        """Return the reason of the action returned last; None for changes of cores."""
        return rule_reasons.reason(source_of(view), action)

    def run_compiled(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Run the first record to the end, inside the kernel; return whether every job finished."""
        memory = memory_of(self.offsets.start, states, jobs, histories)
        return self.run_intervals(
            states,
            jobs,
            memory,
            partial(interruptible, states, steering.act_until, states, 0, memory, 0, jobs),
        )

    def update_weights(self, source: Source, policy: Hashable, rows: int) -> None:
        """Choose weights if a decision is due.

        They are written into the first memory that `policy` has of the episode; `rows` memories are made if it has
        none.
        """
        decision = Decision(policy, (int(source.state.num_arrived) - 1) // self.every)
        if source.rule == decision:
            return
        if not (isinstance(source.rule, Decision) and source.rule.policy == policy):
            source.rule_memory = memory_of(
                self.offsets.start, source.states, source.jobs, source.histories, rows
            )
        source.rule = decision
        self._choose(source.states, source.rule_memory, source.jobs)

    def run_intervals(
        self, states: np.ndarray, jobs: np.ndarray, memory: np.ndarray, act_until: Callable[[float], bool]
    ) -> bool:
        """Run the first record to the end; return whether every job finished.

        Weights are written into the first memory whenever a decision is due. act_until: acts at the current instant and
        all others before a time, advances to the first instant from that time on, and returns whether jobs are left.
        """
        more = bool(calls.advance(states, 0, jobs))
        times = decision_times(jobs["submit_s"], self.every, float(states["clock"][0]))
        for until in (*times.tolist(), np.inf):
            if more:
                self._choose(states, memory, jobs)
                more = bool(act_until(until))
        return bool(states["num_done"][0] == states["num_jobs"][0])

    def _choose(self, states: np.ndarray, memory: np.ndarray, jobs: np.ndarray) -> None:
        load = np.zeros(len(LOAD), np.float32)
        steering.observe_load(states, 0, memory, 0, jobs, load)
        self.offsets.write(memory[:1], self.choose(np.clip(load, LOWEST, HIGHEST))[None])


class Decision(NamedTuple):
    """The last decision of an episode: the policy that took it, and the number of decisions before it."""

    policy: Hashable
    number: int


def arrivals_per_decision(jobs: int, decisions: int) -> int:
    """Return the number of arrivals between decisions, for this number of decisions and of jobs."""
    return -(-jobs // decisions)


def decision_times(submit_s: np.ndarray, every: int, first_s: float) -> np.ndarray:
    """Return the times (s) at which another `every` jobs have arrived, without duplicates.

    first_s: first instant of the episode, which the times follow; in a steady window jobs have arrived before it.
    """
    times = np.unique(submit_s[every::every])
    later: np.ndarray = times[times > max(first_s, submit_s[0])]
    return later
