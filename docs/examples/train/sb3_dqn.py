"""Train DQN of Stable-Baselines3, then score it next to random legal actions and heuristics.

python -m docs.examples.train.sb3_dqn 40000 --seed 0
python evaluate.py --workload quick --policy docs.examples.train.sb3_dqn:policy
tensorboard --logdir runs
"""

from functools import cache
from typing import Any

import torch
from stable_baselines3 import DQN

from docs.examples.train.slots import (
    JctCurve,
    SlotAdvantages,
    SlotValues,
    TimedTransitions,
    command,
    keywords,
    sample,
    training_envs,
)
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick", "reward": "regret"}
CHOICES: dict[str, Any] = {}
torch.set_num_threads(1)  # the network is small: more threads only add overhead
NAME, FILE = "sb3_dqn", "runs/sb3_dqn.zip"
ENVIRONMENTS = 8
TEMPERATURE = 0.1  # of the softmax by which the trained policy acts: always the highest value is brittle


def train(steps: int, seed: int = 0) -> None:
    """Train on a batch of training windows and save; illegal actions are replaced."""
    env = training_envs(ENVIRONMENTS, WINDOWS | CHOICES)
    shown: dict[str, Any] = {"verbose": 1, "tensorboard_log": "runs/tensorboard", "seed": seed}
    learning: dict[str, Any] = {
        "learning_starts": min(4_000, steps // 2),
        "buffer_size": 50_000,
        "learning_rate": 1e-3,
        "gamma": 0.99,  # for each step; the buffer discounts by simulated time
        "batch_size": 128,
        "train_freq": 1,
        "gradient_steps": 1,
        "replay_buffer_class": TimedTransitions,
        "target_update_interval": 500,
    }
    exploration: dict[str, Any] = {
        "exploration_fraction": 0.3,
        "exploration_initial_eps": 0.3,
        "exploration_final_eps": 0.02,
    }
    given = keywords(WINDOWS | CHOICES, net_arch=[]) | {"features_extractor_class": SlotAdvantages}
    model = DQN(SlotValues, env, policy_kwargs=given, **learning, **exploration, **shown)
    model.learn(steps, callback=JctCurve(), tb_log_name=NAME)
    model.save(FILE)


@cache
def model() -> DQN:
    """Load the trained model, once."""
    return DQN.load(FILE, device="cpu")


def predict(observation: Any, mask: Any) -> Any:
    """Return a legal action, sampled by the values; it depends on the observation alone."""
    return sample(model().q_net.features_extractor, observation, mask, TEMPERATURE)


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    command(NAME, train, WINDOWS["workload"])
