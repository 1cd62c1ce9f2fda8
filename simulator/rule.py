"""The rule over moves, a policy like a `Ranking`: it shares, preempts, sizes jobs and divides cores by its weights.

It runs whole inside the kernel (`simulator.kernel.rule_over_moves`), from any state, or is asked move by move; both
ways do the same.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from simulator import measurements
from simulator.kernel import rule_over_moves
from simulator.kernel.layout import NOBODY
from simulator.kernel.levers import CORES, MOVE, PAUSE, START, WAIT
from simulator.kernel.rule_memory import fresh_memory
from simulator.kernel.rule_parameters import RULE_PARAMETERS, RuleParameter, RuleParameters
from simulator.policy import Action, Placement, Preempt, Resize, Start, Throttle, Wait
from simulator.source import Source, source_of
from simulator.speed_model import fit

if TYPE_CHECKING:
    from simulator.view import View

__all__ = ["RULE_PARAMETERS", "Rule", "RuleParameter", "memory_of", "run_rule"]


@dataclass(frozen=True)
class Rule(RuleParameters):
    """A policy made of weights; see `RuleParameters` for each. ValueError where one is out of bounds."""

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant."""
        source = source_of(view)
        if source.rule != self:
            source.rule, source.rule_memory = self, memory_of(self, source.states, source.jobs)
        return next_move(source)


def memory_of(rule: Rule, states: np.ndarray, jobs: np.ndarray, rows: int = 1) -> np.ndarray:
    """Return what a rule keeps of an episode at its beginning, `rows` times; fits the profiles of jobs that are not."""
    fit_profiles(states, jobs)
    return fresh_memory(states, asdict(rule), rows)


def fit_profiles(states: np.ndarray, jobs: np.ndarray) -> None:
    """Write the coefficients that fit each job's profile into the jobs, where they are not known yet."""
    unknown = np.flatnonzero(~jobs["fitted"].any(axis=1) & (jobs["num_gpus"] > 0))
    for job in unknown.tolist():
        jobs["fitted"][job] = fit(measurements.profiled(states, jobs, job))


def run_rule(rule: Rule, states: np.ndarray, jobs: np.ndarray) -> bool:
    """Carry out a rule on the first record to the end; tell whether every job ended."""
    memory = memory_of(rule, states, jobs)
    return bool(rule_over_moves.run_until(states, 0, memory, 0, jobs, np.inf))


def next_move(source: Source) -> Action:
    """Return what the rule does next, and let it take that as done."""
    memory = source.rule_memory
    kind = rule_over_moves.next_move(source.states, 0, memory, 0, source.jobs)
    m = memory[0]
    if kind == WAIT:
        return Wait(None if np.isinf(m.wait_s) else float(m.wait_s))
    at = int(m.next_move) - 1
    job, value = int(m.move_job[at]), float(m.move_value[at])
    if kind == PAUSE:
        return Preempt(job)
    if kind == CORES:
        return Resize(job, value)
    if kind not in (START, MOVE):
        return Throttle(job, value)
    node = int(m.node) if m.node != NOBODY and kind == START else None
    place = Placement(tuple(m.gpus[: m.num_gpus].tolist()), value if value > 0 else None, node)
    return Start(job, place) if kind == START else Resize(job, placement=place)
