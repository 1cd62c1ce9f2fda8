"""Trace file in which jobs queue for two nodes, long enough to be split, and agents that learn on it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gpu_cluster_gym.agents.checkpoint import new_network
from gpu_cluster_gym.agents.set_network import SetNetwork
from gpu_cluster_gym.agents.training import PlainTraining, Training
from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.envs.registration import make_vec
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.workloads import Scenario

TINY = PlainTraining(
    total_timesteps=256,
    windows=4,
    validation_windows=2,
    validate_every=128,
    num_envs=4,
    n_steps=32,
    batch_size=64,
    n_epochs=2,
    queue_slots=8,
    running_slots=4,
    min_run_s=60.0,
)


def crowd(file: Path, *, count: int = 600, seed: int = 0) -> str:
    """Write jobs of 60 days that come in bursts and queue for sixteen GPUs; return the file's name."""
    rng = np.random.default_rng(seed)
    bursts = np.sort(rng.uniform(0, 60 * 86_400, count // 30))
    table = pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(count)],
            "submit_s": np.sort(rng.choice(bursts, count) + rng.uniform(0, 3600, count)),
            "num_gpus": rng.choice([1, 2, 4, 8, 16], count, p=[0.45, 0.25, 0.15, 0.1, 0.05]),
            "duration_s": np.ceil(rng.lognormal(7.0, 1.2, count)),
        }
    )
    table.to_csv(file, index=False)
    return str(file)


def crowded(folder: Path) -> Scenario:
    """Return a scenario of small windows of such a trace."""
    file = crowd(folder / "jobs.csv")
    return Scenario(trace_file=file, cluster="2x8", jobs=40, all_windows=True, physics="exclusive")


def env_of(scenario: Scenario, training: Training = TINY, **choices: Any) -> GPUClusterEnv:
    """Return the environment in which an agent is trained, on as many windows as it is validated on."""
    usual = {"split": "validation", "count": training.validation_windows}
    chosen = training.environment() | usual | choices
    return GPUClusterEnv(
        asdict(scenario), **{name: value for name, value in chosen.items() if name != "action"}
    )


def batch_of(
    scenario: Scenario, count: int = 1, training: Training = TINY, **choices: Any
) -> GPUClusterVectorEnv:
    """Return a number of these environments, without automatic reset."""
    usual = {"split": "validation", "count": training.validation_windows, "autoreset": "Disabled"}
    return make_vec(count, asdict(scenario), **(training.environment() | usual | choices))


def opinionated(training: Training = TINY, seed: int = 0, *, sure: float = 30.0) -> SetNetwork:
    """Return a network with random scores of this size, so that it starts, pauses and waits by what it sees."""
    torch.manual_seed(seed)
    network = new_network(training)
    assert isinstance(network, SetNetwork)
    scores = network.actor.score_queued, network.actor.score_running, network.actor.score_whole
    for layer in scores:
        torch.nn.init.normal_(layer.weight, std=sure)
    torch.nn.init.zeros_(network.actor.score_running.bias)
    return network
