"""Environments stepped by one compiled call: seeds, windows, and what happens where one has ended."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_cluster_gym.envs.observation_spec import Named
from gpu_cluster_gym.envs.task import window_named
from gpu_cluster_gym.envs.validation import whole_number
from gpu_cluster_gym.traces import unknown

Info = dict[str, Any]
AT_THE_END = ("mean_jct_s", "jct_ratio")


class BatchEnv(Named, VectorEnv[Any, Any, Any], ABC):
    """`num_envs` environments, each on a window of its own.

    `reset(seed=s)` seeds environment i by s + i, or by s[i]; `options={"window": n}` names a window for all, or n[i]
    for each. autoreset: `NextStep` (an environment that has ended begins anew at its next step, whose action is left
    aside), `SameStep` (at once, the last observation and info being `final_obs` and `final_info`), or `Disabled` (it is
    left alone, till the caller begins it anew: by `begin`, or as any batch of Gymnasium's,
    `reset(options={"reset_mask": mask})` with a bool for each environment).
    """

    metadata: Info = {  # noqa: RUF012 - Gymnasium's own pattern
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    env: Any

    def __init__(self, num_envs: int, env: Any, autoreset: AutoresetMode | str) -> None:
        """Take the number of environments, and a single one like them, which names windows by `place_of`."""
        num_envs = whole_number("num_envs", num_envs)
        if autoreset not in (modes := {*AutoresetMode, *(mode.value for mode in AutoresetMode)}):
            raise ValueError(
                unknown("autoreset", str(autoreset), [mode for mode in modes if type(mode) is str])
            )
        self.num_envs, self.env = num_envs, env
        self.autoreset = AutoresetMode(autoreset)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset}
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space
        self.seen_parts = env.seen_parts
        self.observation_space = batch_space(env.observation_space, num_envs)
        self.action_space = batch_space(env.action_space, num_envs)
        self.numbers = np.zeros(num_envs, np.int64)
        """Of each environment's window."""
        self._splits = np.full(num_envs, env.split)
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        self._over = np.zeros(num_envs, bool)
        self._everywhere = np.ones(num_envs, bool)

    @abstractmethod
    def observations(self) -> Any:
        """Return what is seen now in all environments, as new arrays."""

    @abstractmethod
    def info(self) -> Info:
        """Return what is told of the environments as they are now."""

    @abstractmethod
    def action_masks(self) -> np.ndarray:
        """Tell which actions are legal now: bool (num_envs, actions)."""

    @abstractmethod
    def results(self, i: int) -> Any:
        """Return the results table of an environment's episode, which has ended."""

    @abstractmethod
    def _lay_out(self, which: Sequence[int]) -> None:
        """Begin environments whose windows' numbers are written."""

    @abstractmethod
    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, Info]:
        """Carry out actions but where an environment is over; return rewards, and what is told of the step."""

    @abstractmethod
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Tell of each environment whether it is done, and whether it was cut."""

    @abstractmethod
    def _told_at_the_end(self, i: int) -> tuple[float, float]:
        """Return the mean JCT, s, of an environment that is done, and its ratio to the base policy's."""

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[Any, Info]:
        """Begin a window everywhere, or where the option `reset_mask` says: those that are named, else random ones.

        With a mask `_entry` of the info tells which have begun; the others' entries are as they were.
        """
        options = dict(options or {})
        which = self._chosen_by(options.pop("reset_mask", None))
        seeds = [int(seed) + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments")
        wanted = window_named(options, self.env.split)
        named = np.broadcast_to(np.asarray(wanted, object), (self.num_envs,))
        self.begin(which, seeds, named.tolist())
        info, begun = self.info(), np.isin(np.arange(self.num_envs), which)
        return self.observations(), info | {name: begun for name in info if name.startswith("_")}

    def _chosen_by(self, mask: Any) -> Sequence[int]:
        """Return the environments that a mask says, all for None; ValueError where it is no mask, or says none."""
        if mask is None:
            return range(self.num_envs)
        found = np.asarray(mask)
        if found.dtype != bool or found.shape != (self.num_envs,) or not found.any():
            raise ValueError(f"reset_mask: expected {self.num_envs} bools, one of them True, not {mask!r}")
        chosen: list[int] = np.flatnonzero(found).tolist()
        return chosen

    def begin(
        self,
        which: Sequence[int],
        seeds: Sequence[int | None] | None = None,
        numbers: Sequence[int | None] | None = None,
    ) -> None:
        """Begin some of the environments anew; seeds and numbers of windows are by environment, None for any."""
        for i in which:
            if seeds is not None and (seed := seeds[i]) is not None:
                self._rngs[i], _ = seeding.np_random(int(seed))
            self.numbers[i] = self.env.place_of(None if numbers is None else numbers[i], self._rng(i))
            self._over[i] = False
        self._lay_out(which)

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Take a step in every environment; ValueError, with nothing changed, if an action is illegal."""
        if len(actions) != self.num_envs:
            raise ValueError(f"{len(actions)} actions for {self.num_envs} environments")
        ended = np.flatnonzero(self._over)
        rewards, told = self._play(actions)
        if len(ended) and self.autoreset is AutoresetMode.NEXT_STEP:
            self.begin(ended.tolist())
        terminated, truncated = self._ends()
        self._over = terminated | truncated
        info = self.info() | told
        self._add_ends(info, terminated)
        if self.autoreset is AutoresetMode.SAME_STEP and self._over.any():
            info = self._restart(info)
        return self.observations(), rewards, terminated, truncated, info

    def _rng(self, i: int) -> np.random.Generator:
        rng = self._rngs[i]
        if rng is None:
            rng, _ = seeding.np_random()
            self._rngs[i] = rng
        return rng

    def _add_ends(self, info: Info, done: np.ndarray) -> None:
        """Add what is told of episodes that are done, if there are any."""
        if not done.any():
            return
        told = np.zeros((len(AT_THE_END), self.num_envs))
        for i in np.flatnonzero(done).tolist():
            told[:, i] = self._told_at_the_end(i)
        for name, values in zip(AT_THE_END, told, strict=True):
            info |= {name: values, f"_{name}": done}

    def _restart(self, final: Info) -> Info:
        """Begin anew what has ended; return the info of then, that of the ends in `final_info`."""
        ended, seen = self._over.copy(), self.observations()
        last = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(ended).tolist():
            last[i] = {name: part[i] for name, part in seen.items()} if isinstance(seen, dict) else seen[i]
        self.begin(np.flatnonzero(ended).tolist())
        info = {name: value for name, value in final.items() if not name.endswith(AT_THE_END)}
        info |= self.info()
        info |= {"final_obs": last, "_final_obs": ended}
        mine = {name: value & ended for name, value in final.items() if name.startswith("_")}
        return info | {"final_info": final | mine, "_final_info": ended}
