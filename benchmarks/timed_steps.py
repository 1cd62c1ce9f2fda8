"""Rows of the environment: steps of one, and of a batch."""

import importlib
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from benchmarks.timing import Contest, Setting, Work, row
from benchmarks.yardsticks import Null, NullBatch

ENVIRONMENT = "GPUCluster-v2"
BARS = {"plain": 60_000.0}  # steps a second
BATCH_BARS = {"plain": 300_000.0, "moves": 30_000.0}
ON = {"moves": "GPUCluster-mixed-v2"}  # where a batch is not of Philly's windows
NOTHING = "the same spaces, doing nothing"
BATCH, STEPS, QUICK_STEPS, LENGTH = 64, 4_000, 100, 512


def environment(action: str) -> Any:
    """Make the environment as a user does."""
    importlib.import_module("gpu_cluster_gym.envs")
    return gymnasium.make(ENVIRONMENT, action=action, count=4, disable_env_checker=True)


def batch(action: str, count: int = BATCH) -> Any:
    """Make a batch of environments as a user does."""
    importlib.import_module("gpu_cluster_gym.envs")
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    name = ON.get(action, ENVIRONMENT)
    return gymnasium.make_vec(name, count, vectorization_mode=mode, action=action, count=4)


def steps(env: Any, count: int, mask: Callable[[], np.ndarray]) -> None:
    """Step through episodes, one after the other; the first action that is legal starts a job where one can."""
    env.reset(seed=0)
    for _ in range(count):
        _, _, terminated, truncated, _ = env.step(int(mask().argmax()))
        if terminated or truncated:
            env.reset()


def batch_steps(env: Any, count: int, mask: np.ndarray | None) -> None:
    """Step a batch so often; without a mask by what the environments tell."""
    _, info = env.reset(seed=0)
    for _ in range(count):
        legal = info["action_mask"] if mask is None else mask
        _, _, _, _, info = env.step(legal.argmax(axis=1))


def null_like(env: Any) -> Null:
    """Return an environment with the same spaces that does nothing."""
    shown, _ = env.reset(seed=0)
    return Null(shown, gymnasium.spaces.Discrete(env.action_space.n), env.observation_space, LENGTH)


def step_row(action: str) -> None:
    """Register a row of single steps."""

    @row(f"step_{action}", unit="/s", bar=BARS[action])
    def make(setting: Setting) -> Contest:
        env = environment(action)
        null = null_like(env)
        mask = env.unwrapped.action_masks()
        count = QUICK_STEPS if setting.quick else STEPS
        ours = Work(lambda _: steps(env, count, env.unwrapped.action_masks), count)
        theirs = Work(lambda _: steps(null, STEPS, lambda: mask), STEPS)
        return Contest(ours, theirs, NOTHING)

    make.__doc__ = f"Steps through gymnasium.make, action {action}, mask and observation included"


def batch_row(action: str) -> None:
    """Register a row of steps of a batch."""

    @row(f"batch_{action}", unit="/s", bar=BATCH_BARS[action])
    def make(setting: Setting) -> Contest:
        env = batch(action)
        shown, info = env.reset(seed=0)
        null = NullBatch(shown, BATCH)
        mask = np.array(info["action_mask"])
        count = QUICK_STEPS if setting.quick else STEPS // 4
        ours = Work(lambda _: batch_steps(env, count, None), count * BATCH)
        return Contest(ours, Work(lambda _: batch_steps(null, count, mask), count * BATCH), NOTHING)

    make.__doc__ = f"Steps of a batch of {BATCH} through gymnasium.make_vec, action {action}, all included"


@row("growth_environments", unit="x")
def growth_with_environments(setting: Setting) -> Contest:
    """Cost of a step of one environment, action plain, in a batch of 512, over that in a batch of 64."""
    count = QUICK_STEPS if setting.quick else STEPS // 4

    def work(environments: int) -> Work:
        env = batch("plain", environments)
        often = count * BATCH // environments
        return Work(lambda _: batch_steps(env, often, None), often * environments)

    return Contest(work(8 * BATCH), work(BATCH), "the smaller batch")


for _action in BARS:
    step_row(_action)
for _action in BATCH_BARS:
    batch_row(_action)
