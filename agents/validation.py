"""Validation: an agent plays windows it does not learn on, beside the heuristics, all through one network call."""

from dataclasses import asdict
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

import baselines
from agents.network import SlotNetwork
from agents.training import Training
from envs.task import shared_windows
from envs.vector import GPUClusterVectorEnv
from evaluation import report, results
from evaluation.comparison import compare
from workloads import Scenario

HEURISTICS = ("fifo", "sjf", "srtf", "las", "xion_threshold")
"""What every agent is held against, beside its base policy."""

SHOWN = ("mean_jct_s", "mean_wait_s", "preemptions", "gpu_goodput_share")
SAMPLING_SEED = 0  # the same draws at every validation, so that a curve shows the agent and not chance


class Score(NamedTuple):
    """How an agent does on the validation windows."""

    numbers: dict[str, float]
    """Means over windows of some numbers of `evaluation.results.summarise`."""
    ratios: dict[str, float]
    """Mean over windows of its mean JCT / that of the base policy and of each heuristic."""
    agreement: float
    """Share of decisions in which it does what its base policy would."""


class Validation:
    """The validation windows, and what the heuristics make of them."""

    def __init__(self, scenario: Scenario, training: Training) -> None:
        """Simulate the heuristics."""
        count = training.validation_windows
        workloads = shared_windows(scenario, "validation", count)
        self._gpus = workloads[0].cluster.num_gpus
        choices = training.environment() | {"reward": "jct", "split": "validation", "count": count}
        self._envs = GPUClusterVectorEnv(count, asdict(scenario), autoreset="Disabled", **choices)
        policies = {"base_policy": training.base_policy} | {name: baselines.load(name) for name in HEURISTICS}
        makers = {name: lambda policy=policy: baselines.make(policy) for name, policy in policies.items()}
        self._others = {
            name: results.summarise(table, gpus=self._gpus)
            for name, table in report.simulate(makers, workloads).items()
        }

    def score(self, network: SlotNetwork, *, sampled: bool) -> Score:
        """Let the network play every window, by its most likely actions or by sampled ones."""
        generator = torch.Generator().manual_seed(SAMPLING_SEED) if sampled else None
        table, agreement = play(self._envs, network, generator)
        summary = results.summarise(table, gpus=self._gpus)
        return Score(
            numbers={name: float(results.pool(summary)[name]) for name in SHOWN},
            ratios={name: compare(summary, other).ratio for name, other in self._others.items()},
            agreement=agreement,
        )


def play(
    envs: GPUClusterVectorEnv, network: SlotNetwork, generator: torch.Generator | None = None
) -> tuple[pd.DataFrame, float]:
    """Play environment i on its window i to the end, all side by side; greedily without a generator.

    Returns the results table and the share of decisions that the base policy would have taken too.
    """
    windows = list(envs.task.windows[: envs.num_envs])
    seen, _ = envs.reset(options={"window": windows})
    going = np.arange(envs.num_envs)
    actions = np.zeros(envs.num_envs, np.int64)
    agreed = decisions = 0
    while len(going):
        actions[going] = network.choose(torch.from_numpy(seen[going]), generator).numpy()
        seen, _, ended, cut, info = envs.step(actions)
        if cut.any():
            window = envs.task.workloads[windows[int(cut.argmax())]].window
            raise RuntimeError(
                f"window {window} does not end: the agent pauses and restarts jobs again and again"
            )
        agreed += int(info["agrees"].sum())
        decisions += len(going)
        going = going[~ended[going]]
    tables = [envs.results(i) for i in range(envs.num_envs)]
    return pd.concat(tables, ignore_index=True), agreed / decisions
