"""Steer the rule over moves: an action sets its weights for the next share of a window's arrivals."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
from gymnasium.spaces import Box, Dict

from envs.openings import DEFAULT, Opening, openings
from simulator.choice import changed
from simulator.kernel import steering
from simulator.kernel.steering import CRITIC, LOAD
from simulator.rule import RULE_PARAMETERS, memory_of
from workloads import Scenario, Split

WEIGHTS = (
    "price",
    "exponent",
    "shared_price",
    "harm",
    "growth",
    "caution",
    "by_duty",
    "shorter_first",
    "new_cores",
    "first_guess",
)
"""The weights that are steered unless others are named."""
REACH = 3.0  # units of a weight's scale that an action of 1 moves it by
DECISIONS = 12  # a window
LOWEST, HIGHEST = -4.0, 8.0  # of what is seen; beyond them lies only the absurd

Named = Mapping[str, Any]


class Steering:
    """Environments stepped together, each on its own window: (N,) records, memories and jobs.

    Rows of `load`, `critic`, `gain` and `more` are written in place at each step.
    """

    def __init__(self, found: Sequence[Opening], count: int, weights: Sequence[str], decisions: int) -> None:
        """Make room for so many environments; none has begun."""
        self.found, self.decisions = found, decisions
        known = {each.name: each for each in RULE_PARAMETERS}
        self.weights = [known[name] for name in weights]
        first = found[0].episode
        self.most = max(len(each.episode.jobs) for each in found)
        self.states = np.zeros(count, first.states.dtype)
        self.memory = memory_of(DEFAULT, first.states, first.jobs, count)
        self.jobs = np.zeros((count, self.most), first.jobs.dtype)
        self.finish, self.total = np.zeros((count, self.most)), np.ones(count)
        self.until = np.full(count, np.inf)
        self.load = np.zeros((count, len(LOAD)), np.float32)
        self.critic = np.zeros((count, len(CRITIC)), np.float32)
        self.gain, self.more = np.zeros(count), np.zeros(count, bool)
        self.window = np.zeros(count, int)
        self._parts: list[np.ndarray] = [np.empty(0)] * count

    def begin(self, e: int, window: int) -> None:
        """Begin a window, by its place among those found, in one environment."""
        opening = self.found[window]
        jobs = opening.episode.jobs
        self.states[e] = opening.episode.states[0]
        self.memory[e] = memory_of(DEFAULT, opening.episode.states, jobs)[0]
        self.jobs[e, : len(jobs)] = jobs
        self.finish[e, : len(jobs)] = opening.default_finish_s
        self.total[e] = opening.default_job_seconds
        self.window[e], self.more[e], self.gain[e] = window, True, 0.0
        self._parts[e] = opening.parts(self.decisions)
        records = self.states, e, self.memory, self.jobs
        steering.begin_steering(*records, self.load, self.critic, self.finish, self.total)

    def step(self, actions: np.ndarray) -> None:
        """Set each environment's weights, (N, weights) offsets from -1 to 1, and let it run on."""
        for column, weight in zip(actions.T, self.weights, strict=True):
            moved = weight.default + REACH * weight.scale * np.clip(column, -1.0, 1.0)
            self.memory[weight.name] = np.clip(moved, weight.low, weight.high)
        for e, parts in enumerate(self._parts):
            self.until[e] = parts[0] if len(parts) else np.inf
            self._parts[e] = parts[1:]
        runs = self.states, self.memory, self.jobs, self.until
        steering.steer(*runs, self.load, self.critic, self.finish, self.total, self.gain, self.more)

    def mean_jct_s(self, e: int) -> float:
        """Return the mean job completion time of an environment whose jobs have all ended, s."""
        count = int(self.states[e].num_jobs)
        return float((self.states[e].finish_s[:count] - self.jobs["submit_s"][e, :count]).mean())

    def results(self, e: int) -> pd.DataFrame:
        """Return the results table of an environment whose jobs have all ended."""
        workload = self.found[self.window[e]].workload
        episode = workload.episode()
        episode.states[0] = self.states[e]
        return workload.results(episode)


def space_of(weights: Sequence[str]) -> Box:
    """Return the action space: an offset for each weight."""
    return Box(-1.0, 1.0, (len(weights),), np.float32)


def seen_space(*, privileged: bool) -> Box | Dict:
    """Return the observation space: the load, and what a critic alone may see under its own key."""
    load = Box(LOWEST, HIGHEST, (len(LOAD),), np.float32)
    return (
        Dict({"load": load, "critic": Box(LOWEST, HIGHEST, (len(CRITIC),), np.float32)})
        if privileged
        else load
    )


class SteerEnv(gymnasium.Env[Any, np.ndarray]):
    """Steer the strongest rule made by hand: set its weights a few times in each window of a trace.

    ## Observation
    `load` (Box): totals of the queue, the running jobs and the machines; `simulator.kernel.steering.LOAD` names each.
    With `privileged`, a Dict of `load` and `critic`, which shows how far the window has come and what the default rule
    had done by then: for a critic, since no scheduler knows it.

    ## Action
    Box: offsets of `weights` from the defaults of the rule (`simulator.rule`); 1 moves a weight by three times its
    scale. They hold until the next decision. There are `decisions` of them a window, at like shares of its arrivals;
    fewer where many jobs come at once.

    ## Reward
    `gain`: 100 times the job-seconds won against the default rule on the same window meanwhile, over all of its own;
    so the return is the percentage by which mean JCT is lower.

    ## Start and end
    A window is drawn at reset, or named by `options={"window": n}`. The episode terminates when all jobs are done;
    `info` then holds `mean_jct_s` and `jct_ratio`, to the default rule.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own pattern

    def __init__(
        self,
        scenario: Named | None = None,
        *,
        split: Split = "train",
        count: int = 64,
        weights: Sequence[str] = WEIGHTS,
        decisions: int = DECISIONS,
        privileged: bool = False,
    ) -> None:
        """Choose the windows; nothing is simulated before the first reset."""
        found = openings(changed(Scenario(), scenario or {}), split, count)
        self._batch = Steering(found, 1, weights, decisions)
        self._place = {each.workload.window.number: at for at, each in enumerate(found)}
        self.windows, self._privileged = tuple(self._place), privileged
        self.action_space = space_of(weights)
        self.observation_space = seen_space(privileged=privileged)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a window: the one named in `options`, else a random one."""
        super().reset(seed=seed)
        number = (options or {}).get("window")
        if number is None:
            number = self.windows[self.np_random.integers(len(self.windows))]
        if number not in self._place:
            raise ValueError(f"there is no window {number}: {', '.join(map(str, self.windows))}")
        self._batch.begin(0, self._place[number])
        return self._seen(), {"window": number}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Set the weights, and go on to the next decision or to the end."""
        batch = self._batch
        batch.step(np.asarray(action, np.float64)[None])
        info: dict[str, Any] = {"window": self.windows[batch.window[0]]}
        ended = not batch.more[0]
        cut = ended and bool(batch.states[0].endless)
        if ended and not cut:
            mean, jobs = batch.mean_jct_s(0), int(batch.states[0].num_jobs)
            info |= {"mean_jct_s": mean, "jct_ratio": mean * jobs / batch.total[0]}
        return self._seen(), 100.0 * float(batch.gain[0]), ended and not cut, cut, info

    def results(self) -> pd.DataFrame:
        """Return the results table of an episode that has ended."""
        return self._batch.results(0)

    def _seen(self) -> Any:
        load = np.clip(self._batch.load[0], LOWEST, HIGHEST)
        critic = np.clip(self._batch.critic[0], LOWEST, HIGHEST)
        return {"load": load, "critic": critic} if self._privileged else load
