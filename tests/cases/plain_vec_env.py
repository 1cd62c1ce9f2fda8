"""Base class of test VecEnvs with the methods that the interface requires."""

from typing import Any

from stable_baselines3.common.vec_env.base_vec_env import VecEnv


class PlainVecEnv(VecEnv):
    """VecEnv without anything to close, render or set, in no wrapper."""

    render_mode = None

    def close(self) -> None:
        """Do nothing."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise AttributeError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs
