"""Steer the rule over moves: an action sets its weights for the next share of a window's arrivals."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict

from gpu_cluster_gym.envs import validation
from gpu_cluster_gym.envs.observation_spec import Part
from gpu_cluster_gym.envs.openings import Opening
from gpu_cluster_gym.envs.rule_batch import CRITIC_SPACE, LOAD_SPACE, RuleBatch, RuleEnv
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.kernel.union import steering
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.kernel.union.steering import CRITIC
from gpu_cluster_gym.simulator.rule_policy import (
    HIGHEST,
    LOWEST,
    Offsets,
    arrivals_per_decision,
    decision_times,
)
from gpu_cluster_gym.workloads import Scenario

WEIGHTS = (
    "price",
    "exponent",
    "shared_price",
    "harm",
    "most_busy",
    "most_slow",
    "caution",
    "backlog",
    "growth",
    "widening",
    "settled",
    "by_duty",
    "shorter_first",
    "reserve",
    "surplus",
    "spanning",
)
"""The weights that are steered unless others are named."""
TRUSTS = ("trust_cores", "trust_times")
"""Steered too where the scenario names a history."""
DECISIONS = 12  # a window


def usual_weights(*scenarios: Scenario) -> tuple[str, ...]:
    """Return the weights that are steered in all of these scenarios unless others are named."""
    return (*WEIGHTS, *TRUSTS) if all(each.with_history for each in scenarios) else WEIGHTS


class Steering(RuleBatch):
    """Environments whose actions set the rule's weights: (N, weights) offsets from -1 to 1."""

    def __init__(
        self,
        found: Sequence[Opening],
        count: int,
        *,
        weights: Sequence[str] | None = None,
        base: Mapping[str, float] | None = None,
        decisions: int = DECISIONS,
        every: int | None = None,
        privileged: bool = False,
        threads: int = 1,
    ) -> None:
        """Make room for so many environments; see `SteerEnv` for the choices.

        ValueError for what is no weight, or out of its bounds, or no number of arrivals.
        """
        super().__init__(found, count, threads=threads)
        if weights is None:
            weights = usual_weights(found[0].workload.scenario)
        rule = changed(found[0].rule, validation.weights("base", base))
        self.offsets, self.privileged = (
            Offsets(rule, validation.names("weights", weights)),
            validation.either("privileged", privileged),
        )
        count_of_jobs = len(found[0].episode.jobs)
        self.every = (
            arrivals_per_decision(count_of_jobs, validation.whole_number("decisions", decisions))
            if every is None
            else validation.whole_number("every", every)
        )
        self.action_space = Box(-1.0, 1.0, (len(weights),), np.float32)
        self.seen_parts = {"load": Part(LOAD)} | ({"critic": Part(CRITIC)} if privileged else {})
        self.observation_space = (
            Dict({"load": LOAD_SPACE, "critic": CRITIC_SPACE}) if privileged else LOAD_SPACE
        )
        self._until = np.full(count, np.inf)
        self._times: list[np.ndarray] = [np.empty(0)] * count

    def open(self, e: int, opening: Opening) -> None:
        """Describe the first instant."""
        self._times[e] = decision_times(opening.episode.jobs["submit_s"], self.every)
        self.offsets.reset(self.memory[e : e + 1])
        steering.start(self.states, e, self.memory, self.jobs, *self.rows(slice(None)))

    def step(self, actions: np.ndarray) -> None:
        """Set each environment's weights, and let it run on."""
        self.offsets.write(self.memory, actions)
        for e, times in enumerate(self._times):
            self._until[e] = times[0] if len(times) else np.inf
            self._times[e] = times[1:]
        self.in_parts(self._run_on)

    def _run_on(self, part: slice) -> None:
        runs = (self.states[part], self.memory[part], self.jobs[part], self._until[part])
        steering.steer(*runs, *self.rows(part))

    def masks(self) -> np.ndarray:
        """Tell that every offset is legal."""
        return np.ones((self.count, len(self.offsets.names)), bool)

    def seen(self) -> Any:
        """Return the load, with what a critic may see if it was asked for."""
        load = np.clip(self.load, LOWEST, HIGHEST)
        return {"load": load, "critic": np.clip(self.critic, LOWEST, HIGHEST)} if self.privileged else load


class SteerEnv(RuleEnv):
    """Steer the strongest rule made by hand: set its weights a few times in each window of a trace.

    ## Observation
    `load` (Box): totals of the queue, the running jobs and the machines; `columns` names each.
    With `privileged`, a Dict of `load` and `critic`, which shows how far the window has come and what the default rule
    had done by then: for a critic, since no scheduler knows it.

    ## Action
    Box: offsets of `weights` from those of the default rule (`simulator.rule_policy`), or of `base`; 1 moves a weight
    by three times its scale. They hold until the next decision. There are `decisions` of them a window, at like shares
    of its arrivals; fewer where many jobs come at once. With `every`, there is one after so many arrivals instead.
    `simulator.rule_policy.Steered` decides at the same instants, as a policy.

    ## Reward
    `gain`: 100 times the job-seconds won against the default rule on the same window meanwhile, over all of its own;
    so the return is the percentage by which mean JCT is lower.

    ## Start and end
    A window is drawn at reset, or named by `options={"window": n}`. The episode terminates when all jobs are done;
    `info` then holds `mean_jct_s` and `jct_ratio`, to the default rule.

    ## Arguments
    workload, scenario, split, count, render_mode: as for `GPUClusterEnv`. start: weights of the default rule that
    differ from `union`'s, by name. weights: those that are steered, by name. base: weights of the rule that is
    steered that differ from the default rule's, with which it is compared all the same. decisions: how many a window.
    every: arrivals from one decision to the next, in place of `decisions`. privileged: whether `critic` is shown too.
    """

    kind = Steering
