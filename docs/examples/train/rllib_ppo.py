"""Train PPO of RLlib, then score it next to random legal actions and heuristics.

pip install "ray[rllib]"
python -m docs.examples.train.rllib_ppo 100000 --seed 0
python evaluate.py --workload quick --policy docs.examples.train.rllib_ppo:policy
"""

import sys
from functools import cache
from typing import Any

import gymnasium
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.tune import register_env

from docs.examples.train.slots import SlotScores, command, sample, scaled, slot_critic, trained
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {}
torch.set_num_threads(1)  # the network is small: more threads only add overhead
NAME, FILE = "rllib_ppo", "runs/rllib_ppo.pt"
ENVIRONMENTS, ROLLOUT = 16, 128  # environments, and steps of each in a rollout


class Slots(TorchRLModule, ValueFunctionAPI):
    """Actor whose logits are the scores of actions, and a critic with scores of its own and a layer on top."""

    def setup(self) -> None:
        """Make the networks."""
        self.scores = SlotScores(self.observation_space, WINDOWS)
        self.value = slot_critic(self.observation_space, WINDOWS)

    def _forward(self, batch: dict[str, Any], **others: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.scores(batch[Columns.OBS])}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        """Return the values of a batch of observations, (B,)."""
        value: torch.Tensor = self.value(batch[Columns.OBS]).squeeze(-1)
        return value


def train(steps: int, seed: int = 0) -> None:
    """Train on training windows and save; illegal actions are replaced."""
    register_env("scaled", lambda config: scaled(gymnasium.make("gpu_cluster_gym:GPUCluster-v2", **config)))
    size = {
        "train_batch_size_per_learner": ENVIRONMENTS * ROLLOUT,
        "minibatch_size": 4 * ROLLOUT,
        "num_epochs": 5,
    }
    config = (
        PPOConfig()
        .environment("scaled", env_config=WINDOWS)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=ENVIRONMENTS)
        .training(**size, lr=1e-3, gamma=0.99, lambda_=0.95, clip_param=0.2, use_kl_loss=False, grad_clip=0.5)
        .training(vf_clip_param=float("inf"), entropy_coeff=0.0)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=Slots))
        .debugging(seed=seed)
    )
    algorithm, taken = config.build_algo(), 0
    while taken < steps:
        result = algorithm.train()["env_runners"]
        taken = int(result["num_env_steps_sampled_lifetime"])
        sys.stdout.write(f"{taken} steps: mean return {result.get('episode_return_mean', 0):.2f}\n")
    torch.save(algorithm.get_module().scores.state_dict(), FILE)
    algorithm.stop()


@cache
def network() -> SlotScores:
    """Load the trained network, once."""
    return trained(FILE, WINDOWS)


policy = AgentPolicy(lambda seen, mask: sample(network(), seen, mask), **CHOICES)

if __name__ == "__main__":
    command(NAME, train, WINDOWS["workload"])
