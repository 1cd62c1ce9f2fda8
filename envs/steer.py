"""The action `steer`: set the weights of the rule `union` a few times per window."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from gpu_cluster_gym.envs import validation
from gpu_cluster_gym.envs.batch import UnionBatch, clipped_load, privileged_space
from gpu_cluster_gym.envs.env import UnionEnv
from gpu_cluster_gym.envs.spaces import Part
from gpu_cluster_gym.envs.windows import PreparedWindow
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.kernel.union import steering
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.kernel.union.steering import CRITIC
from gpu_cluster_gym.simulator.rule_policy import Offsets, decision_times
from gpu_cluster_gym.simulator.rule_policy import arrivals_per_decision as usual_interval
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
"""Default weights that an action sets."""
TRUSTS = ("trust_cores", "trust_times")
"""Further default weights where the scenario names a history."""
DECISIONS = 12  # per window


def usual_weights(*scenarios: Scenario) -> tuple[str, ...]:
    """Return the default weights for all of these scenarios."""
    return (*WEIGHTS, *TRUSTS) if all(each.with_history for each in scenarios) else WEIGHTS


class SteerBatch(UnionBatch):
    """Environments of the action `steer`: actions are offsets of the weights, float (N, weights), from -1 to 1."""

    no_advantage = "does not apply to action 'steer', whose actions set weights instead of choosing a move"

    def __init__(
        self,
        windows: Sequence[PreparedWindow],
        count: int,
        *,
        weights: Sequence[str] | None = None,
        base_weights: Mapping[str, float] | None = None,
        decisions_per_window: int = DECISIONS,
        arrivals_per_decision: int | None = None,
        privileged: bool = False,
        reward: str | Callable[..., Any] = "gain",
        mask: str = "info",
        threads: int = 1,
    ) -> None:
        """Allocate the records; see `SteerEnv` for the keywords."""
        super().__init__(windows, count, reward=reward, mask=mask, threads=threads)
        if weights is None:
            weights = usual_weights(windows[0].workload.scenario)
        rule = changed(self.reference, validation.weights("base_weights", base_weights))
        self.offsets = Offsets(rule, validation.names("weights", weights))
        self.privileged = validation.boolean("privileged", privileged)
        decisions = validation.whole_number("decisions_per_window", decisions_per_window)
        if arrivals_per_decision is None:
            load = windows[0].workload
            steady = load.scenario.steady_load is not None
            self.every = usual_interval(load.scenario.jobs if steady else len(load.jobs), decisions)
        else:
            self.every = validation.whole_number("arrivals_per_decision", arrivals_per_decision)
        self.action_space = Box(-1.0, 1.0, (len(weights),), np.float32)
        self.seen_parts = {"load": Part(LOAD)} | ({"critic": Part(CRITIC)} if privileged else {})
        self.seen_space = privileged_space(self.privileged)
        self._until = np.full(count, np.inf)
        self._times: list[np.ndarray] = [np.empty(0)] * count

    def open(self, e: int, prepared: PreparedWindow) -> None:
        """Advance to the first instant."""
        self.offsets.reset(self.memory[e : e + 1])
        steering.start(self.states, e, self.memory, self.jobs, *self.rows(slice(None)))
        first_s = float(self.states["clock"][e])
        self._times[e] = decision_times(prepared.episode.jobs["submit_s"], self.every, first_s)

    def _simulate(self, actions: np.ndarray) -> None:
        """Write each environment's weights, and run the rule to the next decision."""
        self.more &= ~self.over
        self.offsets.write(self.memory, actions)
        for e, times in enumerate(self._times):
            self._until[e] = times[0] if len(times) else np.inf
            self._times[e] = times[1:]
        self.in_threads(self._run)

    def _run(self, part: slice) -> None:
        runs = (self.states[part], self.memory[part], self.jobs[part], self._until[part])
        steering.steer(*runs, *self.rows(part))

    def _own(self, actions: np.ndarray) -> np.ndarray:
        """Return whether all offsets are 0, as in the rule that is steered."""
        own: np.ndarray = (actions == 0).all(axis=1)
        return own

    def masks(self) -> np.ndarray:
        """Return ones, int8 (N, weights): every offset is legal."""
        return np.ones((self.count, len(self.offsets.names)), np.int8)

    def observe(self) -> Any:
        """Return the load, with the critic's features if they are shown."""
        load = clipped_load(self.load)
        return {"load": load, "critic": clipped_load(self.critic)} if self.privileged else load


class SteerEnv(UnionEnv):
    """Steer the rule `union`: set its weights a few times per window.

    ## Description
    `union` (`simulator.rule_policy.Rule`) decides every start, pause, migration and reallocation. A step sets its
    weights, which apply until the next decision; there are `decisions_per_window` decisions, after equal shares of the
    window's arrivals. `simulator.rule_policy.Steered` is the policy that decides at the same instants.

    ## Action Space
    Box(-1, 1), float32 (weights,): offsets from the weights of the default rule, or of `base_weights`; 1 changes a
    weight by three times its scale.

    ## Observation Space
    Box, float32 (loads,): totals of queue, running jobs and machines; `columns["load"]` names each. With
    `privileged=True`, Dict of `load` and `critic`: the progress of the window and the results of the default rule up to
    now, for a critic only, since no scheduler knows them. With `mask="observation"`: Dict of `observations` and
    `action_mask`, int8 (weights,), all 1.

    ## Rewards
    In units of `info["scale"]`, 1 % of the default rule's total JCT on the window, s:
    - `gain` (default): job-seconds saved relative to the default rule. Where all jobs of the window count, the return
      is the reduction of mean JCT in percent; -100 where jobs never end.
    - `jct`: minus the integral of the number of jobs present.

    ## Starting State
    As for `GPUClusterEnv`; the first decision is at the first instant.

    ## Episode End
    Terminated when all jobs are done, in a steady window at the first decision at which those that count are done.
    Truncated when jobs never end, or after 100 instants per job.

    ## Information
    As for `GPUClusterEnv`. The reference policy is the default rule; `agrees` is True where all offsets are 0.

    ## Arguments
    - `workload`, `scenario`, `split`, `count`, `mask`, `render_mode`: as for `GPUClusterEnv`.
    - `reward`: `gain`, `jct`, another module of `envs/rewards`, or a function.
    - `default_weights`: weights of the default rule, the reference policy, that differ from `union`'s, by name.
    - `base_weights`: weights of the rule that is steered that differ from the default rule's, by name.
    - `weights`: names of the weights that an action sets; None means sixteen of the 26, or eighteen with a
      `run_time_predictor`.
    - `decisions_per_window`: number of decisions, one per `jobs` / `decisions_per_window` arrivals, so more or fewer in
      steady windows; fewer where many jobs arrive at once.
    - `arrivals_per_decision`: arrivals between decisions, instead of `decisions_per_window`.
    - `privileged`: whether the observation has the part `critic`.
    """

    batch: SteerBatch
    kind = SteerBatch
