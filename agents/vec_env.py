"""Adapter of the vector environment to Stable-Baselines3."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
from gymnasium import Wrapper
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvStepReturn

from gpu_cluster_gym.envs.registration import make_vec
from gpu_cluster_gym.envs.spaces import row
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.envs.windows import window_option
from gpu_cluster_gym.workloads import Scenario


def batch(num_envs: int, scenario: Scenario, **choices: Any) -> GPUClusterVectorEnv:
    """Return a vector environment of a scenario, without automatic resets; it refuses illegal actions."""
    if choices.get("action") != "steer":
        choices = {"illegal": "raise"} | choices
    return make_vec(num_envs, asdict(scenario), autoreset=AutoresetMode.DISABLED, **choices)


class ClusterVecEnv(VecEnv):
    """A vector environment as a VecEnv, which resets an environment in the step that ends its episode.

    Observations, rewards, ends and infos are those of a DummyVecEnv of single environments, bit for bit, for the seeds
    seed + i that Stable-Baselines3 sets. An info has `terminal_observation`, the last of an episode, and
    `TimeLimit.truncated`. MaskablePPO of sb3-contrib gets the masks by `env_method("action_masks")`.
    """

    def __init__(self, env: GPUClusterVectorEnv) -> None:
        """Wrap a vector environment without automatic resets; ValueError for others."""
        if env.autoreset is not AutoresetMode.DISABLED:
            raise ValueError(
                f"autoreset {env.autoreset.value}: expected Disabled, since a VecEnv resets by itself; make the batch "
                "with autoreset='Disabled'"
            )
        self.env = env
        self._actions = np.zeros(0)
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> Any:
        """Begin a window in every environment, by the seeds and options set before; return the observations."""
        split = self.env.env.split
        self.env.begin(
            range(self.num_envs), self._seeds, [window_option(each, split) for each in self._options]
        )
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = self._split(self.env.info())
        return self.env.observations()

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions of the next step."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Step the environments with the stored actions."""
        seen, rewards, terminated, truncated, info = self.env.step(self._actions)
        infos = self._split(info)
        for i, cut in enumerate(truncated.tolist()):
            infos[i]["TimeLimit.truncated"] = cut
        dones = terminated | truncated
        ended = np.flatnonzero(dones).tolist()
        if ended:
            for i in ended:
                infos[i]["terminal_observation"] = row(seen, i)
            self.env.begin(ended)
            seen = self.env.observations()
            begun = self._split(self.env.info())
            for i in ended:
                self.reset_infos[i] = begun[i]
        return seen, rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    def action_masks(self) -> np.ndarray:
        """Return the legal actions: bool (num_envs, actions)."""
        return self.env.action_masks()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute shared by all environments, once for each; AttributeError if there is none."""
        owner = self if attr_name == "action_masks" else self.env.env
        return [getattr(owner, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Raise AttributeError: the environments share their attributes."""
        raise AttributeError(
            f"{attr_name} cannot be set, since the environments of a batch share their attributes: make another batch"
        )

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Return each environment's mask for `action_masks`, or its table for `results`; else AttributeError."""
        which: Iterable[int] = self._get_indices(indices)
        if method_name == "action_masks":
            masks = self.action_masks()
            return [masks[i] for i in which]
        if method_name == "results":
            return [self.env.results(i) for i in which]
        raise AttributeError(
            f"method {method_name!r}: expected action_masks or results, the methods of an environment in a batch"
        )

    def env_is_wrapped(self, wrapper_class: type[Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Return False for each environment: none is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def _split(self, info: dict[str, Any]) -> list[dict[str, Any]]:
        """Return an info for each environment."""
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for name, values in info.items():
            if name.startswith("_"):
                continue
            for i, there in enumerate(info[f"_{name}"].tolist()):
                if there:
                    infos[i][name] = values[i]
        return infos
