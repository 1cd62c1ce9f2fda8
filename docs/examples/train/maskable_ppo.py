"""Train MaskablePPO of sb3-contrib, then score it next to random legal actions and heuristics.

python -m docs.examples.train.maskable_ppo 200000 --seed 0
python evaluate.py --workload quick --policy docs.examples.train.maskable_ppo:policy
tensorboard --logdir runs
"""

from functools import cache
from typing import Any
from zlib import crc32

import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from docs.examples.train.slots import JctCurve, ScoresAreLogits, command, keywords, training_envs
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {}
torch.set_num_threads(1)  # the network is small: more threads only add overhead
NAME, FILE = "maskable_ppo", "runs/maskable_ppo.zip"
ENVIRONMENTS, ROLLOUT = 16, 128
PPO_CHOICES = {"n_epochs": 5, "learning_rate": 1e-3}


class Masked(ScoresAreLogits, MaskableActorCriticPolicy):
    """Policy of MaskablePPO."""


def train(steps: int, seed: int = 0) -> None:
    """Train on a batch of training windows and save; MaskablePPO finds the masks itself."""
    env = training_envs(ENVIRONMENTS, WINDOWS | CHOICES)
    shown: dict[str, Any] = {"verbose": 1, "tensorboard_log": "runs/tensorboard"}
    rollout = max(2, min(ROLLOUT, steps // ENVIRONMENTS))
    size: dict[str, Any] = {"n_steps": rollout, "batch_size": 4 * rollout, **PPO_CHOICES}
    model = MaskablePPO(Masked, env, policy_kwargs=keywords(WINDOWS | CHOICES), **size, **shown, seed=seed)
    model.learn(steps, callback=JctCurve(), tb_log_name=NAME)
    model.save(FILE)


@cache
def model() -> MaskablePPO:
    """Load the trained model, once."""
    return MaskablePPO.load(FILE, device="cpu")


def predict(observation: Any, mask: Any) -> Any:
    """Return a sampled legal action, as in training; it depends on the observation alone."""
    agent = model()  # first, since loading seeds Torch, too
    torch.manual_seed(crc32(observation.tobytes()))
    return agent.predict(observation, action_masks=mask, deterministic=False)[0]


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    command(NAME, train, WINDOWS["workload"])
