"""Validation: an agent plays windows it does not learn on, beside the heuristics, all side by side."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from stable_baselines3 import PPO

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.learner import Learner, scenarios_of
from gpu_cluster_gym.agents.vec_env import batch
from gpu_cluster_gym.envs.windows import shared_windows
from gpu_cluster_gym.evaluation import report, results
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.evaluation.comparison import Comparison, compare
from gpu_cluster_gym.simulator.errors import NeverEndsError
from gpu_cluster_gym.workloads import Scenario

HEURISTICS = ("fifo", "sjf", "srtf", "las", "xion_threshold")
"""What every agent is compared with, beside its start, and the best constants where a search found some."""

START, CONSTANTS = "start", "constants"
MANY = 12  # shifts are no longer told one by one
FEWER = 5
"""Times fewer windows of a shift than of a workload: all shifts together count some more than it."""
BLOCK = 1_000_000  # window numbers of one workload among several
NEVER = Comparison(math.inf, math.inf, math.inf, math.inf, math.inf, 0, 0)
SHOWN = ("mean_jct_s", "mean_wait_s", "preemptions", "gpu_goodput_share")


class Score(NamedTuple):
    """How an agent does on the validation windows."""

    numbers: dict[str, float]
    """Means over windows of some numbers of `evaluation.results.summarise`, and what an action tells besides."""
    against: dict[str, Comparison]
    """Its mean JCT / that of each other, paired by window; its start among them."""
    on: dict[str, float]
    """Its mean JCT / that of its start, by workload, where there are several."""

    @property
    def ratio(self) -> float:
        """Mean over windows of its mean JCT / that of its start."""
        return self.against[START].ratio

    @property
    def in_short(self) -> str:
        """The ratio on each workload; where many are under shifts, from where to where those are."""
        shifts = {name: ratio for name, ratio in self.on.items() if ", " in name}
        many = len(shifts) > MANY
        told = ", ".join(
            f"{name} {ratio:.4f}" for name, ratio in self.on.items() if not (many and name in shifts)
        )
        if not many:
            return told
        least, most = min(shifts, key=shifts.__getitem__), max(shifts, key=shifts.__getitem__)
        ends = " to ".join(f"{shifts[name]:.4f} ({name})" for name in (least, most))
        return f"{told}; under {len(shifts)} shifts {ends}"


class ValidationWindows:
    """The validation windows of one workload, and what the heuristics make of them."""

    def __init__(self, learner: Learner, scenario: Scenario, number: int) -> None:
        """Simulate the heuristics, with the best constants for all that is learned on where some were searched.

        number: of the workload, so that windows of several are told apart.
        """
        count = learner.training.validation_windows
        if learner.training.vary and scenario.shift != learner.scenario.shift:
            count = max(1, count // FEWER)
        workloads = shared_windows(scenario, "validation", count)
        self._learner, self._first = learner, number * BLOCK
        self._gpus = workloads[0].cluster.num_gpus
        choices = learner.environment() | {"split": "validation", "count": count}
        self._envs = batch(count, scenario, **choices)
        policies = {START: learner.start} | {name: baselines.load(name) for name in HEURISTICS}
        learned_on = scenarios_of(learner.scenario, learner.training).values()
        workloads_of = [workload_like(each) for each in learned_on]
        if found := baselines.best_constants(workloads_of, taught=scenario.taught):
            policies[CONSTANTS] = baselines.load(found)
        makers = {name: lambda policy=policy: baselines.make(policy) for name, policy in policies.items()}
        tables = report.simulate(makers, workloads, processes=learner.threads)
        self.others = {name: self._summary(table) for name, table in tables.items()}

    def play(self, model: PPO, *, sampled: bool) -> tuple[pd.DataFrame, dict[str, float]]:
        """Let the agent play every window; return the summary, and what is told besides. NeverEndsError as `play`."""
        played = self._learner.play(model, self._envs, sampled=sampled)
        return self._summary(played.table), played.numbers

    def _summary(self, table: pd.DataFrame) -> pd.DataFrame:
        summary = results.summarise(table, gpus=self._gpus)
        return summary.assign(window=summary["window"] + self._first)


class Validation:
    """The validation windows of all workloads that are learned on, and what the heuristics make of them."""

    def __init__(self, learner: Learner) -> None:
        """Simulate the heuristics."""
        self._each = {
            name: ValidationWindows(learner, scenario, number)
            for number, (name, scenario) in enumerate(learner.scenarios.items())
        }
        self._others = {
            name: pd.concat([windows.others[name] for windows in self._each.values()], ignore_index=True)
            for name in (START, *HEURISTICS, CONSTANTS)
            if all(name in windows.others for windows in self._each.values())
        }

    @property
    def lines(self) -> dict[str, float]:
        """Mean over windows of each heuristic's mean JCT / that of the start."""
        start = self._others[START]
        return {name: compare(summary, start).ratio for name, summary in self._others.items()}

    def score(self, model: PPO, *, sampled: bool) -> Score:
        """Let the agent play every window, by its most likely actions or by sampled ones.

        Infinitely bad where its jobs never end in one of them: that is no reason to stop learning.
        """
        try:
            played = {name: windows.play(model, sampled=sampled) for name, windows in self._each.items()}
        except NeverEndsError:
            return Score(dict.fromkeys(SHOWN, math.inf), dict.fromkeys(self._others, NEVER), {})
        summary = pd.concat([each for each, _ in played.values()], ignore_index=True)
        told = {
            name: float(np.mean([numbers[name] for _, numbers in played.values()]))
            for name in next(iter(played.values()))[1]
        }
        on = {name: compare(each, self._each[name].others[START]).ratio for name, (each, _) in played.items()}
        return Score(
            numbers={name: float(results.pool(summary)[name]) for name in SHOWN} | told,
            against={name: compare(summary, other) for name, other in self._others.items()},
            on=on if len(on) > 1 else {},
        )
