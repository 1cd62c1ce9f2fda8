"""Train DQN of Stable-Baselines3, then score it beside random legal actions and heuristics.

python -m docs.examples.train.sb3_dqn 100000 --seed 0
python evaluate.py --workload quick --policy docs.examples.train.sb3_dqn:policy
tensorboard --logdir runs
"""

import argparse
from functools import cache
from typing import Any

import gymnasium
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import VecMonitor

from gpu_cluster_gym.agents.vec_env import ClusterVecEnv
from gpu_cluster_gym.envs.agent_policy import AgentPolicy
from gpu_cluster_gym.evaluate import main

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {}
torch.set_num_threads(1)  # the network is small: more threads only add overhead
NAME, FILE = "sb3_dqn", "runs/sb3_dqn.zip"
ENVIRONMENTS = 8


def train(steps: int, seed: int = 0) -> None:
    """Train on a batch of training windows and save; illegal actions are replaced."""
    batch: Any = gymnasium.make_vec("GPUCluster-v2", ENVIRONMENTS, autoreset="Disabled", **WINDOWS, **CHOICES)
    env = VecMonitor(ClusterVecEnv(batch), info_keywords=("jct_ratio",))
    shown: dict[str, Any] = {"verbose": 1, "tensorboard_log": "runs/tensorboard", "seed": seed}
    model = DQN("MlpPolicy", env, learning_starts=min(2_000, steps // 2), buffer_size=50_000, **shown)
    model.learn(steps, tb_log_name=NAME)
    model.save(FILE)


@cache
def model() -> DQN:
    """Load the trained model, once."""
    return DQN.load(FILE, device="cpu")


def predict(observation: Any, mask: Any) -> Any:
    """Return the action with the highest value."""
    return model().predict(observation, deterministic=True)[0]


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--windows", default="24", help="test windows of the table at the end")
    chosen = parser.parse_args()
    train(chosen.steps, chosen.seed)
    beside = ["random_legal", f"docs.examples.train.{NAME}:policy", "first_legal", "fifo", "srtf"]
    main(["--policy", *beside, "--workload", WINDOWS["workload"], "--windows", chosen.windows])
