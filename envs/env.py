"""The Gymnasium face of the simulator."""

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
import pandas as pd

from gpu_cluster_gym.envs import render
from gpu_cluster_gym.envs.actions import Legal, Stepper
from gpu_cluster_gym.envs.observation_spec import Named
from gpu_cluster_gym.envs.rewards import Moment
from gpu_cluster_gym.envs.slots import Slots
from gpu_cluster_gym.envs.task import (
    BEFORE,
    MOST_INSTANTS,
    SCRATCH,
    Illegal,
    Task,
    base_policy,
    forgives,
    mean_jct,
    pythons_own,
    why_illegal,
    window_named,
)
from gpu_cluster_gym.envs.validation import slots, time_constant
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.slots import stepping
from gpu_cluster_gym.simulator.policy import BASE_POLICY
from gpu_cluster_gym.workloads import Split, Workload, make_scenario

Over = Literal["done", "cut"] | None


class GPUClusterEnv(Named, gymnasium.Env[Any, np.int64]):
    """Schedule deep-learning jobs on a GPU cluster, one window of a trace an episode.

    ## Observation `tables` (Dict, the default) or `slots` (flat Box). Both show the first K queued jobs in the base
    policy's order, with profiled features, whether they fit, and the victims they would need; and totals. `tables` adds
    the share of free memory of each GPU and of free cores of each node, and the R running jobs with most time
    remaining, each with its preemption cost; `slots` adds the base policy's logits and the mask. Times are log1p(s /
    60) / 4. `columns` and `shapes` name the columns and the shape of each part, and `parts(observation)` takes one
    apart. A job beyond K is unseen until there is room (`info["unseen"]` counts them), but for the base policy's own
    choice, which takes the last slot.

    ## Actions
    `primitive` (the default): start slot i by placement rule p, pause running slot r, or wait. `pick`: start slot k,
    its victims chosen by rule, or wait. `elastic`: all that a policy can do, one small step after another, sharing,
    cores and throttling included. `action_masks()` tells what is legal, as does `info["action_mask"]`; anything else
    raises ValueError, or with `illegal="first_legal"` is replaced by the first legal action and counted in
    `info["illegal"]`. `action_space.sample()` draws legal ones. Steps at which only waiting is legal are passed over
    inside.

    ## Reward
    `jct`: minus the integral of jobs present, over `info["scale"]` (s), so that the undiscounted return times the
    scale is minus the total JCT. `rollout_advantage` (with `pick`): by how much the action beats the base policy, over
    the same scale. `info["elapsed"]` (s) is how long the step took; with `pick`, `info["agrees"]` tells whether it was
    the base policy's own choice.

    ## Start and end
    A window is drawn at reset, or named by `options={"window": n}`, n being its number within the split, as in
    `info["window"]` and results tables; `windows` are all. `info["split"]` is which split, and may be among the options
    too. The episode terminates when all jobs are done.
    `info` then holds `mean_jct_s` and `jct_ratio`, to the base policy on the same window. It is truncated after 1,000
    instants a job, which only endless pausing and restarting reaches.

    ## Arguments
    workload: a named workload, whose scenario is taken; Philly's windows without one. scenario: fields of
    `workloads.Scenario` that differ from it. split: `train`, `validation` or `test`; a `full_trace` is the same
    episode in every split. count: how many windows of the split, the first ones. observation: what is shown. action:
    what is chosen. reward: what is paid, `gain` or a module of `envs/rewards`. queue_slots: K. running_slots: R.
    exponent, margin: of the base policy, see `baselines.xion_threshold`. tau_s: time constant of rollouts, s; None for
    none. illegal: `raise`, or `first_legal`. render_mode: `ansi`, `rgb_array` (an image of nodes and GPUs by job, 480 x
    640) or `human` (the same in a window).
    """

    metadata = render.METADATA
    _stepper: Stepper | None = None  # of an episode whose steps are compiled calls

    def __init__(
        self,
        scenario: Mapping[str, Any] | None = None,
        *,
        workload: str | None = None,
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
        illegal: Illegal = "raise",
        render_mode: str | None = None,
    ) -> None:
        """Choose the windows; nothing is simulated before the first reset."""
        self.render_mode, self._screen = render_mode, render.Screen(render_mode)
        self.forgives = forgives(illegal)
        self.base_policy = base_policy(exponent, margin)
        found = make_scenario(workload, scenario)
        kinds = {"observation": observation, "action": action, "reward": reward}
        self.task = Task(found, self.base_policy, split=split, count=count, **kinds)
        self.windows, self.split = self.task.windows, self.task.split
        self.tau_s = time_constant("tau_s", tau_s)
        self.picks, self._is_stepped = action == "pick", hasattr(self.task.action, "stepper")
        self.queue_slots, self.running_slots = slots(queue_slots, running_slots)
        self._slots = Slots(self.queue_slots, self.running_slots)
        self._mask = np.zeros(0, np.int8)
        self._actions, self._outcomes = np.zeros(1, np.int64), np.zeros((1, len(stepping.OUTCOME)))
        self._num_illegal = 0
        view = self.task.template(self.windows[0]).view
        self.seen_parts = self.task.observation.parts(self._slots, view)
        self.observation_space = self.task.observation.space(self._slots, view)
        self.action_space: Legal = self.task.action.space(self._slots, view)
        self._first_wait = self.task.action.wait(self._slots, view)
        self.episode: Episode
        self.workload: Workload

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a window: the one named in `options`, else a random one."""
        super().reset(seed=pythons_own(seed))
        number = self.task.window(window_named(options, self.split), self.np_random)
        self.workload = self.task.workloads[number]
        self.episode = self.task.episode(number)
        self._window, self._scale = self.workload.window.number, self.task.base_jct(number)
        self._most_instants = MOST_INSTANTS * len(self.episode.jobs)
        self._num_illegal, self._stepper = 0, None
        self._pass_over()
        self.action_space.opening &= self._mask
        return self._observe(), self._info()

    def place_of(self, number: int | None, rng: np.random.Generator) -> int:
        """Return a window's number if there is that window, or a random one for None; ValueError if there is not."""
        return self.task.window(number, rng)

    def base_jct(self, number: int) -> float:
        """Return the mean JCT of the base policy on a window, s."""
        return self.task.base_jct(number)

    def step(self, action: int | np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carry out an action, and let time pass to the next choice if it was to wait."""
        number, job = self._legal(int(action)), -1
        if self.task.looks_ahead:
            self.episode.states[BEFORE] = self.episode.states[0]
            job = int(self._slots.queue[number]) if number < self.queue_slots else -1
        before, choice = self._moment, self._choice
        self._carry_out(number)
        after, over = self._moment, self._over
        reward = self.task.reward(before, number, after, lambda: self._advantage(number, job, choice))
        info = self._info()
        info["elapsed"] = after.now - before.now
        if self.picks:
            info["agrees"] = number == choice
        return self._observe(), float(reward / self._scale), over == "done", over == "cut", info

    def action_masks(self) -> np.ndarray:
        """Tell which actions are legal now, bool."""
        return self._mask.astype(bool)

    def render(self) -> Any:
        """Return the cluster as text (`ansi`) or as an image (`rgb_array`), or show it in a window (`human`)."""
        return self._screen.draw(self.episode.view) if self.render_mode else None

    def close(self) -> None:
        """Close the window, if there is one."""
        self._screen.close()

    def results(self) -> pd.DataFrame:
        """Return the results table of an episode that has ended."""
        return self.workload.results(self.episode)

    def _advantage(self, action: int, job: int, choice: int) -> float:
        if action == choice:
            return 0.0
        return float(
            calls.advantage(self.episode.states, BEFORE, SCRATCH, self.episode.jobs, job, self.tau_s)
        )

    def _legal(self, action: int) -> int:
        """Return the action, or the first that is legal where it is not and that is forgiven."""
        if 0 <= action < len(self._mask) and self._mask[action]:
            return action
        if not self.forgives:
            raise ValueError(why_illegal(action, len(self._mask)))
        self._num_illegal += 1
        return int(self._mask.argmax())

    def _carry_out(self, number: int) -> None:
        """Carry out a legal action, and let time pass to the next choice."""
        if self._is_stepped:
            self._step(number)
            return
        if number >= self._first_wait:
            self._wait(self.task.action.waits[number - self._first_wait])
        else:
            self.task.action.apply(number, self._slots, self.episode)
        self._pass_over()

    def _step(self, number: int) -> None:
        """Let the kernel carry out an action, and look at what there is to choose then."""
        stepper = self._stepper or self._begin_stepping()
        self._actions[0] = number
        stepper.step(self._actions)
        self._note()

    def _begin_stepping(self) -> Stepper:
        """Return what steps this episode, and writes into the slots."""
        slots, episode = self._slots, self.episode
        slots.prepare(episode.states, episode.jobs)
        records = episode.states, episode.jobs[np.newaxis], slots.sights
        written = slots.rows(running=self.task.observation.shows_running)
        found: Stepper = self.task.action.stepper(records, *written, self.queue_slots)
        self._stepper, self._outcomes = found, found.outcomes
        self._mask = self.action_space.mask = found.masks[0]
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return all but what steps the episode, which writes into parts of others: a copy makes its own."""
        return vars(self) | {"_stepper": None}

    def _pass_over(self) -> None:
        """Let time pass while waiting is all there is to do, and there is one way to wait."""
        if self._is_stepped:
            self._step(stepping.BEGIN)
            return
        while True:
            self._slots.refresh(self.episode.states, 0, self.episode.jobs)
            self._mask = self.action_space.mask = self.task.action.mask(self._slots, self.episode.view)
            arrived = self.episode.state.num_arrived > 0
            a_choice = len(self.task.action.waits) > 1 or self._mask[: self._first_wait].any()
            if self.episode.done or self.episode.endless or (arrived and a_choice):
                break
            self._wait()
        stepping.report(self.episode.states, 0, self._slots.own_choice, self._outcomes)
        self._note()

    def _wait(self, seconds: float | None = None) -> None:
        """Let time pass for so many seconds, or to the next instant; with nothing pending, to one at the same time.

        An unseen job may be able to start, so this asks the mask alone whether waiting is legal.
        """
        state = self.episode.state
        longest = 0.0 if self.episode.nothing_pending else np.inf
        state.wake = state.clock + (longest if seconds is None else seconds)
        moved = self.episode.advance()
        assert moved or self.episode.endless, "something is pending"

    def _note(self) -> None:
        """Note the outcome: the moment, the base policy's choice at it, whether the episode is over, and how."""
        now, job_seconds, choice, queued, instants, done, endless = self._outcomes.tolist()[0]
        cut = endless or instants >= self._most_instants
        self._moment, self._choice, self._queued = Moment(now, job_seconds), int(choice), int(queued)
        self._over: Over = "done" if done else "cut" if cut else None
        if self._screen.is_live:
            self.render()

    def _observe(self) -> Any:
        return self.task.observation(self._slots, self.episode.view, self._mask)

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "scale": self._scale,
            "unseen": max(self._queued - self.queue_slots, 0),
            "split": self.split,
            "window": self._window,
            "action_mask": self._mask.copy(),
        }
        if self.forgives:
            info["illegal"] = self._num_illegal
        if self._over == "done":
            mean = mean_jct(self.episode.states[0], self.episode.jobs)
            info |= {"mean_jct_s": mean, "jct_ratio": mean / self._scale}
        return info
