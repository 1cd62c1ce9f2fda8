"""A step of environments outside of PPO's own rollouts, counted and told as PPO does."""

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv


def take_step(model: PPO, env: VecEnv, actions: np.ndarray, callback: BaseCallback) -> bool:
    """Act in every environment; return whether a callback lets learning go on."""
    seen, rewards, dones, infos = env.step(actions)
    model._last_obs, model._last_episode_starts = seen, dones  # type: ignore[assignment]
    model.num_timesteps += env.num_envs
    model._update_info_buffer(infos, dones)
    callback.update_locals({"rewards": rewards, "infos": infos})
    return callback.on_step()
