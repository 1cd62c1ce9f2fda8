"""Train masked PPO without a library, in the style of CleanRL: vector environment, rollouts and updates in one file.

python -m docs.examples.train.one_file 100000 --seed 0
python evaluate.py --workload quick --policy docs.examples.train.one_file:policy
"""

import sys
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from docs.examples.train.slots import SlotScores, command, sample, slot_critic, trained
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {}
torch.set_num_threads(1)  # the network is small: more threads only add overhead
NAME, FILE = "one_file", "runs/one_file.pt"
ENVIRONMENTS, ROLLOUT, EPOCHS, MINIBATCHES = 16, 128, 5, 4
GAMMA, LAMBDA, CLIP, RATE, LONGEST = 0.99, 0.95, 0.2, 1e-3, 0.5
SCALE = 0.05  # of rewards, so that they are of the order of 1


class Network(nn.Module):
    """Separate actor and critic networks."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        super().__init__()
        self.actor, self.critic = SlotScores(space, WINDOWS | CHOICES), slot_critic(space, WINDOWS | CHOICES)

    def choice(self, seen: Tensor, mask: Tensor) -> Categorical:
        """Return the action distribution, with probability 0 for illegal actions."""
        return Categorical(logits=self.actor(seen).masked_fill(~mask, -1e9))


def train(steps: int, seed: int = 0) -> None:
    """Train on training windows and save."""
    torch.manual_seed(seed)
    batch: Any = gymnasium.make_vec(
        "gpu_cluster_gym:GPUCluster-v2", ENVIRONMENTS, autoreset="SameStep", **WINDOWS, **CHOICES
    )
    network = Network(batch.single_observation_space)
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    seen, _ = batch.reset(seed=seed)
    for taken in range(0, max(1, steps), ENVIRONMENTS * ROLLOUT):
        memory, seen, paid = rollout(batch, network, seen)
        update(network, optimiser, memory)
        sys.stdout.write(f"{taken + ENVIRONMENTS * ROLLOUT} steps: mean reward {paid:.3f}\n")
    torch.save(network.actor.state_dict(), FILE)


@torch.no_grad()
def rollout(batch: Any, network: Network, seen: np.ndarray) -> tuple[list[Tensor], np.ndarray, float]:
    """Take ROLLOUT steps; return observations, masks, actions, log-probabilities, returns and advantages."""
    steps: list[tuple[Tensor, ...]] = []
    for _ in range(ROLLOUT):
        now, mask = torch.from_numpy(seen), torch.from_numpy(batch.action_masks())
        choice = network.choice(now, mask)
        action = choice.sample()
        seen, reward, ended, cut, _ = batch.step(action.numpy())
        value, going = network.critic(now).squeeze(1), torch.from_numpy(~(ended | cut)).float()
        paid = SCALE * torch.from_numpy(reward).float()
        steps.append((now, mask, action, choice.log_prob(action), value, paid, going))
    *kept, values, rewards, going = (torch.stack(column) for column in zip(*steps, strict=True))
    after, advantage = network.critic(torch.from_numpy(seen)).squeeze(1), torch.zeros(ENVIRONMENTS)
    advantages = torch.zeros_like(values)
    for t in reversed(range(ROLLOUT)):
        delta = rewards[t] + GAMMA * going[t] * after - values[t]
        advantage = delta + GAMMA * LAMBDA * going[t] * advantage
        advantages[t], after = advantage, values[t]
    memory = [part.flatten(0, 1) for part in (*kept, advantages + values, advantages)]
    return memory, seen, float(rewards.mean())


def update(network: Network, optimiser: torch.optim.Optimizer, memory: list[Tensor]) -> None:
    """Take gradient steps on the clipped objective."""
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(memory[0])).chunk(MINIBATCHES):
            seen, mask, action, before, returns, advantage = (part[rows] for part in memory)
            ratio = (network.choice(seen, mask).log_prob(action) - before).exp()
            scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            gain = torch.min(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled).mean()
            loss = 0.5 * (network.critic(seen).squeeze(1) - returns).square().mean() - gain
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), LONGEST)
            optimiser.step()


@cache
def network() -> SlotScores:
    """Load the trained network, once."""
    return trained(FILE, WINDOWS | CHOICES)


policy = AgentPolicy(lambda seen, mask: sample(network(), seen, mask), **CHOICES)

if __name__ == "__main__":
    command(NAME, train, WINDOWS["workload"])
