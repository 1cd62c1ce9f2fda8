"""Train DQN of Stable-Baselines3 to start and pause jobs one by one; `policy` plays the trained agent.

python -m docs.examples.train.sb3_dqn 100000
python evaluate.py --workload quick --policy docs.examples.train.sb3_dqn:policy
"""

import sys
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN

import gpu_cluster_gym  # noqa: F401 - registers GPUCluster-v2
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {"placed_by": "agent"}
torch.set_num_threads(1)  # the network is small: more threads only add overhead
FILE = "runs/sb3_dqn.zip"


def train(steps: int) -> None:
    """Train on training windows and save; the dictionary observation `tables` needs MultiInputPolicy."""
    env = gymnasium.make("GPUCluster-v2", **WINDOWS, **CHOICES)
    model = DQN(
        "MultiInputPolicy", env, learning_starts=min(1000, steps // 2), buffer_size=20_000, device="cpu"
    )
    model.learn(steps)
    model.save(FILE)


@cache
def model() -> DQN:
    """Load the trained model, once."""
    return DQN.load(FILE, device="cpu")


def predict(observation: Any, mask: np.ndarray) -> Any:
    """Return the action with the highest value."""
    return model().predict(observation, deterministic=True)[0]


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    train(int(sys.argv[1]))
