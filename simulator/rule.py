"""The rule over moves, a policy like a `Ranking`: it shares, preempts, sizes jobs and divides cores by its weights.

It runs whole inside the kernel (`simulator.kernel.rule.rule_over_moves`), from any state, or is asked move by move;
both ways do the same.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator import measurements
from gpu_cluster_gym.simulator.compiled_policy import next_listed
from gpu_cluster_gym.simulator.kernel.moves import beliefs
from gpu_cluster_gym.simulator.kernel.rule import rule_over_moves
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import fresh_memory
from gpu_cluster_gym.simulator.kernel.rule.rule_parameters import (
    RULE_PARAMETERS,
    RuleParameter,
    RuleParameters,
)
from gpu_cluster_gym.simulator.policy import Action, RunsWhole
from gpu_cluster_gym.simulator.source import Source, source_of
from gpu_cluster_gym.simulator.speed_model import fit

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

__all__ = ["RULE_PARAMETERS", "Rollouts", "Rule", "RuleParameter", "memory_of"]


@dataclass(frozen=True)
class Rule(RuleParameters, RunsWhole):
    """A policy made of weights; see `RuleParameters` for each. ValueError where one is out of bounds."""

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant."""
        source = source_of(view)
        if source.rule != self:
            source.rule, source.rule_memory = (
                self,
                memory_of(self, source.states, source.jobs, source.histories),
            )
        return next_move(source)

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Carry it out on the first record to the end; tell whether every job ended."""
        memory = memory_of(self, states, jobs, histories)
        return bool(rule_over_moves.run_until(states, 0, memory, 0, jobs, np.inf))


def memory_of(
    rule: Rule, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray, rows: int = 1
) -> np.ndarray:
    """Return what a rule keeps of an episode at its beginning, `rows` times; fits the profiles of jobs that are not.

    histories: records of what is learned from finished jobs, of which the first is copied.
    """
    fit_profiles(states, jobs)
    return fresh_memory(states, asdict(rule), histories, rows)


def fit_profiles(states: np.ndarray, jobs: np.ndarray) -> None:
    """Write the coefficients that fit each job's profile into the jobs, where they are not known yet."""
    unknown = np.flatnonzero(~jobs["fitted"].any(axis=1) & (jobs["num_gpus"] > 0))
    for job in unknown.tolist():
        jobs["fitted"][job] = fit(measurements.profiled(states, jobs, job))


class Rollouts:
    """Room to carry a rule on from any state without touching it; used again and again."""

    def __init__(self, states: np.ndarray, memory: np.ndarray, jobs: np.ndarray) -> None:
        """Make room for a record, a memory and jobs like these."""
        self.states, self.memory = states[:1].copy(), memory[:1].copy()
        self.jobs = jobs.copy()

    def copy(self, states: np.ndarray, e: int, memory: np.ndarray, k: int, jobs: np.ndarray) -> None:
        """Take over record e and memory k, and the jobs."""
        self.states[0], self.memory[0] = states[e], memory[k]
        self.jobs[:] = jobs

    def imagine(self, seed: int) -> None:
        """Put what may be believed (`kernel.moves.beliefs`) in place of the truth: drawn run times, no arrivals."""
        beliefs.imagine(self.states, 0, self.memory, 0, self.jobs, seed)

    def run(self, until_s: float = np.inf) -> float:
        """Carry the rule on to a time on the episode's clock, or to the end; return the job-seconds from here.

        At this instant nothing more is done: to begin with what the rule would do at it, ask it before.
        """
        spent = float(self.states["present_seconds"][0])
        rule_over_moves.run_until(self.states, 0, self.memory, 0, self.jobs, until_s)
        return float(self.states["present_seconds"][0]) - spent


def next_move(source: Source) -> Action:
    """Return what the rule does next, and let it take that as done."""
    memory = source.rule_memory
    kind = rule_over_moves.next_move(source.states, 0, memory, 0, source.jobs)
    return next_listed(memory, kind)
