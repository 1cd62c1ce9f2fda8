"""Train masked PPO of TorchRL, then score it next to random legal actions and heuristics.

pip install torchrl
python -m docs.examples.train.torchrl_ppo 100000 --seed 0
python evaluate.py --workload quick --policy docs.examples.train.torchrl_ppo:policy
"""

import sys
from functools import cache
from typing import Any

import gymnasium
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper, RewardSum, TransformedEnv
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from docs.examples.train.slots import SlotScores, command, sample, scaled, slot_critic, trained
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {"mask": "observation"}  # observations are dicts with an action mask
torch.set_num_threads(1)  # the network is small: more threads only add overhead
NAME, FILE = "torchrl_ppo", "runs/torchrl_ppo.pt"
ROLLOUT, EPOCHS, BATCH = 2048, 5, 512  # steps of a rollout, passes over it, steps of a minibatch


def masked(logits: torch.Tensor, mask: torch.Tensor) -> MaskedCategorical:
    """Return the distribution over legal actions."""
    return MaskedCategorical(logits=logits, mask=mask.bool())


def train(steps: int, seed: int = 0) -> None:
    """Train on training windows and save."""
    torch.manual_seed(seed)
    env = scaled(gymnasium.make("gpu_cluster_gym:GPUCluster-v2", **WINDOWS, **CHOICES))
    space = env.observation_space["observations"]  # type: ignore[index]
    envs = TransformedEnv(GymWrapper(env, categorical_action_encoding=True), RewardSum())
    envs.set_seed(seed)
    scores, keys = SlotScores(space, WINDOWS), {"logits": "logits", "mask": "action_mask"}
    module = TensorDictModule(scores, ["observations"], ["logits"])
    actor = ProbabilisticActor(module, keys, distribution_class=masked, return_log_prob=True)
    critic = ValueOperator(slot_critic(space, WINDOWS), ["observations"])
    advantages = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.0)
    optimizer, rollout = torch.optim.Adam(loss.parameters(), lr=1e-3), min(ROLLOUT, steps)
    size = {"frames_per_batch": rollout, "total_frames": steps, "auto_register_policy_transforms": True}
    for rows in Collector(envs, actor, **size):
        for _ in range(EPOCHS):
            advantages(rows)
            for some in torch.randperm(rollout).split(BATCH):
                parts = loss(rows[some])
                optimizer.zero_grad()
                (parts["loss_objective"] + parts["loss_critic"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        ended = rows["next", "episode_reward"][rows["next", "done"]]
        sys.stdout.write(f"mean return {ended.mean():.2f} of the {len(ended)} windows that ended\n")
    torch.save(scores.state_dict(), FILE)


@cache
def network() -> SlotScores:
    """Load the trained network, once."""
    return trained(FILE, WINDOWS)


policy = AgentPolicy(lambda seen, mask: sample(network(), seen["observations"], mask), **CHOICES)

if __name__ == "__main__":
    command(NAME, train, WINDOWS["workload"])
