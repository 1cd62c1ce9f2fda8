"""Many environments, stepped by one compiled call."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from gymnasium.vector import AutoresetMode

from gpu_cluster_gym.envs.actions import Stepper
from gpu_cluster_gym.envs.batch import BatchEnv, Info
from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.envs.rewards import Moment
from gpu_cluster_gym.envs.task import MOST_INSTANTS, refuse_without_pick, why_illegal
from gpu_cluster_gym.envs.threads import in_parts
from gpu_cluster_gym.envs.validation import whole_number
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB, tier
from gpu_cluster_gym.simulator.kernel.slots.sight import sight_dtype
from gpu_cluster_gym.simulator.kernel.slots.stepping import (
    BEGIN,
    DONE,
    ENDLESS,
    INSTANTS,
    JOB_SECONDS,
    LEAVE,
    NOW,
    OWN_CHOICE,
    QUEUED,
)
from gpu_cluster_gym.simulator.slots import parts_of, width
from gpu_cluster_gym.traces import find


class GPUClusterVectorEnv(BatchEnv):
    """Step `num_envs` environments `GPUClusterEnv`, each on a window of its own, by one compiled call.

    Everything is that of the single environment, bit for bit: keywords, windows drawn, observations, rewards, ends and
    `info`, of which each entry is an array over the environments, with `_entry` telling for which it holds. The action
    must be one that the kernel steps, `pick` or `primitive`; others go by `gymnasium.make_vec(...,
    vectorization_mode="sync")`. Without an observation named, picks see `slots` and primitives `tables`. threads: that
    share the work. Seeds, windows and autoreset: see `BatchEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        scenario: Mapping[str, Any] | None = None,
        *,
        autoreset: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        action: str = "pick",
        observation: str | None = None,
        threads: int = 1,
        **choices: Any,
    ) -> None:
        """Choose the windows, as `GPUClusterEnv` does; nothing is simulated before the first reset."""
        threads = whole_number("threads", threads)
        observation = what_is_written(action, observation)
        super().__init__(
            num_envs, GPUClusterEnv(scenario, action=action, observation=observation, **choices), autoreset
        )
        self.task, self._threads = self.env.task, threads
        counts = [len(load.jobs) for load in self.task.workloads.values()]
        refuse_several_sizes(counts)
        self._states = self.task.template(self.task.windows[0]).states[:1].repeat(num_envs + 1)
        self._jobs = np.zeros((num_envs, max(counts)), JOB)
        self._stepper = self._make_stepper()
        self._scales = np.ones(num_envs)
        self._counts = np.ones(num_envs, np.int64)  # jobs
        self._illegal = np.zeros(num_envs, np.int64)

    def _make_stepper(self) -> Stepper:
        """Return what steps the environments, all of which have this number of slots, GPUs and nodes."""
        env, first = self.env, self._states[0]
        size, self._parts = width(env.queue_slots), dict[str, slice]()
        if self.task.observation.shows_running:
            self._parts = parts_of(env.queue_slots, env.running_slots, first.num_gpus, first.num_nodes)
            size = self._parts["free_cores"].stop
        self._shown = np.zeros((self.num_envs, size), np.float32)
        sights = np.zeros(self.num_envs, sight_dtype(self._states.dtype))
        listed = np.full((self.num_envs, env.queue_slots + env.running_slots), -1, np.int64)
        records = self._states, self._jobs, sights
        found: Stepper = self.task.action.stepper(records, listed, self._shown, env.queue_slots)
        return found

    def observations(self) -> Any:
        """Return what is seen now, a row an environment."""
        if not self._parts:
            return self._shown.copy()
        return {name: self._shown[:, part].copy() for name, part in self._parts.items()}

    def _step(self, actions: np.ndarray) -> None:
        """Carry out actions, divided among threads."""
        each = -(-self.num_envs // self._threads)
        in_parts(lambda part: self._stepper.step(actions, part), self.num_envs, self._threads, each)

    def action_masks(self) -> np.ndarray:
        """Tell which actions are legal now: bool (num_envs, actions)."""
        return self._stepper.masks.astype(bool)

    def results(self, i: int) -> Any:
        """Return the results table of an environment's episode, which has ended."""
        load = self.task.workloads[int(self.numbers[i])]
        episode = load.episode()
        episode.states[0] = self._states[i]
        return load.results(episode)

    def _lay_out(self, which: Sequence[int]) -> None:
        actions = np.full(self.num_envs, LEAVE)
        for i in which:
            template = self.task.template(int(self.numbers[i]))
            self._states[i] = template.states[0]
            write_over(self._jobs[i, : len(template.jobs)], template.jobs)
            self._stepper.forget(i)
            self._counts[i] = len(template.jobs)
            self._scales[i] = self.task.base_jct(int(self.numbers[i]))
            self._illegal[i] = 0
            actions[i] = BEGIN
        self._step(actions)

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, Info]:
        chosen = self._legal(np.asarray(actions, np.int64))
        chosen[self._over] = LEAVE
        outcomes = self._stepper.outcomes
        before, choices = moments(outcomes), outcomes[:, OWN_CHOICE].copy()
        advantages = self._advantages(chosen, choices) if self.task.looks_ahead else None
        self._step(chosen)
        after, stepped = moments(outcomes), chosen != LEAVE
        rewards = self.task.reward(before, chosen, after, lambda: advantages) / self._scales
        told = {"elapsed": np.where(stepped, after.now - before.now, 0.0), "_elapsed": stepped}
        if self.env.picks:
            told |= {"agrees": (chosen == choices) & stepped, "_agrees": stepped}
        return rewards, told

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        outcomes = self._stepper.outcomes
        terminated = outcomes[:, DONE] > 0
        stuck = (outcomes[:, ENDLESS] > 0) | (outcomes[:, INSTANTS] >= MOST_INSTANTS * self._counts)
        return terminated, stuck & ~terminated

    def _told_at_the_end(self, i: int) -> tuple[float, float]:
        count = self._counts[i]
        mean = float((self._states["finish_s"][i, :count] - self._jobs["submit_s"][i, :count]).mean())
        return mean, mean / self._scales[i]

    def _legal(self, actions: np.ndarray) -> np.ndarray:
        """Return the actions; the first legal ones in place of others, where that is forgiven."""
        wrong = illegal(actions, self._stepper.masks) & ~self._over
        if not wrong.any():
            return actions.copy()
        if not self.env.forgives:
            refuse(actions, wrong, self._stepper.masks.shape[1])
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
            "split": self._splits.copy(),
            "window": self.numbers.copy(),
            "action_mask": self._stepper.masks.copy(),
        }
        if self.env.forgives:
            info["illegal"] = self._illegal.copy()
        return info | {f"_{name}": self._everywhere for name in info}


def refuse_several_sizes(counts: Sequence[int]) -> None:
    """ValueError where windows of so many jobs have records of several sizes."""
    sizes = sorted({tier(count, nodes=1, gpus=1).jobs for count in counts})
    if len(sizes) > 1:
        raise ValueError(
            f"windows of {min(counts):,} to {max(counts):,} jobs cannot stand in one batch, since records have room "
            f"for {' or '.join(f'{size:,}' for size in sizes)} jobs: use vectorization_mode='sync', or other `jobs`"
        )


def write_over(records: np.ndarray, others: np.ndarray) -> None:
    """Write other records of the same type over these, all bytes at once: field by field it takes ten times as long."""
    records.view(np.uint8)[:] = others.view(np.uint8)


def illegal(actions: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Tell of each environment whether its action is illegal."""
    inside = (actions >= 0) & (actions < masks.shape[1])
    wrong: np.ndarray = ~inside | (masks[np.arange(len(masks)), np.where(inside, actions, 0)] == 0)
    return wrong


def refuse(actions: np.ndarray, wrong: np.ndarray, count: int) -> NoReturn:
    """ValueError for the first action that is wrong, of so many that there are."""
    i = int(wrong.argmax())
    raise ValueError(f"environment {i}: {why_illegal(int(actions[i]), count)}")


def moments(outcomes: np.ndarray) -> Moment:
    """Return the moments at which environments are, an array a field."""
    return Moment(outcomes[:, NOW].copy(), outcomes[:, JOB_SECONDS].copy())


def what_is_written(action: str, observation: str | None) -> str:
    """Return what environments of an action see in a batch, as named or usual; ValueError for what is only single."""
    stepper: type[Stepper] | None = getattr(find("envs.actions", action, "action"), "stepper", None)
    if stepper is None:
        raise ValueError(f"action {action!r} is not stepped in batches: use vectorization_mode='sync'")
    shown = observation or stepper.shows[0]
    find("envs.observations", shown, "observation")
    refuse_without_pick(action, shown)
    if shown not in stepper.shows:
        raise ValueError(
            f"observation {shown!r} is not written in batches for {action!r}: use vectorization_mode='sync'"
        )
    return shown
