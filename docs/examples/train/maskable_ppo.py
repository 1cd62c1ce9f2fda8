"""Train MaskablePPO of sb3-contrib, then score it beside random legal actions and heuristics.

python -m docs.examples.train.maskable_ppo 200000 --seed 0
python evaluate.py --workload quick --policy docs.examples.train.maskable_ppo:policy
tensorboard --logdir runs
"""

import argparse
from functools import cache
from typing import Any

import gymnasium
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import VecMonitor

from gpu_cluster_gym.agents.vec_env import ClusterVecEnv
from gpu_cluster_gym.envs.agent_policy import AgentPolicy
from gpu_cluster_gym.evaluate import main

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {}
torch.set_num_threads(1)  # the network is small: more threads only add overhead
NAME, FILE = "maskable_ppo", "runs/maskable_ppo.zip"
ENVIRONMENTS, ROLLOUT = 8, 256


def train(steps: int, seed: int = 0) -> None:
    """Train on a batch of training windows and save; MaskablePPO finds the masks itself."""
    batch: Any = gymnasium.make_vec("GPUCluster-v2", ENVIRONMENTS, autoreset="Disabled", **WINDOWS, **CHOICES)
    env = VecMonitor(ClusterVecEnv(batch), info_keywords=("jct_ratio",))
    shown: dict[str, Any] = {"verbose": 1, "tensorboard_log": "runs/tensorboard"}
    rollout = max(2, min(ROLLOUT, steps // ENVIRONMENTS))
    model = MaskablePPO("MlpPolicy", env, n_steps=rollout, batch_size=rollout, **shown, seed=seed)
    model.learn(steps, tb_log_name=NAME)
    model.save(FILE)


@cache
def model() -> MaskablePPO:
    """Load the trained model, once."""
    return MaskablePPO.load(FILE, device="cpu")


def predict(observation: Any, mask: Any) -> Any:
    """Return the most likely legal action."""
    return model().predict(observation, action_masks=mask, deterministic=True)[0]


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
