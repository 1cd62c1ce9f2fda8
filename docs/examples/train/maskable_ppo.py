"""Train MaskablePPO of sb3-contrib on individual moves with every lever; `policy` plays the trained agent.

pip install sb3-contrib
python -m docs.examples.train.maskable_ppo 100000
python evaluate.py --workload mixed --policy docs.examples.train.maskable_ppo:policy
"""

import sys
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import VecMonitor

from gpu_cluster_gym.agents.vec_env import ClusterVecEnv
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "mixed"}
CHOICES: dict[str, Any] = {"action": "moves"}
torch.set_num_threads(1)  # the network is small: more threads only add overhead
FILE = "runs/maskable_ppo.zip"
ENVIRONMENTS = 16


def train(steps: int) -> None:
    """Train on a batch of training windows and save; MaskablePPO finds the masks itself."""
    batch: Any = gymnasium.make_vec(
        "gpu_cluster_gym:GPUCluster-v2", ENVIRONMENTS, autoreset="Disabled", **WINDOWS, **CHOICES
    )
    rollout = max(2, min(128, steps // ENVIRONMENTS))
    model = MaskablePPO("MultiInputPolicy", VecMonitor(ClusterVecEnv(batch)), n_steps=rollout, device="cpu")
    model.learn(steps)
    model.save(FILE)


@cache
def model() -> MaskablePPO:
    """Load the trained model, once."""
    return MaskablePPO.load(FILE, device="cpu")


def predict(observation: Any, mask: np.ndarray) -> Any:
    """Return the most likely legal action."""
    return model().predict(observation, action_masks=mask, deterministic=True)[0]


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    train(int(sys.argv[1]))
