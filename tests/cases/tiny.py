"""A few jobs that queue for two nodes, as a trace file, and an environment on them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pandas as pd

from gpu_cluster_gym.envs.env import GPUClusterEnv

COUNT = 32  # jobs
BY_RULE: dict[str, Any] = {"hints": True, "victims_by": "rule"}
"""Keywords of an environment whose queue is in a heuristic's order, and where rules choose places and victims."""


class Seen(NamedTuple):
    """Result of a step or a reset."""

    observation: Any
    reward: float
    info: dict[str, Any]
    mask: np.ndarray


def jobs(count: int = COUNT, seed: int = 0) -> pd.DataFrame:
    """Draw jobs that queue, some submitted at once, for up to both nodes; half of them can be paused for free."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8, 12, 16], count, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    duration = np.ceil(rng.lognormal(6.5, 1.0, count))
    pause, load = rng.integers(0, 2, count) * rng.choice([5.0, 20.0, 40.0], (2, count))
    return pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(count)],
            "submit_s": np.cumsum(30.0 * rng.integers(0, 5, count)),
            "num_gpus": gpus,
            "duration_s": duration,
            "gpu_memory_gib": rng.choice([4.0, 12.0], count),
            "cpu_cores": gpus * rng.integers(1, 7, count),
            "profiled_duration_s": np.ceil(duration * rng.lognormal(0.0, 0.7, count)),
            "pause_s": pause,
            "load_s": load,
            "startup_s": np.where(duration % 2 > 0, duration % 19, 0.0),
            "predictable_from": rng.integers(0, 2, count).astype(float),
        }
    )


def mixed(seed: int) -> pd.DataFrame:
    """Draw jobs with and without GPUs, some of which fit beside others."""
    table = jobs(seed=seed)
    table["kind"] = "gpu"
    few = table.index % 5 == 4
    table.loc[few, ["num_gpus", "gpu_memory_gib"]] = 0
    table.loc[few, "cpu_cores"] = 1 + table.index[few] % 16
    table.loc[few, "kind"] = "cpu"
    return table.assign(
        bandwidth_gbs=[
            12.0 * cores if cpu else 1.0 for cores, cpu in zip(table["cpu_cores"], few, strict=True)
        ]
    )


def month(count: int = 1200) -> pd.DataFrame:
    """Draw jobs of hours, over thirty days, that often queue for the two nodes."""
    table = jobs(count)
    gaps = np.random.default_rng(1).exponential(30 * 86_400 / count, count)
    longer = {name: 16 * table[name] for name in ("duration_s", "profiled_duration_s")}
    return table.assign(submit_s=np.floor(np.cumsum(gaps)), **longer)


def scenario(folder: Path, table: pd.DataFrame | None = None, **fields: Any) -> dict[str, Any]:
    """Write a table as a trace file and return the scenario that replays it whole on two nodes of eight."""
    file = folder / f"{sum(1 for _ in folder.iterdir())}.csv"  # tables are kept by the name of their file
    (jobs() if table is None else table).to_csv(file, index=False)
    usual = {"trace_file": str(file), "cluster": "2x8", "full_trace": True, "physics": "exclusive"}
    return usual | fields


def make(chosen: dict[str, Any], **choices: Any) -> GPUClusterEnv:
    """Return the environment, without the wrappers of `gymnasium.make`.

    By default its slots hold all jobs, a heuristic orders the queue, rules choose places and victims, jobs may be
    paused after a minute, and illegal actions are refused.
    """
    usual = {"queue_slots": COUNT, "running_slots": COUNT, "min_run_s": 60.0, "illegal": "raise"}
    wanted = BY_RULE | usual | choices
    env = gymnasium.make("GPUCluster-v2", scenario=chosen, **wanted).unwrapped
    assert isinstance(env, GPUClusterEnv)
    return env


def wander(env: GPUClusterEnv, seed: int = 0) -> Iterator[Seen]:
    """Take random legal actions until the episode ends; yield the results of reset and of each step."""
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    over, reward = False, 0.0
    while not over:
        yield Seen(observation, reward, info, env.action_masks())
        action = int(rng.choice(np.flatnonzero(env.action_masks())))
        observation, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    yield Seen(observation, reward, info, env.action_masks())


def bits(seen: Any) -> bytes:
    """Return an observation, a step or any nest of arrays and numbers as bytes, to compare without tolerance."""
    match seen:
        case dict():
            return b"".join(key.encode() + bits(value) for key, value in seen.items())
        case tuple() | list():
            return b"".join(bits(value) for value in seen)
        case _:
            array = np.asarray(seen)
            return f"{array.dtype.str}{array.shape}".encode() + array.tobytes()
