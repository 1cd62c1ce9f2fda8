"""Environments on the rule over moves that are stepped together: what they share, whatever an action is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
from gymnasium.spaces import Box

from envs.openings import DEFAULT, Opening
from simulator.kernel.steering import CRITIC, LOAD
from simulator.rule import memory_of

LOWEST, HIGHEST = -8.0, 8.0  # of what is seen; beyond them lies only the absurd
LOAD_SPACE = Box(LOWEST, HIGHEST, (len(LOAD),), np.float32)
CRITIC_SPACE = Box(LOWEST, HIGHEST, (len(CRITIC),), np.float32)


class RuleBatch(ABC):
    """N environments, each on its own window: records, memories of the rule, and jobs, a row each.

    load, critic: (N, len(LOAD)) and (N, len(CRITIC)), what is seen. gain: (N,), the share of the default run's
    job-seconds that was won in the last step. more: (N,), whether jobs are left. All are written in place at each step.
    """

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]

    def __init__(self, found: Sequence[Opening], count: int) -> None:
        """Make room for so many environments; none has begun."""
        self.found, self.count = found, count
        first = found[0].episode
        most = max(len(each.episode.jobs) for each in found)
        self.states = np.zeros(count, first.states.dtype)
        self.memory = memory_of(DEFAULT, first.states, first.jobs, count)
        self.jobs = np.zeros((count, most), first.jobs.dtype)
        self.finish, self.total = np.zeros((count, most)), np.ones(count)
        self.load = np.zeros((count, len(LOAD)), np.float32)
        self.critic = np.zeros((count, len(CRITIC)), np.float32)
        self.gain, self.more = np.zeros(count), np.zeros(count, bool)
        self.window = np.zeros(count, int)

    def begin(self, e: int, window: int) -> None:
        """Begin a window, by its place among those found, in one environment."""
        opening = self.found[window]
        self.memory[e] = opening.memory[0]
        jobs = opening.episode.jobs
        self.states[e] = opening.episode.states[0]
        self.jobs[e, : len(jobs)] = jobs
        self.finish[e, : len(jobs)] = opening.default_finish_s
        self.total[e] = opening.default_job_seconds
        self.window[e], self.more[e], self.gain[e] = window, True, 0.0
        self.open(e, opening)

    @abstractmethod
    def open(self, e: int, opening: Opening) -> None:
        """Move to the first choice of an environment that has just been laid out."""

    @abstractmethod
    def step(self, actions: np.ndarray) -> None:
        """Carry out an action in each environment, and go on to its next choice, or to its end."""

    @abstractmethod
    def seen(self) -> Any:
        """Return what is seen in all environments, as new arrays."""

    def endless(self, e: int) -> bool:
        """Whether an environment was cut, since a job fails again and again."""
        return bool(self.states[e].endless)

    def ended(self, e: int) -> dict[str, Any]:
        """Return what is told of an environment that has ended."""
        if self.endless(e):
            return {}
        count = int(self.states[e].num_jobs)
        mean = float((self.states[e].finish_s[:count] - self.jobs["submit_s"][e, :count]).mean())
        return {"mean_jct_s": mean, "jct_ratio": float(mean * count / self.total[e])}

    def results(self, e: int) -> pd.DataFrame:
        """Return the results table of an environment whose jobs have all ended."""
        workload = self.found[self.window[e]].workload
        episode = workload.episode()
        episode.states[0] = self.states[e]
        table: pd.DataFrame = workload.results(episode)
        return table


class RuleEnv(gymnasium.Env[Any, Any]):
    """One environment of a batch."""

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own pattern

    def __init__(self, batch: RuleBatch) -> None:
        """Take a batch of one."""
        self.batch = batch
        self._place = {each.workload.window.number: at for at, each in enumerate(batch.found)}
        self.windows = tuple(self._place)
        self.action_space, self.observation_space = batch.action_space, batch.observation_space

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
        self.batch.begin(0, self._place[number])
        return self._seen(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carry out an action, and go on to the next choice or to the end."""
        batch = self.batch
        batch.step(np.asarray(action)[None])
        over = not batch.more[0]
        cut = over and batch.endless(0)
        info = self._info() | (batch.ended(0) if over else {})
        return self._seen(), 100.0 * float(batch.gain[0]), over and not cut, cut, info

    def results(self) -> pd.DataFrame:
        """Return the results table of an episode that has ended."""
        return self.batch.results(0)

    def _seen(self) -> Any:
        seen = self.batch.seen()
        return {name: part[0] for name, part in seen.items()} if isinstance(seen, dict) else seen[0]

    def _info(self) -> dict[str, Any]:
        return {"window": self.windows[self.batch.window[0]]}
