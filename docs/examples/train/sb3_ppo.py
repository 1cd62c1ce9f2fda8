"""Train PPO of Stable-Baselines3 to choose the next job; `policy` plays the trained agent.

It shows how the parts fit together: with these settings PPO is no better than a random legal agent.

python -m docs.examples.train.sb3_ppo 100000
python evaluate.py --workload quick --policy docs.examples.train.sb3_ppo:policy
"""

import sys
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO

import gpu_cluster_gym  # noqa: F401 - registers GPUCluster-v2
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {}
"""Observation and action; PPO does not support masks, so the next legal action replaces an illegal one."""
torch.set_num_threads(1)  # the network is small: more threads only add overhead
FILE = "runs/sb3_ppo.zip"


def train(steps: int) -> None:
    """Train on training windows and save."""
    env = gymnasium.make("GPUCluster-v2", **WINDOWS, **CHOICES)
    model = PPO("MlpPolicy", env, n_steps=min(2048, steps), batch_size=min(256, steps), device="cpu")
    model.learn(steps)
    model.save(FILE)


@cache
def model() -> PPO:
    """Load the trained model, once."""
    return PPO.load(FILE, device="cpu")


def predict(observation: Any, mask: np.ndarray) -> Any:
    """Return the most likely action."""
    return model().predict(observation, deterministic=True)[0]


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    train(int(sys.argv[1]))
