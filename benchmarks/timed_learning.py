"""Rows of learning: what a frame of Stable-Baselines3's PPO costs, over one on the same spaces doing nothing."""

import importlib
from typing import Any

import gymnasium
import numpy as np

from benchmarks.timed_steps import ENVIRONMENT, NOTHING, ON
from benchmarks.timing import Contest, Setting, Work, row

BATCH = 64
LEARNER: dict[str, Any] = {"n_steps": 64, "batch_size": 1024, "n_epochs": 4, "device": "cpu", "seed": 0}
MOST_OVER_NULL = 1.25  # .8 of the frames a second
CHOICES: dict[str, dict[str, Any]] = {
    "plain": {"illegal": "first_legal"},
    "moves": {"illegal": "first_legal"},
}


def envs_of(action: str) -> Any:
    """Return a batch of environments as a learner takes it."""
    importlib.import_module("gpu_cluster_gym.envs")
    from gpu_cluster_gym.agents.vec_env import ClusterVecEnv

    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    chosen = {"action": action, "count": 4, "autoreset": "Disabled", **CHOICES[action]}
    name = ON.get(action, ENVIRONMENT)
    env: Any = gymnasium.make_vec(name, BATCH, vectorization_mode=mode, **chosen)
    return ClusterVecEnv(env)


def null_like(envs: Any) -> Any:
    """Return a batch with the same spaces that does nothing: no episode ends, and every step shows the same."""
    shown = envs.reset()
    nothing = np.zeros(BATCH, np.float32), np.zeros(BATCH, bool)

    class NullEnvs(type(envs)):  # type: ignore[misc]
        """Shows what the first step shows."""

        def reset(self) -> Any:
            """Begin the episodes."""
            return shown

        def step_wait(self) -> Any:
            """Take the step."""
            return shown, *nothing, [{} for _ in range(BATCH)]

    return NullEnvs(envs.env)


def learning(envs: Any, frames: int) -> Work:
    """Return the work of learning from so many frames, on one thread."""
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    shown = envs.observation_space
    kind = "MultiInputPolicy" if isinstance(shown, gymnasium.spaces.Dict) else "MlpPolicy"
    return Work(lambda model: model.learn(frames), frames, lambda: PPO(kind, envs, **LEARNER))


def learner_row(action: str) -> None:
    """Register a row of learning."""

    @row(f"learner_{action}", unit="x", bar=MOST_OVER_NULL)
    def make(setting: Setting) -> Contest:
        frames = BATCH * LEARNER["n_steps"] * (1 if setting.quick else 2)
        envs = envs_of(action)
        return Contest(learning(envs, frames), learning(null_like(envs), frames), NOTHING)

    about = f"A frame of SB3 PPO on a batch of {BATCH}, action {action}, over one on the same spaces doing nothing"
    make.__doc__ = about


for _action in CHOICES:
    learner_row(_action)
