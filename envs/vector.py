"""The vector environment of all action kinds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gpu_cluster_gym.envs.batch import FINAL_INFO, Batch, Info
from gpu_cluster_gym.envs.env import ClusterEnv
from gpu_cluster_gym.envs.spaces import NamedParts, row
from gpu_cluster_gym.envs.validation import whole_number
from gpu_cluster_gym.envs.windows import member_seeds, window_number, window_option
from gpu_cluster_gym.traces import unknown


class GPUClusterVectorEnv(NamedParts, VectorEnv[Any, Any, Any]):
    """Step `num_envs` environments, each on a window of its own, by one compiled call.

    Observations, rewards, terminations, truncations and infos are those of single environments, bit for bit; each entry
    of `info` is an array over the environments, and `_entry` is True where it holds.

    `reset(seed=s)` seeds environment i with `windows.member_seeds(s, num_envs)[i]`, so that batches with different
    seeds share no random stream; a list names the seed of each. `options={"window": n}` names a window for all, or a
    list names one for each.

    autoreset: Gymnasium's modes. `NextStep`: an environment that has ended is reset in its next step, whose action is
    ignored. `SameStep`: it is reset at once; the last observation and info are `final_obs` and `final_info`.
    `Disabled`: it is left unchanged until `reset(options={"reset_mask": mask})`, mask being bool (num_envs,), or
    `begin`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium's own pattern
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int,
        env: ClusterEnv,
        *,
        autoreset: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int = 1,
    ) -> None:
        """Make a batch of `num_envs` copies of a single environment, on the same windows.

        threads: number of threads that share the work. ValueError for another autoreset mode than Gymnasium's.
        """
        num_envs = whole_number("num_envs", num_envs)
        if autoreset not in (modes := {*AutoresetMode, *(mode.value for mode in AutoresetMode)}):
            known = [mode for mode in modes if type(mode) is str]
            raise ValueError(unknown("autoreset", str(autoreset), known))
        self.num_envs, self.env = num_envs, env
        self.autoreset = AutoresetMode(autoreset)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset}
        self.batch: Batch = env.kind(env.batch.windows, num_envs, threads=threads, **env.choices)
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space
        self.seen_parts = env.seen_parts
        self.observation_space = batch_space(env.observation_space, num_envs)
        self.action_space = batch_space(env.action_space, num_envs)
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        self._has_begun = np.zeros(num_envs, bool)

    @property
    def window_numbers(self) -> np.ndarray:
        """Number of each environment's window: int64 (num_envs,)."""
        return self.batch.numbers[self.batch.window]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Info]:
        """Begin a window in every environment, or where the option `reset_mask` is True; named windows or random ones.

        With a mask, `_entry` of the info is True for the environments that have been reset.
        ValueError for an unknown option, window or split, an invalid mask, or a wrong number of seeds.
        """
        options = dict(options or {})
        which = self._selected(options.pop("reset_mask", None))
        seeds = member_seeds(seed, self.num_envs) if isinstance(seed, int | np.integer) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise ValueError(f"seed: expected {self.num_envs} seeds, one per environment, not {len(seeds)}")
        wanted = window_option(options, self.env.split)
        named = np.asarray(wanted, object)
        if named.ndim and named.shape != (self.num_envs,):
            raise ValueError(f"option window: expected a number or {self.num_envs} numbers, not {wanted!r}")
        named = np.broadcast_to(named, (self.num_envs,))
        self.begin(which, seeds, named.tolist())
        info, begun = self.info(), np.isin(np.arange(self.num_envs), which)
        return self.observations(), info | {name: begun for name in info if name.startswith("_")}

    def begin(
        self,
        which: Sequence[int],
        seeds: Sequence[int | None] | None = None,
        numbers: Sequence[int | None] | None = None,
    ) -> None:
        """Reset some environments.

        which: their indices. seeds: of all environments; None continues a random stream.
        numbers: window numbers of all environments; None draws one. ValueError for an unknown window.
        """
        for i in which:
            if seeds is not None and (seed := seeds[i]) is not None:
                self._rngs[i], _ = seeding.np_random(int(seed))
            number = window_number(self.env.windows, None if numbers is None else numbers[i], self._rng(i))
            self.batch.begin(i, self.env.windows.index(number))
            self._has_begun[i] = True

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Take a step in every environment.

        actions: one per environment, (num_envs, *shape of an action).
        Return observations, rewards (num_envs,), terminated and truncated bool (num_envs,), and the info.
        ValueError, with nothing changed, for actions of another shape or type, or for an illegal one with
        `illegal="raise"`; ResetNeeded before the first reset of an environment.
        """
        batch = self.batch
        if not self._has_begun.all():
            first = int(self._has_begun.argmin())
            raise ResetNeeded(f"step before the first reset of environment {first}: call reset first")
        shape = (self.num_envs, *self.single_action_space.shape)  # type: ignore[misc]
        if np.shape(actions) != shape:
            raise ValueError(
                f"actions of shape {np.shape(actions)}: expected {shape}, one action per environment"
            )
        ended = np.flatnonzero(batch.over)
        batch.step(actions)
        if len(ended) and self.autoreset is AutoresetMode.NEXT_STEP:
            self.begin(ended.tolist())
        rewards, terminated, truncated = batch.rewards.copy(), batch.terminated.copy(), batch.truncated.copy()
        info = self.info()
        self._add_final(info, terminated)
        if self.autoreset is AutoresetMode.SAME_STEP and batch.over.any():
            info = self._restart(info)
        return self.observations(), rewards, terminated, truncated, info

    def observations(self) -> Any:
        """Return the current observations, as new arrays."""
        return self.batch.observations()

    def info(self) -> Info:
        """Return the current information, as new arrays."""
        info = self.batch.info()
        present = np.ones((len(info), self.num_envs), bool)
        return info | {f"_{name}": present[k] for k, name in enumerate(info)}

    def action_masks(self) -> np.ndarray:
        """Return the legal actions: bool (num_envs, actions); all True for continuous actions."""
        return self.batch.masks().astype(bool)

    def results(self, i: int) -> pd.DataFrame:
        """Return the results table of environment i, whose episode has terminated; ValueError before that."""
        return self.batch.results(i)

    def _selected(self, mask: Any) -> Sequence[int]:
        """Return the environments that a mask selects, all for None; ValueError for an invalid or empty mask."""
        if mask is None:
            return range(self.num_envs)
        found = np.asarray(mask)
        if found.dtype != bool or found.shape != (self.num_envs,) or not found.any():
            raise ValueError(f"reset_mask: expected {self.num_envs} bools, at least one True, not {mask!r}")
        selected: list[int] = np.flatnonzero(found).tolist()
        return selected

    def _rng(self, i: int) -> np.random.Generator:
        """Return the generator that draws the windows of an environment."""
        rng = self._rngs[i]
        if rng is None:
            rng, _ = seeding.np_random()
            self._rngs[i] = rng
        return rng

    def _add_final(self, info: Info, terminated: np.ndarray) -> None:
        """Add the final information of terminated episodes, if there are any."""
        if not terminated.any():
            return
        final = np.zeros((len(FINAL_INFO), self.num_envs))
        for i in np.flatnonzero(terminated).tolist():
            final[:, i] = self.batch.final_info(i)
        for name, values in zip(FINAL_INFO, final, strict=True):
            info |= {name: values, f"_{name}": terminated}

    def _restart(self, final: Info) -> Info:
        """Reset the environments that have ended; return the new info, with the last one in `final_info`."""
        ended, seen = self.batch.over.copy(), self.observations()
        last = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(ended).tolist():
            last[i] = row(seen, i)
        self.begin(np.flatnonzero(ended).tolist())
        info: dict[str, Any] = self.info()
        info |= {"final_obs": last, "_final_obs": ended}
        mine = {name: value & ended for name, value in final.items() if name.startswith("_")}
        return info | {"final_info": final | mine, "_final_info": ended}
