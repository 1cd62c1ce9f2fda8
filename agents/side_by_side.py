"""Batches of environments of several workloads as one, so that one agent learns on all of them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from gymnasium import Wrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvStepReturn


class SideBySide(VecEnv):
    """VecEnvs with the same spaces, one behind the other; they are stepped at the same time, a thread each."""

    def __init__(self, parts: Sequence[VecEnv]) -> None:
        """Take at least one; ValueError where their spaces differ."""
        first = parts[0]
        if any(
            (each.observation_space, each.action_space) != (first.observation_space, first.action_space)
            for each in parts
        ):
            raise ValueError(
                "environments side by side must have the same spaces of observations and actions"
            )
        self.parts = tuple(parts)
        self._begins = np.cumsum([each.num_envs for each in parts])[:-1].tolist()
        super().__init__(sum(each.num_envs for each in parts), first.observation_space, first.action_space)

    def reset(self) -> Any:
        """Begin a window in every environment, by the seeds and options that were set; return the observations."""
        for part, begin in zip(self.parts, (0, *self._begins), strict=True):
            if self._seeds[begin] is not None:
                part.seed(self._seeds[begin])
            part.set_options(self._options[begin : begin + part.num_envs])
        self._reset_seeds()
        self._reset_options()
        seen = np.concatenate([part.reset() for part in self.parts])
        self.reset_infos = [info for part in self.parts for info in part.reset_infos]
        return seen

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions of the next step."""
        for part, own in zip(self.parts, np.split(actions, self._begins), strict=True):
            part.step_async(own)

    def step_wait(self) -> VecEnvStepReturn:
        """Take the step."""
        with ThreadPoolExecutor(len(self.parts)) as pool:
            steps = list(pool.map(lambda part: part.step_wait(), self.parts))
        self.reset_infos = [info for part in self.parts for info in part.reset_infos]
        seen, rewards, dones, infos = zip(*steps, strict=True)
        told = [info for part in infos for info in part]
        return np.concatenate(seen), np.concatenate(rewards), np.concatenate(dones), told

    def close(self) -> None:
        """Close all."""
        for part in self.parts:
            part.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of each environment that is asked."""
        found = [value for part in self.parts for value in part.get_attr(attr_name)]
        return [found[i] for i in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refuse, as a batch does; AttributeError."""
        self.parts[0].set_attr(attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment that is asked."""
        found = [
            value
            for part in self.parts
            for value in part.env_method(method_name, *method_args, **method_kwargs)
        ]
        return [found[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Tell that no environment is wrapped."""
        return [False for _ in self._get_indices(indices)]
