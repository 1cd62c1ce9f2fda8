"""Many environments, stepped by one compiled call."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from envs.actions import Stepper
from envs.env import MOST_INSTANTS, GPUClusterEnv
from envs.rewards import Moment
from envs.task import Task, why_illegal, window_named
from simulator.kernel import calls
from simulator.kernel.layout import JOB
from simulator.kernel.stepping import (
    BEGIN,
    DONE,
    ENDLESS,
    INSTANT,
    JOB_SECONDS,
    LEAVE,
    NOW,
    OWN_CHOICE,
    QUEUED,
)


class GPUClusterVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Step `num_envs` environments `GPUClusterEnv`, each on a window of its own, by one compiled call.

    Everything is that of the single environment, bit for bit: keywords, windows drawn, observations, rewards, ends and
    `info`, of which each entry is an array over the environments, with `_entry` telling for which it holds. The action
    must be one that the kernel steps (`pick`), the observation one that it writes (`slots`); others go by
    `gymnasium.make_vec(..., vectorization_mode="sync")`.

    `reset(seed=s)` seeds environment i by s + i, or by s[i]; `options={"window": n}` names a window for all, or n[i]
    for each. autoreset: `NextStep` (an environment that has ended begins anew at its next step, whose action is left
    aside), `SameStep` (at once, the last observation and info being `final_obs` and `final_info`), or `Disabled` (it is
    left alone, till the caller begins it anew by `begin`).
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium's own pattern
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        scenario: Mapping[str, Any] | None = None,
        *,
        autoreset: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        action: str = "pick",
        observation: str = "slots",
        **choices: Any,
    ) -> None:
        """Choose the windows, as `GPUClusterEnv` does; nothing is simulated before the first reset."""
        self.env = GPUClusterEnv(scenario, action=action, observation=observation, **choices)
        self.task = self.env.task
        refuse_others(self.task, action, observation)
        self.num_envs = num_envs
        self.autoreset = AutoresetMode(autoreset)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset}
        self.single_observation_space = self.env.observation_space
        self.single_action_space = self.env.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.numbers = np.zeros(num_envs, np.int64)
        """Of each environment's window."""
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        longest = max(len(load.jobs) for load in self.task.workloads.values())
        self._states = self.task.template(self.task.windows[0]).states[:1].repeat(num_envs + 1)
        self._jobs = np.zeros((num_envs, longest), JOB)
        self._stepper: Stepper = self.task.action.stepper(self._states, self._jobs, self.env.queue_slots)
        self._scales = np.ones(num_envs)
        self._counts = np.ones(num_envs, np.int64)  # jobs
        self._illegal = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, bool)
        self._everywhere = np.ones(num_envs, bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a window in every environment: those named in `options`, else random ones."""
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments")
        named = np.broadcast_to(np.asarray(window_named(options), object), (self.num_envs,))
        self.begin(range(self.num_envs), seeds, named.tolist())
        return self.observations(), self.info()

    def observations(self) -> np.ndarray:
        """Return what is seen now, a row an environment."""
        return self._stepper.seen.copy()

    def begin(
        self,
        which: Sequence[int],
        seeds: Sequence[int | None] | None = None,
        numbers: Sequence[int | None] | None = None,
    ) -> None:
        """Begin some of the environments anew; seeds and numbers of windows are by environment, None for any."""
        actions = np.full(self.num_envs, LEAVE)
        for i in which:
            if seeds is not None and seeds[i] is not None:
                self._rngs[i], _ = seeding.np_random(seeds[i])
            number = self.task.window(None if numbers is None else numbers[i], self._rng(i))
            template = self.task.template(number)
            self._states[i] = template.states[0]
            self._jobs[i, : len(template.jobs)] = template.jobs
            self._stepper.forget(i)
            self.numbers[i], self._counts[i] = number, len(template.jobs)
            self._scales[i] = self.task.base_jct(number)
            self._illegal[i] = 0
            self._over[i] = False
            actions[i] = BEGIN
        self._stepper.step(actions)

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take a step in every environment; ValueError, with nothing changed, if an action is illegal."""
        ended = np.flatnonzero(self._over)
        chosen = self._legal(np.asarray(actions, np.int64))
        chosen[ended] = LEAVE
        outcomes = self._stepper.outcomes
        before, choices = moments(outcomes), outcomes[:, OWN_CHOICE].copy()
        advantages = self._advantages(chosen, choices) if self.task.looks_ahead else None
        self._stepper.step(chosen)
        after = moments(outcomes)
        rewards = self.task.reward(before, chosen, after, lambda: advantages) / self._scales
        if len(ended) and self.autoreset is AutoresetMode.NEXT_STEP:
            self.begin(ended.tolist())
        terminated = outcomes[:, DONE] > 0
        stuck = (outcomes[:, ENDLESS] > 0) | (outcomes[:, INSTANT] >= MOST_INSTANTS * self._counts)
        truncated = stuck & ~terminated
        self._over = terminated | truncated
        stepped = chosen != LEAVE
        info = self.info()
        info |= {"elapsed": np.where(stepped, after.now - before.now, 0.0), "_elapsed": stepped}
        info |= {"agrees": (chosen == choices) & stepped, "_agrees": stepped}
        self._add_ends(info, terminated)
        if self.autoreset is AutoresetMode.SAME_STEP and self._over.any():
            info = self._restart(info)
        return self.observations(), rewards, terminated, truncated, info

    def action_masks(self) -> np.ndarray:
        """Tell which actions are legal now: bool (num_envs, actions)."""
        return self._stepper.masks.astype(bool)

    def results(self, i: int) -> Any:
        """Return the results table of an environment's episode, which has ended."""
        load = self.task.workloads[int(self.numbers[i])]
        episode = load.episode()
        episode.states[0] = self._states[i]
        return load.results(episode)

    def _rng(self, i: int) -> np.random.Generator:
        rng = self._rngs[i]
        if rng is None:
            rng, _ = seeding.np_random()
            self._rngs[i] = rng
        return rng

    def _legal(self, actions: np.ndarray) -> np.ndarray:
        """Return the actions; the first legal ones in place of others, where that is forgiven."""
        wrong = illegal(actions, self._stepper.masks) & ~self._over
        if not wrong.any():
            return actions.copy()
        if not self.env.forgives:
            refuse(actions, wrong)
        self._illegal += wrong
        return np.where(wrong, self._stepper.masks.argmax(axis=1), actions)

    def _advantages(self, chosen: np.ndarray, choices: np.ndarray) -> np.ndarray:
        """Return by how many discounted job-seconds each action beats the base policy's own."""
        values = np.zeros(self.num_envs)
        for i in np.flatnonzero((chosen != choices) & (chosen != LEAVE)).tolist():
            job = self._stepper.job_of(i, int(chosen[i]))
            jobs = self._jobs[i, : self._counts[i]]
            values[i] = calls.advantage(self._states, i, self.num_envs, jobs, job, self.env.tau_s)
        return values

    def info(self) -> dict[str, Any]:
        """Return what is told of the environments as they are now."""
        unseen = np.maximum(self._stepper.outcomes[:, QUEUED].astype(np.int64) - self.env.queue_slots, 0)
        info: dict[str, Any] = {
            "scale": self._scales.copy(),
            "unseen": unseen,
            "window": self.numbers.copy(),
            "action_mask": self._stepper.masks.copy(),
        }
        if self.env.forgives:
            info["illegal"] = self._illegal.copy()
        return info | {f"_{name}": self._everywhere for name in info}

    def _add_ends(self, info: dict[str, Any], done: np.ndarray) -> None:
        """Add what is told of episodes that are done, if there are any."""
        if not done.any():
            return
        means = np.zeros(self.num_envs)
        for i in np.flatnonzero(done).tolist():
            count = self._counts[i]
            means[i] = (self._states["finish_s"][i, :count] - self._jobs["submit_s"][i, :count]).mean()
        info |= {"mean_jct_s": means, "_mean_jct_s": done}
        info |= {"jct_ratio": means / self._scales, "_jct_ratio": done}

    def _restart(self, final: dict[str, Any]) -> dict[str, Any]:
        """Begin anew what has ended; return the info of then, that of the ends in `final_info`."""
        ended = self._over.copy()
        last = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(ended).tolist():
            last[i] = self._stepper.seen[i].copy()
        self.begin(np.flatnonzero(ended).tolist())
        info = {
            name: value for name, value in final.items() if not name.endswith(("mean_jct_s", "jct_ratio"))
        }
        info |= self.info()
        info |= {"final_obs": last, "_final_obs": ended}
        mine = {name: value & ended for name, value in final.items() if name.startswith("_")}
        return info | {"final_info": final | mine, "_final_info": ended}


def illegal(actions: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Tell of each environment whether its action is illegal."""
    inside = (actions >= 0) & (actions < masks.shape[1])
    wrong: np.ndarray = ~inside | (masks[np.arange(len(masks)), np.where(inside, actions, 0)] == 0)
    return wrong


def refuse(actions: np.ndarray, wrong: np.ndarray) -> NoReturn:
    """ValueError for the first action that is wrong."""
    i = int(wrong.argmax())
    raise ValueError(f"environment {i}: {why_illegal(int(actions[i]))}")


def moments(outcomes: np.ndarray) -> Moment:
    """Return the moments at which environments are, an array a field."""
    return Moment(outcomes[:, NOW].copy(), outcomes[:, JOB_SECONDS].copy())


def refuse_others(task: Task, action: str, observation: str) -> None:
    """ValueError for kinds that no compiled call steps, or writes."""
    if not hasattr(task.action, "stepper"):
        raise ValueError(f"action {action!r} is not stepped in batches: use vectorization_mode='sync'")
    if observation not in task.action.stepper.shows:
        raise ValueError(
            f"observation {observation!r} is not written in batches for {action!r}: use vectorization_mode='sync'"
        )


def make(num_envs: int = 1, *, processes: int = 1, **choices: Any) -> VectorEnv[Any, Any, Any]:
    """Return a batch of environments, divided among so many processes."""
    if processes == 1:
        return GPUClusterVectorEnv(num_envs, **choices)
    from envs.processes import GPUClusterProcesses

    return GPUClusterProcesses(num_envs, processes, **choices)
