"""Batches of environments in processes of their own, stepped side by side."""

import multiprocessing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from envs.naming import Named
from envs.vector import GPUClusterVectorEnv, illegal, refuse


class GPUClusterProcesses(Named, VectorEnv[Any, np.ndarray, np.ndarray]):
    """`GPUClusterVectorEnv` with its environments divided among so many processes, in their order.

    Everything is the same, bit for bit. It pays where each process has a core of its own and a step takes longer than
    to send what is seen; `close` ends the processes.
    """

    def __init__(
        self, num_envs: int, processes: int, scenario: Mapping[str, Any] | None = None, **choices: Any
    ) -> None:
        """Start the processes; ValueError where there are more of them than environments."""
        if not 1 <= processes <= num_envs:
            raise ValueError(f"processes {processes}: expected 1 to {num_envs}, the number of environments")
        alike = GPUClusterVectorEnv(1, scenario, **choices)  # a wrong choice is refused here
        self.num_envs, self.metadata, self.seen_parts = num_envs, alike.metadata, alike.seen_parts
        self.single_observation_space = alike.single_observation_space
        self.single_action_space = alike.single_action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._forgives, self._autoreset = alike.env.forgives, alike.autoreset
        self._masks = np.zeros((num_envs, 0), np.int8)
        self._over = np.zeros(num_envs, bool)
        self._parts = np.array_split(np.arange(num_envs), processes)
        self._ends: list[Connection] = []
        self._workers = []
        context = multiprocessing.get_context("spawn")
        for part in self._parts:
            here, there = context.Pipe()
            args = (there, len(part), scenario, choices)
            self._workers.append(context.Process(target=work, args=args, daemon=True))
            self._workers[-1].start()
            there.close()
            self._ends.append(here)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a window in every environment, as `GPUClusterVectorEnv.reset` does."""
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments")
        calls = []
        for part in self._parts:
            own = None if seeds is None else [seeds[i] for i in part]
            calls.append(("reset", {"seed": own, "options": part_of(options, part)}))
        seen, infos = zip(*self._ask(calls), strict=True)
        info = joined(infos, self._parts)
        self._masks, self._over = info["action_mask"], np.zeros(self.num_envs, bool)
        return in_a_row(seen), info

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take a step in every environment; ValueError, with nothing changed, if an action is illegal."""
        actions = np.asarray(actions, np.int64)
        if not self._forgives and (wrong := illegal(actions, self._masks) & ~self._over).any():
            refuse(actions, wrong)
        answers = self._ask([("step", {"actions": actions[part]}) for part in self._parts])
        *parts, infos = zip(*answers, strict=True)
        seen, rewards, terminated, truncated = map(in_a_row, parts)
        info = joined(infos, self._parts)
        self._masks = info["action_mask"]
        if self._autoreset is not AutoresetMode.SAME_STEP:
            self._over = terminated | truncated
        return seen, rewards, terminated, truncated, info

    def action_masks(self) -> np.ndarray:
        """Tell which actions are legal now: bool (num_envs, actions)."""
        return np.concatenate(self._ask([("action_masks", {})] * len(self._parts)))

    def close_extras(self, **kwargs: Any) -> None:
        """End the processes."""
        for end in self._ends:
            with suppress(BrokenPipeError):  # it has ended already
                end.send(None)
            end.close()
        for worker in self._workers:
            worker.join()

    def _ask(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
        """Call a method in each process; return what came back, in order, or raise what was raised first."""
        for end, call in zip(self._ends, calls, strict=True):
            end.send(call)
        answers = [end.recv() for end in self._ends]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers


def work(end: Connection, count: int, scenario: Mapping[str, Any] | None, choices: dict[str, Any]) -> None:
    """Step a batch as the other end asks, until it asks no more."""
    envs = GPUClusterVectorEnv(count, scenario, **choices)
    while True:
        try:
            call = end.recv()
        except EOFError:
            return
        if call is None:
            return
        method, arguments = call
        try:
            answer = getattr(envs, method)(**arguments)
        except ValueError as wrong:
            answer = wrong
        end.send(answer)


def in_a_row(parts: Sequence[Any]) -> Any:
    """Return arrays, or dictionaries of arrays, of the environments of each process as one."""
    if isinstance(parts[0], dict):
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return np.concatenate(parts)


def part_of(options: dict[str, Any] | None, part: np.ndarray) -> dict[str, Any] | None:
    """Return the options of some of the environments."""
    return {
        name: value if np.ndim(value) == 0 else [value[i] for i in part]
        for name, value in (options or {}).items()
    }


def joined(infos: Sequence[dict[str, Any]], parts: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return infos of parts as one; what is told in some parts only is 0 elsewhere, and `_name` says so."""
    whole: dict[str, Any] = {}
    for name in dict.fromkeys(name for info in infos for name in info):
        found = next(info[name] for info in infos if name in info)
        if isinstance(found, dict):
            whole[name] = joined([info.get(name, {}) for info in infos], parts)
            continue
        none = None if found.dtype == object else found.dtype.type()
        empty = [np.full((len(part), *found.shape[1:]), none, found.dtype) for part in parts]
        each = [info.get(name, missing) for info, missing in zip(infos, empty, strict=True)]
        whole[name] = np.concatenate(each)
    return whole
