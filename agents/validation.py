"""Validation during training: the agent and the heuristics are scored on the same windows."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from stable_baselines3 import PPO

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.ppo import Learner, scenarios_of
from gpu_cluster_gym.agents.vec_env import batch
from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.envs.windows import shared_windows
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.evaluation.comparison import Comparison, compare
from gpu_cluster_gym.evaluation.metrics import pool, summarise
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.workloads import Scenario

HEURISTICS = ("fifo", "sjf", "srtf", "las", "xion", "xion_threshold", "union")
"""Policies that every agent is compared with, in addition to the reference policy, the floors and the constants."""

START, CONSTANTS = "start", "constants"
SHIFT_DIVISOR = 5
"""Divisor of the number of windows under each shift: under eight shifts 1.6 times as many as under none."""
BLOCK = 1_000_000  # offset of window numbers between workloads
STALLED = Comparison(math.inf, math.inf, math.inf, 0, 0)
SHOWN = ("mean_jct_s", "mean_wait_s", "preemptions", "gpu_goodput_share")


class Score(NamedTuple):
    """The result of an agent on the validation windows."""

    metrics: dict[str, float]
    """Means over windows: `SHOWN`, of `evaluation.metrics.summarise`, and the metrics of the action kind."""
    against: dict[str, Comparison]
    """Comparison of mean JCT with each other policy, paired by window; the reference policy is among them."""
    by_workload: dict[str, float]
    """Mean JCT relative to the reference policy, by workload and shift; empty for a single workload."""
    mean_jct_s: tuple[float, ...] = ()
    """Mean JCT of each window, s; empty where jobs never end."""

    @property
    def ratio(self) -> float:
        """Mean over windows of mean JCT relative to that of the reference policy."""
        return self.against[START].ratio

    def is_worse_than(self, mean_jct_s: Sequence[float]) -> bool:
        """Return whether mean JCT is longer than another agent's on the same windows, by the 95 % interval.

        A single window has no interval: whether it is longer at all. mean_jct_s: the other agent's, by window.
        """
        if not self.mean_jct_s:
            return True
        own, other = (
            pd.DataFrame({"window": range(len(each)), "seed": 0, "mean_jct_s": each})
            for each in (self.mean_jct_s, mean_jct_s)
        )
        found = compare(own, other)
        return found.ratio > 1 and not found.low <= 1  # low is NaN for a single window


class ValidationWindows:
    """The validation windows of one workload, and the results of other policies on them.

    others: summary of each other policy, by name; `START` is the reference policy.
    """

    def __init__(self, learner: Learner, scenario: Scenario, number: int) -> None:
        """Simulate the reference policy, floors and heuristics, and the constants for all workloads where they exist.

        number: index of the workload, for distinct window numbers.
        """
        count = learner.training.validation_windows
        if learner.randomizes and scenario.shift != learner.scenario.shift:
            count = max(1, count // SHIFT_DIVISOR)
        workloads = shared_windows(scenario, "validation", count)
        self._learner, self._first = learner, number * BLOCK
        self._gpus = workloads[0].cluster.num_gpus
        choices = learner.environment_in_use() | {"split": "validation", "count": count}
        self._envs = batch(count, scenario, **choices)
        policies: dict[str, Policy | type] = {START: learner.start, **FLOORS}
        policies |= {name: baselines.load(name) for name in HEURISTICS}
        trained_on = scenarios_of(learner.scenario, learner.training).values()
        workloads_of = [workload_like(each) for each in trained_on]
        if found := baselines.best_constants(workloads_of, with_history=scenario.with_history):
            policies[CONSTANTS] = baselines.load(found)
        same = [name for name, policy in policies.items() if name != START and policy == learner.start]
        makers = {
            name: lambda policy=policy: baselines.make(policy)
            for name, policy in policies.items()
            if name not in same
        }
        tables = runner.simulate(makers, workloads, processes=learner.threads)
        summaries = {name: self._summary(table) for name, table in tables.items()}
        self.others = {name: summaries[START if name in same else name] for name in policies}

    def play(self, model: PPO, *, sampled: bool) -> tuple[pd.DataFrame, dict[str, float]]:
        """Play every window; return the summary and the metrics of the action kind.

        Raise StalledEpisodeError where jobs never end.
        """
        played = self._learner.play(model, self._envs, sampled=sampled)
        return self._summary(played.table), played.metrics

    def _summary(self, table: pd.DataFrame) -> pd.DataFrame:
        summary = summarise(table, gpus=self._gpus)
        return summary.assign(window=summary["window"] + self._first)


class Validation:
    """The validation windows of all training workloads, and the results of other policies on them."""

    def __init__(self, learner: Learner) -> None:
        """Simulate the other policies on all windows."""
        self._each = {
            name: ValidationWindows(learner, scenario, number)
            for number, (name, scenario) in enumerate(learner.scenarios.items())
        }
        self._others = {
            name: pd.concat([windows.others[name] for windows in self._each.values()], ignore_index=True)
            for name in (START, *HEURISTICS, *FLOORS, CONSTANTS)
            if all(name in windows.others for windows in self._each.values())
        }

    @property
    def lines(self) -> dict[str, float]:
        """Mean over windows of each policy's mean JCT relative to the reference policy's: lines beside a curve."""
        start = self._others[START]
        return {name: compare(summary, start).ratio for name, summary in self._others.items()}

    def score(self, model: PPO, *, sampled: bool) -> Score:
        """Play every window, with the most likely actions or with sampled ones.

        The score is infinite if jobs never end in a window, so that training can continue.
        """
        try:
            played = {name: windows.play(model, sampled=sampled) for name, windows in self._each.items()}
        except StalledEpisodeError:
            return Score(dict.fromkeys(SHOWN, math.inf), dict.fromkeys(self._others, STALLED), {})
        summary = pd.concat([each for each, _ in played.values()], ignore_index=True)
        of_action = {
            name: float(np.mean([metrics[name] for _, metrics in played.values()]))
            for name in next(iter(played.values()))[1]
        }
        ratios = {
            name: compare(each, self._each[name].others[START]).ratio for name, (each, _) in played.items()
        }
        return Score(
            metrics={name: float(pool(summary)[name]) for name in SHOWN} | of_action,
            against={name: compare(summary, other) for name, other in self._others.items()},
            by_workload=ratios if len(ratios) > 1 else {},
            mean_jct_s=tuple(summary["mean_jct_s"].tolist()),
        )
