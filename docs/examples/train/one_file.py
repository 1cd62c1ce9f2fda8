"""Train masked PPO in a single file, in the style of CleanRL: network, vector environment, rollouts, updates.

python -m docs.examples.train.one_file 100000
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

from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {}
torch.set_num_threads(1)  # the network is small: more threads only add overhead
FILE = "runs/one_file.pt"
ENVIRONMENTS, ROLLOUT, EPOCHS, MINIBATCHES = 16, 128, 4, 4
GAMMA, LAMBDA, CLIP, RATE, ENTROPY = 0.999, 0.95, 0.2, 1e-3, 0.01


class Network(nn.Module):
    """Separate actor and critic networks."""

    def __init__(self, seen: int, actions: int) -> None:
        super().__init__()
        self.sizes = seen, actions
        self.actor = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, actions))
        self.critic = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 1))

    def choice(self, seen: Tensor, mask: Tensor) -> Categorical:
        """Return the action distribution, with probability 0 for illegal actions."""
        return Categorical(logits=self.actor(seen).masked_fill(~mask, -1e9))


def train(steps: int) -> None:
    """Train on training windows and save."""
    torch.manual_seed(0)
    batch: Any = gymnasium.make_vec(
        "gpu_cluster_gym:GPUCluster-v2", ENVIRONMENTS, autoreset="SameStep", **WINDOWS, **CHOICES
    )
    network = Network(batch.single_observation_space.shape[0], int(batch.single_action_space.n))
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    seen, _ = batch.reset(seed=0)
    for _ in range(max(1, steps // (ENVIRONMENTS * ROLLOUT))):
        memory, seen = rollout(batch, network, seen)
        update(network, optimiser, memory)
    torch.save({"sizes": network.sizes, "weights": network.state_dict()}, FILE)


@torch.no_grad()
def rollout(batch: Any, network: Network, seen: np.ndarray) -> tuple[list[Tensor], np.ndarray]:
    """Take ROLLOUT steps; return observations, masks, actions, log-probabilities, returns and advantages."""
    steps: list[tuple[Tensor, ...]] = []
    for _ in range(ROLLOUT):
        now, mask = torch.from_numpy(seen), torch.from_numpy(batch.action_masks())
        choice = network.choice(now, mask)
        action = choice.sample()
        seen, reward, ended, cut, _ = batch.step(action.numpy())
        value, going = network.critic(now).squeeze(1), torch.from_numpy(~(ended | cut)).float()
        steps.append(
            (now, mask, action, choice.log_prob(action), value, torch.from_numpy(reward).float(), going)
        )
    *kept, values, rewards, going = (torch.stack(column) for column in zip(*steps, strict=True))
    after, advantage = network.critic(torch.from_numpy(seen)).squeeze(1), torch.zeros(ENVIRONMENTS)
    advantages = torch.zeros_like(values)
    for t in reversed(range(ROLLOUT)):
        delta = rewards[t] + GAMMA * going[t] * after - values[t]
        advantage = delta + GAMMA * LAMBDA * going[t] * advantage
        advantages[t], after = advantage, values[t]
    return [part.flatten(0, 1) for part in (*kept, advantages + values, advantages)], seen


def update(network: Network, optimiser: torch.optim.Optimizer, memory: list[Tensor]) -> None:
    """Take gradient steps on the clipped objective."""
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(memory[0])).chunk(MINIBATCHES):
            seen, mask, action, before, returns, advantage = (part[rows] for part in memory)
            choice = network.choice(seen, mask)
            ratio = (choice.log_prob(action) - before).exp()
            scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            gain = torch.min(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled).mean()
            error = (network.critic(seen).squeeze(1) - returns).square().mean()
            loss = 0.5 * error - gain - ENTROPY * choice.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


@cache
def trained() -> Network:
    """Load the trained network, once; `weights_only` prevents the file from running code."""
    kept = torch.load(FILE, weights_only=True)
    network = Network(*kept["sizes"])
    network.load_state_dict(kept["weights"])
    return network


@torch.no_grad()
def predict(observation: np.ndarray, mask: np.ndarray) -> int:
    """Return the most likely legal action."""
    return int(trained().choice(torch.from_numpy(observation), torch.from_numpy(mask)).probs.argmax())


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    train(int(sys.argv[1]))
