"""The Gymnasium face of the simulator."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
import pandas as pd

from envs import render
from envs.actions import Legal
from envs.rewards import Moment
from envs.slots import Slots
from simulator.choice import changed
from simulator.episode import Episode, run
from simulator.kernel import calls
from simulator.next_moves import adopt
from simulator.policy import BASE_POLICY, Ranking
from traces import find
from workloads import Scenario, Split, Workload, whole, windows

BEFORE = 2  # the record that keeps the state before the last action
SCRATCH = 1
WITH_PICK = {"slots", "rollout_advantage"}  # what shows or pays the slots that one may pick, and no more
MOST_INSTANTS = 1000  # for each job; an agent that only pauses and restarts jobs is cut there


@lru_cache(maxsize=8)
def shared_windows(scenario: Scenario, split: Split, count: int) -> tuple[Workload, ...]:
    """Return windows that all environments of a process share; the whole trace as the only one if so chosen."""
    return (whole(scenario),) if scenario.whole else tuple(windows(scenario, split, count))


class GPUClusterEnv(gymnasium.Env[Any, np.int64]):
    """Schedule deep-learning jobs on a GPU cluster, one window of a trace an episode.

    ## Observation `tables` (Dict, the default) or `slots` (flat Box). Both show the first K queued jobs in the base
    policy's order, with profiled features, whether they fit, and the victims they would need; and totals. `tables` adds
    the share of free memory of each GPU and of free cores of each node, and the R running jobs with most time
    remaining, each with its preemption cost; `slots` adds the base policy's logits and the mask. Times are log1p(s /
    60) / 4; see `simulator.kernel.features` for each column. A job beyond K is unseen until there is room
    (`info["unseen"]` counts them), but for the base policy's own choice, which takes the last slot.

    ## Actions
    `primitive` (the default): start slot i by placement rule p, pause running slot r, or wait. `pick`: start slot k,
    its victims chosen by rule, or wait. `elastic`: all that a policy can do, one small step after another, sharing,
    cores and throttling included. `action_masks()` tells what is legal; anything else raises ValueError.
    `action_space.sample()` draws legal ones. Steps at which only waiting is legal are passed over inside.

    ## Reward
    `jct`: minus the integral of jobs present, over `info["scale"]` (s), so that the undiscounted return times the
    scale is minus the total JCT. `rollout_advantage` (with `pick`): by how much the action beats the base policy, over
    the same scale. `info["elapsed"]` (s) is how long the step took; with `pick`, `info["agrees"]` tells whether it was
    the base policy's own choice.

    ## Start and end
    A window is drawn at reset, or named by `options={"window": n}`, n being its number within the split, as in
    `info["window"]` and results tables; `windows` are all. The episode terminates when all jobs are done.
    `info` then holds `mean_jct_s` and `jct_ratio`, to the base policy on the same window. It is truncated after 1,000
    instants a job, which only endless pausing and restarting reaches.

    ## Arguments
    scenario: fields of `workloads._scenario.Scenario`. split, count: which windows; a `whole` trace is the same episode
    in every split. observation, action, reward: names of modules. queue_slots, running_slots: K and R. exponent,
    margin: the base policy, see `baselines.xion_threshold`.
    tau_s: time constant of rollouts, s; None for none.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - Gymnasium's own pattern

    def __init__(
        self,
        scenario: Mapping[str, Any] | None = None,
        *,
        split: Split = "train",
        count: int = 64,
        observation: str = "tables",
        action: str = "primitive",
        reward: str = "jct",
        queue_slots: int = 16,
        running_slots: int = 16,
        exponent: float = BASE_POLICY.exponent,
        margin: float = BASE_POLICY.margin,
        tau_s: float | None = 3600.0,
        render_mode: str | None = None,
    ) -> None:
        """Choose the windows; nothing is simulated before the first reset."""
        self.render_mode = render_mode
        self.base_policy = Ranking("weighted", "if_it_pays", exponent=exponent, margin=margin)
        found = shared_windows(changed(Scenario(), scenario or {}), split, count)
        self._workloads = {load.window.number: load for load in found}
        self.windows = tuple(self._workloads)
        self._slots = Slots(queue_slots, running_slots)
        self._observation = find("envs.observations", observation, "observation")
        self._action = find("envs.actions", action, "action")
        self._reward = find("envs.rewards", reward, "reward")
        if action != "pick" and (wanted := WITH_PICK & {observation, reward}):
            raise ValueError(f"{', '.join(sorted(wanted))} goes with the action 'pick', not with {action!r}")
        self._picks = action == "pick"
        self._tau = np.inf if tau_s is None else tau_s
        self._scales: dict[int, float] = {}
        self._mask = np.zeros(0, np.int8)
        view = found[0].episode().view
        self.observation_space = self._observation.space(self._slots, view)
        self.action_space: Legal = self._action.space(self._slots, view)
        self._first_wait = self._action.wait(self._slots, view)
        self.episode: Episode
        self.workload: Workload

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a window: the one named in `options`, else a random one."""
        super().reset(seed=seed)
        number = (options or {}).get("window")
        if number is None:
            number = self.windows[self.np_random.integers(len(self.windows))]
        if number not in self.windows:
            there = ", ".join(map(str, self.windows))
            raise ValueError(f"there is no window {number} among the {len(self.windows)}: {there}")
        self.workload = self._workloads[number]
        self.episode = self.workload.episode(rows=BEFORE + 1)
        adopt(self.episode.states, 0, self.episode.jobs, self.base_policy)
        self._scale = self.base_jct(number)
        self._pass_over()
        self.action_space.opening &= self._mask
        return self._observe(), self._info()

    def base_jct(self, number: int) -> float:
        """Return the mean JCT of the base policy on a window, s."""
        if number not in self._scales:
            episode = run(self.base_policy, self._workloads[number].episode())
            self._scales[number] = mean_jct(episode)
        return self._scales[number]

    def step(self, action: int | np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carry out an action, and let time pass to the next choice if it was to wait."""
        action = int(action)
        if not (0 <= action < len(self._mask) and self._mask[action]):
            raise ValueError(f"action {action} is illegal now: see action_masks()")
        episode = self.episode
        episode.states[BEFORE] = episode.states[0]
        before, choice = self._moment(), self._slots.own_choice
        job = int(self._slots.queue[action]) if action < len(self._slots.queue) else -1
        if action >= self._first_wait:
            self._wait(self._action.waits[action - self._first_wait])
        else:
            self._action.apply(action, self._slots, episode)
        self._pass_over()
        after = self._moment()
        reward = self._reward(before, action, after, lambda: self._advantage(action, job, choice))
        info = self._info() | {"elapsed": after.now - before.now}
        if self._picks:
            info["agrees"] = action == choice
        long = episode.state.instant >= MOST_INSTANTS * len(episode.jobs) or episode.endless
        cut = bool(long) and not episode.done
        return self._observe(), float(reward / self._scale), episode.done, cut, info

    def action_masks(self) -> np.ndarray:
        """Tell which actions are legal now, bool."""
        return self._mask.astype(bool)

    def render(self) -> str | None:
        """Return the cluster as text."""
        return render.text(self.episode.view) if self.render_mode == "ansi" else None

    def results(self) -> pd.DataFrame:
        """Return the results table of an episode that has ended."""
        return self.workload.results(self.episode)

    def _advantage(self, action: int, job: int, choice: int) -> float:
        if action == choice:
            return 0.0
        return float(calls.advantage(self.episode.states, BEFORE, SCRATCH, self.episode.jobs, job, self._tau))

    def _pass_over(self) -> None:
        """Let time pass while waiting is all there is to do, and there is one way to wait."""
        while True:
            self._slots.refresh(self.episode.states, 0, self.episode.jobs)
            self._mask = self.action_space.mask = self._action.mask(self._slots, self.episode.view)
            arrived = self.episode.state.num_arrived > 0
            a_choice = len(self._action.waits) > 1 or self._mask[: self._first_wait].any()
            if self.episode.done or self.episode.endless or (arrived and a_choice):
                return
            self._wait()

    def _wait(self, seconds: float | None = None) -> None:
        """Let time pass for so many seconds, or to the next instant; with nothing pending, to one at the same time.

        An unseen job may be able to start, so this asks the mask alone whether waiting is legal.
        """
        state = self.episode.state
        longest = 0.0 if self.episode.nothing_pending else np.inf
        state.wake = state.clock + (longest if seconds is None else seconds)
        moved = self.episode.advance()
        assert moved or self.episode.endless, "something is pending"

    def _moment(self) -> Moment:
        state = self.episode.state
        return Moment(float(state.clock), float(state.present_seconds))

    def _observe(self) -> Any:
        return self._observation(self._slots, self.episode.view, self._mask)

    def _info(self) -> dict[str, Any]:
        unseen = int(self.episode.state.num_queued) - len(self._slots.queue)
        info = {"scale": self._scale, "unseen": max(unseen, 0), "window": self.workload.window.number}
        if self.episode.done:
            mean = mean_jct(self.episode)
            info |= {"mean_jct_s": mean, "jct_ratio": mean / self._scale}
        return info


def mean_jct(episode: Episode) -> float:
    """Return the mean job completion time of an episode that has ended, s."""
    count = len(episode.jobs)
    return float((episode.state.finish_s[:count] - episode.jobs["submit_s"]).mean())
