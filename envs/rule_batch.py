"""Environments on the rule over moves that are stepped together: what they share, whatever an action is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

from gpu_cluster_gym.envs import render
from gpu_cluster_gym.envs.batch import AT_THE_END, BatchEnv, Info
from gpu_cluster_gym.envs.observation_spec import Named, Parts
from gpu_cluster_gym.envs.openings import Opening, opened
from gpu_cluster_gym.envs.task import MOST_INSTANTS, one_of_windows, pythons_own, window_named
from gpu_cluster_gym.envs.threads import in_parts
from gpu_cluster_gym.envs.validation import whole_number
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.kernel.union.steering import CRITIC, DefaultRun, StepOutputs
from gpu_cluster_gym.simulator.rule_policy import HIGHEST, LOWEST, memory_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Split

PERCENT = 100.0  # the return is the percentage by which mean JCT is lower than the default run's
PART = 4  # environments that a thread steps before it takes others
LOAD_SPACE = Box(LOWEST, HIGHEST, (len(LOAD),), np.float32)
CRITIC_SPACE = Box(LOWEST, HIGHEST, (len(CRITIC),), np.float32)


class RuleBatch(ABC):
    """N environments, each on its own window: records, memories of the rule, and jobs, a row each.

    load, critic: (N, len(LOAD)) and (N, len(CRITIC)), what is seen. gain: (N,), the share of the default run's
    job-seconds that was won in the last step. more: (N,), whether jobs are left. All are written in place at each step.
    """

    observation_space: gymnasium.Space[Any]
    seen_parts: Parts
    action_space: gymnasium.Space[Any]

    def __init__(self, found: Sequence[Opening], count: int, *, threads: int = 1, **choices: Any) -> None:
        """Make room for so many environments; none has begun. choices: of an action's kind."""
        if choices:
            raise TypeError(f"no choice {', '.join(choices)} of this action")
        threads = whole_number("threads", threads)
        count = whole_number("num_envs", count)
        self.found, self.count, self.threads = found, count, threads
        first = found[0].episode
        if any(each.episode.states.dtype != first.states.dtype for each in found):
            raise ValueError("windows whose records are of several sizes cannot stand in one batch")
        most = max(len(each.episode.jobs) for each in found)
        self.states = np.zeros(count, first.states.dtype)
        self.memory = memory_of(found[0].rule, first.states, first.jobs, first.histories, count)
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

    def in_parts(self, work: Callable[[slice], None]) -> None:
        """Do what is to be done in all environments: a few of them at a time, on as many threads as there may be."""
        in_parts(work, self.count, self.threads, PART)

    def rows(self, part: slice) -> tuple[DefaultRun, StepOutputs]:
        """Return what these environments are compared with, and where the kernel tells of them."""
        told = self.load[part], self.critic[part], self.gain[part], self.more[part]
        return DefaultRun(self.finish[part], self.total[part]), StepOutputs(*told)

    @abstractmethod
    def seen(self) -> Any:
        """Return what is seen in all environments, as new arrays."""

    @abstractmethod
    def masks(self) -> np.ndarray:
        """Tell which actions are legal now: bool (N, actions)."""

    def told(self) -> Info:
        """Return what is told of the environments, an array each."""
        return {}

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Tell of each environment whether it is done, and whether it was cut: jobs fail or pause without end."""
        done: np.ndarray = self.states["num_done"] == self.states["num_jobs"]
        long = self.states["instant"] - self.states["ticks"] >= MOST_INSTANTS * self.states["num_jobs"]
        return done, ~done & (~self.more | long)

    def told_at_the_end(self, e: int) -> tuple[float, float]:
        """Return the mean JCT, s, of an environment that is done, and its ratio to the default rule's."""
        count = int(self.states[e].num_jobs)
        mean = float((self.states[e].finish_s[:count] - self.jobs["submit_s"][e, :count]).mean())
        return mean, float(mean * count / self.total[e])

    def results(self, e: int) -> pd.DataFrame:
        """Return the results table of an environment whose jobs have all ended."""
        table: pd.DataFrame = self.found[self.window[e]].workload.results(self.episode(e))
        return table

    def view(self, e: int) -> View:
        """Return what a scheduler sees in an environment now."""
        return self.episode(e).view

    def episode(self, e: int) -> Episode:
        """Return a copy of an environment's episode as it is now."""
        episode: Episode = self.found[self.window[e]].workload.episode()
        episode.states[0] = self.states[e]
        return episode


class RuleEnv(Named, gymnasium.Env[Any, Any]):
    """One environment of a batch."""

    metadata = render.METADATA

    batch: RuleBatch
    kind: type[RuleBatch]

    def __init__(
        self,
        scenario: Mapping[str, Any] | None = None,
        *,
        workload: str | None = None,
        split: Split = "train",
        count: int = 64,
        start: Mapping[str, float] | None = None,
        render_mode: str | None = None,
        **choices: Any,
    ) -> None:
        """Choose the windows; nothing is simulated before the first reset. choices: those of the batch."""
        self.render_mode = render_mode
        self._screen = render.Screen(render_mode)
        self.batch = batch = self.kind(opened(scenario, workload, split, count, start), 1, **choices)
        self._place = {each.workload.window.number: at for at, each in enumerate(batch.found)}
        self.windows, self.split = tuple(self._place), batch.found[0].workload.window.split
        self.seen_parts = batch.seen_parts
        self.action_space, self.observation_space = batch.action_space, batch.observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a window: the one named in `options`, else a random one."""
        super().reset(seed=pythons_own(seed))
        number = self.place_of(window_named(options, self.split), self.np_random)
        self.batch.begin(0, self._place[number])
        self._show()
        return one_of(self.batch.seen(), 0), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carry out an action, and go on to the next choice or to the end."""
        batch = self.batch
        batch.step(np.asarray(action)[None])
        self._show()
        done, cut = (bool(each[0]) for each in batch.ends())
        info = self._info()
        if done:
            info |= zip(AT_THE_END, batch.told_at_the_end(0), strict=True)
        return one_of(batch.seen(), 0), PERCENT * float(batch.gain[0]), done, cut, info

    def place_of(self, number: int | None, rng: np.random.Generator) -> int:
        """Return a window's number if there is that window, or a random one for None; ValueError if there is not."""
        return one_of_windows(self.windows, number, rng)

    def results(self) -> pd.DataFrame:
        """Return the results table of an episode that has ended."""
        return self.batch.results(0)

    def render(self) -> Any:
        """Return the cluster as text (`ansi`) or as an image (`rgb_array`), or show it in a window (`human`)."""
        return self._screen.draw(self.batch.view(0)) if self.render_mode else None

    def close(self) -> None:
        """Close the window, if there is one."""
        self._screen.close()

    def _show(self) -> None:
        if self._screen.is_live:
            self.render()

    def _info(self) -> dict[str, Any]:
        window = {"split": self.split, "window": self.windows[self.batch.window[0]]}
        told = self.batch.told() | {name: np.array([value]) for name, value in window.items()}
        return {name: values[0] if values.ndim > 1 else values[0].item() for name, values in told.items()}


class RuleVectorEnv(BatchEnv):
    """Environments on the rule over moves, stepped by one compiled call; everything is that of the single one."""

    def __init__(self, num_envs: int, env: RuleEnv, batch: RuleBatch, autoreset: AutoresetMode | str) -> None:
        """Take a single environment, and a batch on the same windows."""
        super().__init__(num_envs, env, autoreset)
        self.batch = batch
        self._places = {number: at for at, number in enumerate(env.windows)}

    def observations(self) -> Any:
        """Return what is seen now in all environments."""
        return self.batch.seen()

    def info(self) -> Info:
        """Return what is told of the environments as they are now."""
        told = self.batch.told() | {"split": self._splits.copy(), "window": self.numbers.copy()}
        return told | {f"_{name}": self._everywhere for name in told}

    def action_masks(self) -> np.ndarray:
        """Tell which actions are legal now, bool (num_envs, actions); all where they are numbers."""
        return self.batch.masks()

    def results(self, i: int) -> pd.DataFrame:
        """Return the results table of an environment's episode, which has ended."""
        return self.batch.results(i)

    def _lay_out(self, which: Sequence[int]) -> None:
        for i in which:
            self.batch.begin(i, self._places[int(self.numbers[i])])

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, Info]:
        self.batch.more &= ~self._over
        self.batch.step(np.asarray(actions))
        return PERCENT * self.batch.gain, {}

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        return self.batch.ends()

    def _told_at_the_end(self, i: int) -> tuple[float, float]:
        return self.batch.told_at_the_end(i)


def one_of(seen: Any, e: int) -> Any:
    """Return what is seen in one environment of a batch."""
    return {name: part[e] for name, part in seen.items()} if isinstance(seen, dict) else seen[e]
