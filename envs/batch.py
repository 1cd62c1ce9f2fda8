"""Environments of one action kind that are stepped together; a single environment is a batch of one."""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from inspect import signature
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from gymnasium.spaces import Box, Dict, Space

from gpu_cluster_gym.envs import validation
from gpu_cluster_gym.envs.rewards.regret import LEAST_RUN_S, least_cost
from gpu_cluster_gym.envs.spaces import MaskedDiscrete, Parts, with_mask
from gpu_cluster_gym.envs.windows import MAX_INSTANTS_PER_JOB, PreparedWindow
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel.cluster.layout import tier
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.kernel.union.steering import CRITIC, DefaultRun, StepOutputs
from gpu_cluster_gym.simulator.rule_policy import HIGHEST, LOWEST, Rule, memory_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import find, load_own, unknown

Info = dict[str, np.ndarray]
Illegal = Literal["next_legal", "first_legal", "raise"]
"""Treatment of an illegal action: the next or the first legal one replaces it, with one warning; or ValueError."""
MaskIn = Literal["info", "observation"]
"""Place of the action mask: in the info only, or also in the observation."""
FINAL_INFO = ("mean_jct_s", "jct_ratio")
REGRETS = {"regret": 0.0, "slowdown_regret": 100.0}
"""Time that is divided by a job's run time for its weight in each least cost, s; 0: all weights are 1."""
QUANTITIES = ("job_seconds", "gain", *REGRETS, "advantage", "slowdown")
"""Quantities of a step that a reward may use, see `envs.rewards`."""

PERCENT = 100.0
GROUP = 4  # environments of `moves` and `steer` that a thread steps before it takes others
LOAD_SPACE = Box(LOWEST, HIGHEST, (len(LOAD),), np.float32)
CRITIC_SPACE = Box(LOWEST, HIGHEST, (len(CRITIC),), np.float32)


def named_reward(name: Any) -> Callable[..., Any]:
    """Return the reward of a module of `envs/rewards`, or a function named `package.module:function`.

    ValueError for an unknown name.
    """
    is_path = isinstance(name, str) and ":" in name
    found: Callable[..., Any] = load_own("reward", name) if is_path else find("envs.rewards", name, "reward")
    return found


class Batch(ABC):
    """N environments, each on its own window.

    windows: prepared windows, shared by all environments.
    count: N.
    window: int64 (N,), index into `windows` of each environment's window.
    states: record of each environment, and scratch records behind.
    jobs: record array (N, J).
    rewards: float64 (N,), rewards of the last step.
    scale: float64 (N,), job-seconds per unit of reward.
    elapsed_s: float64 (N,), simulated time of the last step.
    agrees: bool (N,), whether the last action was the reference policy's own choice.
    num_illegal: int64 (N,), illegal actions replaced in this episode.
    executed: int64 (N,), the last action of each environment, or what replaced it; -1 before the first one of an
      episode, and for continuous actions.
    terminated, truncated, over: bool (N,), whether and how the episode has ended; over is either.
    """

    no_advantage: str | None = None  # reason why rewards by advantage are unavailable
    last_resort = slice(0, 0)  # actions that replace an illegal one only where no other is legal
    action_space: Space[Any]
    seen_parts: Parts
    states: np.ndarray
    jobs: np.ndarray

    def __init__(
        self,
        windows: Sequence[PreparedWindow],
        count: int,
        *,
        reward: str | Callable[..., Any],
        illegal: str = "next_legal",
        mask: str = "info",
        threads: int = 1,
    ) -> None:
        """Allocate the arrays; `begin` starts an environment."""
        self.windows, self.count = windows, validation.whole_number("num_envs", count)
        self.threads = validation.whole_number("threads", threads)
        self.illegal: Illegal = validation.choice("illegal", illegal, get_args(Illegal))
        self.mask_in_observation = validation.choice("mask", mask, get_args(MaskIn)) == "observation"
        self._reward = reward if callable(reward) else named_reward(reward)
        name_of_reward = repr(getattr(reward, "__name__", reward))
        self._quantities = tuple(signature(self._reward).parameters)
        for name in self._quantities:
            if name not in QUANTITIES:
                raise ValueError(f"reward {name_of_reward}: {unknown('argument', name, QUANTITIES)}")
        if self.no_advantage and "advantage" in self._quantities:
            raise ValueError(
                f"reward {name_of_reward} {self.no_advantage}; use reward='jct' or reward='gain'"
            )
        self._regrets = [name for name in self._quantities if name in REGRETS]
        self.split = windows[0].workload.window.split
        self._splits = np.full(count, self.split)
        self.numbers = np.array([each.workload.window.number for each in windows])
        self.window = np.zeros(count, np.int64)
        self.max_jobs = max(len(each.workload.jobs) for each in windows)
        self.finish, self.total = np.zeros((count, self.max_jobs)), np.ones(count)
        self.rewards, self.scale, self.elapsed_s = np.zeros(count), np.ones(count), np.zeros(count)
        self.agrees = np.zeros(count, bool)
        self.terminated, self.truncated, self.over = (np.zeros(count, bool) for _ in range(3))
        self.num_illegal, self._has_warned = np.zeros(count, np.int64), False
        self.executed = np.full(count, -1)
        self._first_counted, self._last_counted = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._counted_ended, self._seen_done = np.zeros(count, bool), np.zeros(count, np.int64)
        self._slowdown = np.zeros(count)  # so far, in this episode

    def refuse_several_sizes(self) -> None:
        """Raise ValueError unless the records of all windows have the same size."""
        counts = [each.workload.room for each in self.windows]
        sizes = sorted({tier(count, nodes=1, gpus=1).jobs for count in counts})
        if len(sizes) > 1:
            raise ValueError(
                f"windows of {min(counts):,} to {max(counts):,} jobs cannot be batched, since their records are sized "
                f"for {' or '.join(f'{size:,}' for size in sizes)} jobs; use vectorization_mode='sync' or other `jobs`"
            )

    # Dynamics.

    def begin(self, e: int, window: int) -> None:
        """Begin a window, by its index, in one environment, and advance to its first decision."""
        prepared = self.windows[window]
        self.window[e] = window
        self.elapsed_s[e], self.agrees[e], self.num_illegal[e], self._slowdown[e] = 0.0, False, 0, 0.0
        self.executed[e] = -1
        self.terminated[e] = self.truncated[e] = self.over[e] = False
        finish = prepared.reference_finish_s
        self.finish[e, : len(finish)], self.finish[e, len(finish) :] = finish, 0.0
        load = prepared.workload
        self._first_counted[e], self._last_counted[e] = load.first_counted, load.last_counted
        self._seen_done[e], self._counted_ended[e] = -1, False
        self._begin(e, prepared)

    def step(self, actions: np.ndarray) -> None:
        """Step each environment that is not over: act, simulate to the next decision, compute its reward.

        ValueError, with nothing changed, for a wrong type, or for an illegal action with `illegal="raise"`.
        """
        live = ~self.over
        chosen = self._legal(np.asarray(actions))
        self.agrees = self._own(chosen) & live
        advantage = self._advantage(chosen) if "advantage" in self._quantities else None
        began_s, job_seconds = self._clock()
        if self._regrets:
            arrived = self.states["num_arrived"][: self.count].copy()
            before = {name: self._least_cost(name, arrived) for name in self._regrets}

        self._simulate(chosen)

        now_s, job_seconds_after = self._clock()
        self.elapsed_s = now_s - began_s
        self.terminated, self.truncated = self.ends()
        self.over = self.terminated | self.truncated
        given: dict[str, Any] = {}
        for name in self._quantities:
            if name == "advantage":
                given[name] = advantage
            elif name == "job_seconds":
                given[name] = self._in_units(job_seconds_after - job_seconds)
            elif name in REGRETS:
                given[name] = self._in_units(self._least_cost(name, arrived) - before[name])
            elif name == "slowdown":
                earlier, self._slowdown = self._slowdown, self._slowdown_until(now_s)
                given[name] = self._slowdown - earlier
            else:
                given[name] = self._gain(began_s, now_s, job_seconds_after - job_seconds)
        self.rewards = np.where(live, self._checked(self._reward(**given)), 0.0)

    def _checked(self, rewards: Any) -> np.ndarray:
        """Return rewards; ValueError unless they are a number, or one per environment."""
        found = np.asarray(rewards)
        if found.dtype.kind not in "biuf" or found.shape not in ((), (self.count,)):
            name = getattr(self._reward, "__name__", "reward")
            raise ValueError(
                f"reward {name!r} returned {rewards!r}: expected a number per environment, an array of shape "
                f"({self.count},)"
            )
        return found

    def _least_cost(self, name: str, arrived: np.ndarray) -> np.ndarray:
        """Return `least_cost` of the first jobs of each environment for a kind of regret: float64 (N,)."""
        return least_cost(self.states[: self.count], self.jobs, arrived, REGRETS[name])

    def _slowdown_until(self, time_s: np.ndarray) -> np.ndarray:
        """Return the mean slowdown of the jobs of each environment as gathered up to a time: float64 (N,)."""
        jobs, states = self.jobs, self.states[: self.count]
        width, count = jobs.shape[1], states["num_jobs"][:, np.newaxis]
        finish_s = np.nan_to_num(states["finish_s"][:, :width], nan=np.inf)
        present_s = np.minimum(time_s[:, np.newaxis], finish_s) - jobs["submit_s"]
        each = np.maximum(present_s, 0.0) / np.maximum(jobs["duration_s"], LEAST_RUN_S)
        mean: np.ndarray = np.where(np.arange(width) < count, each, 0.0).sum(axis=1) / count[:, 0]
        return mean

    def _legal(self, actions: np.ndarray) -> np.ndarray:
        """Return the actions, with illegal ones replaced by legal ones if allowed; else ValueError."""
        if not isinstance(self.action_space, MaskedDiscrete):
            if not np.isfinite(actions[~self.over]).all():
                raise ValueError("actions with NaN or infinity: expected finite numbers")
            return actions
        if actions.dtype.kind not in "iu":
            raise ValueError(f"actions of type {actions.dtype}: expected integers")
        chosen, masks = actions.astype(np.int64), self.masks()
        if self.count == 1 and 0 <= chosen[0] < masks.shape[1] and masks[0, chosen[0]]:
            self.executed[0] = chosen[0]
            return chosen  # the common case of a single environment, without the array operations below
        inside = (chosen >= 0) & (chosen < masks.shape[1])
        wrong = ~inside | (masks[np.arange(self.count), np.where(inside, chosen, 0)] == 0)
        wrong &= ~self.over
        if wrong.any():
            e = int(wrong.argmax())
            if self.illegal == "raise":
                where = f"environment {e}: " if self.count > 1 else ""
                raise ValueError(where + why_illegal(int(chosen[e]), masks.shape[1], self._reason(e, chosen)))
            if not self._has_warned:
                self._has_warned = True
                reason = self._reason(e, chosen)
                warnings.warn(
                    why_illegal(int(chosen[e]), masks.shape[1], reason, forgiven=True), stacklevel=3
                )
            self.num_illegal += wrong
        wrong |= self.over
        legal: np.ndarray = np.where(wrong, replaced(chosen, masks, self.illegal, self.last_resort), chosen)
        self.executed[~self.over] = legal[~self.over]
        return legal

    def _reason(self, e: int, actions: np.ndarray) -> str | None:
        """Return why the illegal action of an environment is illegal; None for a number that is no action."""
        exists = 0 <= actions[e] < self.masks().shape[1]
        return self.why_not(e, int(actions[e])) if exists else None

    def why_not(self, e: int, action: int) -> str:
        """Return why an action that exists is illegal now in an environment that is not over."""
        return f"the list of moves has {self.masks()[e].sum()} entries"

    @abstractmethod
    def _begin(self, e: int, prepared: PreparedWindow) -> None:
        """Lay out environment e and advance it to its first decision; set `scale`."""

    @abstractmethod
    def _simulate(self, actions: np.ndarray) -> None:
        """Carry out legal actions and advance to the next decisions; leave environments that are over unchanged."""

    @abstractmethod
    def _clock(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the time, s, and the integral of jobs present, both float64 (N,)."""

    @abstractmethod
    def _in_units(self, job_seconds: np.ndarray) -> np.ndarray:
        """Convert job-seconds to units of reward."""

    @abstractmethod
    def _gain(self, began_s: np.ndarray, now_s: np.ndarray, job_seconds: np.ndarray) -> np.ndarray:
        """Return the job-seconds saved relative to the reference policy in the step, in units of reward."""

    def _advantage(self, actions: np.ndarray) -> np.ndarray:
        """Return the advantage of legal actions over the reference policy's choice, in units of reward, (N,).

        Batches whose actions have none raise this error; the command and `make` refuse such a reward before.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no advantages of actions: choose another reward"
        )

    @abstractmethod
    def _own(self, actions: np.ndarray) -> np.ndarray:
        """Return whether each action is the reference policy's own choice: bool (N,)."""

    @abstractmethod
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each episode has terminated, and whether it has been truncated: bool (N,)."""

    def counted_ended(self) -> np.ndarray:
        """Return whether the jobs that count, all but in a steady window, have ended: bool (N,)."""
        done, arrived = (self.states[name][: self.count] for name in ("num_done", "num_arrived"))
        changed = (self._seen_done != done) | self._counted_ended  # a record may have been set back
        self._seen_done[:] = done
        self._counted_ended[changed] = False
        for e in np.flatnonzero(changed & (arrived > self._last_counted)).tolist():
            rows = slice(self._first_counted[e], self._last_counted[e] + 1)
            self._counted_ended[e] = not np.isnan(self.states[e]["finish_s"][rows]).any()
        return self._counted_ended

    # Observation and information.

    @abstractmethod
    def observe(self) -> Any:
        """Return the current observations without masks, as new arrays."""

    @abstractmethod
    def masks(self) -> np.ndarray:
        """Return the legal actions as a new array: int8 (N, actions); all 1 for continuous actions."""

    @abstractmethod
    def num_unseen(self) -> np.ndarray:
        """Return the number of queued jobs that no action can start since they are not shown: int64 (N,)."""

    @property
    def observation_space(self) -> Space[Any]:
        """Observation space of one environment."""
        seen = self.seen_space
        return with_mask(seen, self.masks().shape[1]) if self.mask_in_observation else seen

    seen_space: Space[Any]

    def observations(self) -> Any:
        """Return the current observations, as new arrays."""
        seen = self.observe()
        return {"observations": seen, "action_mask": self.masks()} if self.mask_in_observation else seen

    def info(self) -> Info:
        """Return the information of every step, a new array over the environments for each key."""
        return {name: values.copy() for name, values in self.current_info().items()}

    def current_info(self) -> Info:
        """Return the same without copies: arrays that the next step may change."""
        return {
            "action_mask": self.masks(),
            "agrees": self.agrees,
            "elapsed": self.elapsed_s,
            "executed": self.executed,
            "illegal": self.num_illegal,
            "scale": self.scale,
            "split": self._splits,
            "unseen": self.num_unseen(),
            "window": self.numbers[self.window],
        }

    def final_info(self, e: int) -> tuple[float, float]:
        """Return the mean JCT of a terminated environment, s, and its ratio to the reference policy's."""
        load = self.windows[self.window[e]].workload
        count = len(load.jobs)
        jct_s = self.states[e].finish_s[:count] - self.jobs["submit_s"][e, :count]
        mean = float(jct_s[load.counted].mean())
        return mean, self._ratio(e, mean, int(load.counted.sum()))

    @abstractmethod
    def _ratio(self, e: int, mean_jct_s: float, count: int) -> float:
        """Return a mean JCT over the reference policy's."""

    def results(self, e: int) -> pd.DataFrame:
        """Return the results table of an environment; ValueError before its episode has terminated."""
        if not self.terminated[e]:
            raise ValueError(
                "results are complete when an episode has terminated: step until terminated is True"
            )
        table: pd.DataFrame = self.windows[self.window[e]].workload.results(self.episode(e))
        return table

    def view(self, e: int) -> View:
        """Return a scheduler's current view of an environment."""
        return self.episode(e).view

    def episode(self, e: int) -> Episode:
        """Return a copy of an environment's episode."""
        episode: Episode = self.windows[self.window[e]].workload.episode()
        episode.states[0] = self.states[e]
        return episode


class UnionBatch(Batch):
    """Environments whose actions go through the rule `union`: `moves` and `steer`.

    memory: record of the rule's memory of each environment.
    load: float32 (N, len(LOAD)); critic: float32 (N, len(CRITIC)).
    reference: the default rule.
    gain: float64 (N,), share of the reference's job-seconds saved in the last step; -1 where jobs never end.
    more: bool (N,), whether jobs are left.
    The kernel writes these arrays in place.
    """

    def __init__(self, windows: Sequence[PreparedWindow], count: int, **choices: Any) -> None:
        """Allocate the records."""
        super().__init__(windows, count, **choices)
        self.refuse_several_sizes()
        assert isinstance(windows[0].reference, Rule)
        self.reference, first = windows[0].reference, windows[0].episode
        self.states = np.zeros(count, first.states.dtype)
        self.memory = memory_of(self.reference, first.states, first.jobs, first.histories, count)
        self.jobs = np.zeros((count, self.max_jobs), first.jobs.dtype)
        self.load = np.zeros((count, len(LOAD)), np.float32)
        self.critic = np.zeros((count, len(CRITIC)), np.float32)
        self.gain, self.more = np.zeros(count), np.zeros(count, bool)

    def _begin(self, e: int, prepared: PreparedWindow) -> None:
        self.memory[e] = prepared.memory[0]  # first, since it fits the profiles of the jobs
        jobs = prepared.episode.jobs
        self.states[e] = prepared.episode.states[0]
        self.jobs[e, : len(jobs)] = jobs
        self.total[e] = prepared.reference_job_seconds
        self.scale[e] = self.total[e] / PERCENT
        self.more[e], self.gain[e] = True, 0.0
        self.open(e, prepared)

    @abstractmethod
    def open(self, e: int, prepared: PreparedWindow) -> None:
        """Advance an environment that has just been laid out to its first decision."""

    def in_threads(self, work: Callable[[slice], object]) -> None:
        """Call `work` for slices of the environments, on up to `threads` threads."""
        in_threads(work, self.count, self.threads, GROUP)

    def rows(self, part: slice) -> tuple[DefaultRun, StepOutputs]:
        """Return the reference runs of some environments, and the arrays that the kernel writes for them."""
        written = self.load[part], self.critic[part], self.gain[part], self.more[part]
        return DefaultRun(self.finish[part], self.total[part]), StepOutputs(*written)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each episode has terminated, and whether it has been truncated: bool (N,)."""
        done = self.counted_ended().copy()
        long = self.states["instant"] - self.states["ticks"] >= MAX_INSTANTS_PER_JOB * self.states["num_jobs"]
        return done, ~done & (~self.more | long)

    def _clock(self) -> tuple[np.ndarray, np.ndarray]:
        return self.states["clock"].copy(), self.states["present_seconds"].copy()

    def _in_units(self, job_seconds: np.ndarray) -> np.ndarray:
        found: np.ndarray = PERCENT * (job_seconds / self.total)
        return found

    def _gain(self, began_s: np.ndarray, now_s: np.ndarray, job_seconds: np.ndarray) -> np.ndarray:
        return PERCENT * self.gain

    def _ratio(self, e: int, mean_jct_s: float, count: int) -> float:
        return float(mean_jct_s * count / self.total[e])

    def num_unseen(self) -> np.ndarray:
        """Return zeros: the load covers all queued jobs."""
        return np.zeros(self.count, np.int64)


def clipped_load(load: np.ndarray) -> np.ndarray:
    """Return load features within the bounds of their space, as a new array."""
    clipped: np.ndarray = np.clip(load, LOWEST, HIGHEST)
    return clipped


def privileged_space(privileged: bool) -> Space[Any]:
    """Return the space of the load, with that of the critic if it is shown."""
    return Dict({"load": LOAD_SPACE, "critic": CRITIC_SPACE}) if privileged else LOAD_SPACE


def why_illegal(action: int, count: int, reason: str | None = None, *, forgiven: bool = False) -> str:
    """Return the message for an illegal action, with its remedy. reason: why it is illegal, where that is known."""
    inside = 0 <= action < count
    what = f"action {action} is illegal now" if inside else f"action {action} does not exist"
    if reason:
        what = f"{what} ({reason})"
    if forgiven:
        return (
            f"{what}: a legal action replaces it, as all later illegal actions, without another warning; "
            "info['illegal'] counts them. The mask of legal actions is info['action_mask'] or action_masks(), which "
            "MaskablePPO of sb3-contrib calls; illegal='raise' refuses illegal actions"
        )
    if not inside:
        return f"{what}: choose one of 0 to {count - 1}"
    return (
        f"{what}: see action_masks(), which MaskablePPO of sb3-contrib calls, or info['action_mask']; "
        "illegal='next_legal' takes the next legal action instead"
    )


def replaced(actions: np.ndarray, masks: np.ndarray, illegal: Illegal, last_resort: slice) -> np.ndarray:
    """Return the legal action that replaces an illegal one under each mask: int64 (N,).

    It is the first legal action, or for `next_legal` the first one from the illegal one on; after the last action comes
    the first again. One of `last_resort` replaces another action only where no other is legal.

    actions: int64 (N,). masks: (N, actions).
    """
    allowed = masks.astype(bool)
    allowed[:, last_resort] = False
    allowed = np.where(allowed.any(axis=1, keepdims=True), allowed, masks > 0)
    if illegal != "next_legal":
        first: np.ndarray = allowed.argmax(axis=1)
        return first
    size = masks.shape[1]
    turned = (actions[:, np.newaxis] + np.arange(size)) % size
    found: np.ndarray = (actions + np.take_along_axis(allowed, turned, axis=1).argmax(axis=1)) % size
    return found


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a thread pool shared by all batches of the process."""
    return ThreadPoolExecutor(threads, "gpu-cluster-gym")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has no threads


def in_threads(work: Callable[[slice], object], count: int, threads: int, group: int) -> None:
    """Call `work` for slices of `group` environments on a thread pool; compiled calls release the GIL."""
    if threads == 1 or count <= group:
        work(slice(0, count))
        return
    parts = [slice(first, min(first + group, count)) for first in range(0, count, group)]
    list(_pool(threads).map(work, parts))  # raises the exception of any part
