"""Validation: an agent plays windows it does not learn on, beside the heuristics, all side by side."""

import math
from typing import NamedTuple

from stable_baselines3 import PPO

import baselines
from agents.learner import Learner, NeverEndsError
from agents.vec_env import batch
from envs.task import shared_windows
from evaluation import report, results
from evaluation.comparison import Comparison, compare

HEURISTICS = ("fifo", "sjf", "srtf", "las", "xion_threshold")
"""What every agent is held against, beside what it began as."""

START = "start"
NEVER = Comparison(math.inf, math.inf, math.inf, math.inf, math.inf, 0, 0)
SHOWN = ("mean_jct_s", "mean_wait_s", "preemptions", "gpu_goodput_share")


class Score(NamedTuple):
    """How an agent does on the validation windows."""

    numbers: dict[str, float]
    """Means over windows of some numbers of `evaluation.results.summarise`, and what an action tells besides."""
    against: dict[str, Comparison]
    """Its mean JCT / that of each other, paired by window; what it began as is `start`."""

    @property
    def ratio(self) -> float:
        """Mean over windows of its mean JCT / that of what it began as."""
        return self.against[START].ratio


class Validation:
    """The validation windows, and what the heuristics make of them."""

    def __init__(self, learner: Learner) -> None:
        """Simulate the heuristics."""
        scenario, training = learner.scenario, learner.training
        count = training.validation_windows
        workloads = shared_windows(scenario, "validation", count)
        self._learner, self._gpus = learner, workloads[0].cluster.num_gpus
        choices = learner.environment() | {"split": "validation", "count": count}
        self._envs = batch(count, scenario, **choices)
        policies = {START: learner.start} | {name: baselines.load(name) for name in HEURISTICS}
        makers = {name: lambda policy=policy: baselines.make(policy) for name, policy in policies.items()}
        self._others = {
            name: results.summarise(table, gpus=self._gpus)
            for name, table in report.simulate(makers, workloads, processes=learner.threads).items()
        }

    @property
    def lines(self) -> dict[str, float]:
        """Mean over windows of each heuristic's mean JCT / that of what the agent begins as."""
        start = self._others[START]
        return {name: compare(summary, start).ratio for name, summary in self._others.items()}

    def score(self, model: PPO, *, sampled: bool) -> Score:
        """Let the agent play every window, by its most likely actions or by sampled ones.

        Infinitely bad where its jobs never end in one of them: that is no reason to stop learning.
        """
        try:
            played = self._learner.play(model, self._envs, sampled=sampled)
        except NeverEndsError:
            return Score(dict.fromkeys(SHOWN, math.inf), dict.fromkeys(self._others, NEVER))
        summary = results.summarise(played.table, gpus=self._gpus)
        return Score(
            numbers={name: float(results.pool(summary)[name]) for name in SHOWN} | played.numbers,
            against={name: compare(summary, other) for name, other in self._others.items()},
        )
