"""Learn from recorded episodes alone: conservative Q-learning (Kumar et al., NeurIPS 2020), or behaviour cloning.

pip install "minari[hdf5]"
gpu-cluster-gym record sjf srtf random      # data sets of `quick`, in runs/minari
python -m docs.examples.train.offline 3000 --data srtf random --seed 0
python -m docs.examples.train.offline 3000 --data srtf random --td 0      # clones the recorded actions
"""

import argparse
import copy
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import minari
import numpy as np
import torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from docs.examples.train.slots import sample, score
from gpu_cluster_gym.agents.record import FOLDER
from gpu_cluster_gym.agents.set_network import SetNetwork
from gpu_cluster_gym.agents.training import PlainTraining
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WORKLOAD = "quick"
NAME, FILE = "offline", "runs/offline.pt"
SLOTS, CHOICES = PlainTraining().queue_slots, PlainTraining().acting()
BATCH, RATE, GAMMA, SLOW = 256, 1e-3, 0.99, 0.005
"""Transitions of an update, learning rate of Adam, discount factor, and rate at which the target network follows."""
TEMPERATURE = 0.1  # of the softmax by which the policy acts: the highest value alone can wait without end
torch.set_num_threads(1)  # the network is small: more threads only add overhead


def transitions(names: Sequence[str]) -> tuple[Tensor, ...]:
    """Return observations, actions, rewards over their deviation, next observations, and whether episodes go on."""
    os.environ.setdefault("MINARI_DATASETS_PATH", os.path.abspath(FOLDER))
    each = [one for name in names for one in minari.load_dataset(name)]
    rewards = np.concatenate([one.rewards for one in each]).astype(np.float32)
    columns = (
        np.concatenate([one.observations[:-1] for one in each]),
        np.concatenate([one.actions for one in each]),
        rewards / rewards.std(),
        np.concatenate([one.observations[1:] for one in each]),
        np.concatenate([~one.terminations for one in each]).astype(np.float32),
    )
    return tuple(map(torch.from_numpy, columns))


def values(network: SetNetwork, seen: Tensor) -> Tensor:
    """Return the values of actions, (B, actions): that of the state and an advantage; illegal actions have none."""
    return network.forward_critic(seen) + network.forward_actor(seen)


def train(steps: int, names: Sequence[str], seed: int = 0, td: float = 1.0) -> None:
    """Learn from data sets and save. td: weight of the error of Q-learning; 0 clones the actions."""
    data = transitions(names)
    torch.manual_seed(seed)
    network = SetNetwork(SLOTS)
    target = copy.deepcopy(network).requires_grad_(False)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    log = SummaryWriter(f"runs/tensorboard/{NAME}")
    for step in range(steps):
        rows = torch.randint(len(data[0]), (BATCH,))
        seen, action, reward, after, going = (column[rows] for column in data)
        q = values(network, seen)
        taken = q.gather(1, action[:, None]).squeeze(1)
        conservative, error = (q.logsumexp(1) - taken).mean(), torch.zeros(())
        if td:
            with torch.no_grad():
                best = values(network, after).argmax(1, keepdim=True)
                follows = values(target, after).gather(1, best).squeeze(1)
            error = torch.nn.functional.smooth_l1_loss(taken, reward + GAMMA * going * follows)
        optimizer.zero_grad()
        (conservative + td * error).backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
                slow.lerp_(fast, SLOW)
        if step % 100 == 0:
            log.add_scalar("train/conservative", conservative.item(), step)
            log.add_scalar("train/td_error", error.item(), step)
            shown = f"step {step}: conservative {conservative:.3f}, error of Q-learning {error:.3f}"
            sys.stdout.write(f"{shown}\n")
    torch.save(network.state_dict(), FILE)


@cache
def learned() -> SetNetwork:
    """Load the network, once."""
    network = SetNetwork(SLOTS)
    network.load_state_dict(torch.load(FILE, weights_only=True))
    return network


def predict(observation: Any, mask: Any) -> int:
    """Return an action, sampled by the softmax of the advantages."""
    return sample(lambda seen: learned().forward_actor(seen[None])[0], observation, mask, TEMPERATURE)


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int)
    parser.add_argument("--data", nargs="+", default=["srtf", "random"], help="recorded schedulers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--td", type=float, default=1.0, help="weight of the error of Q-learning; 0: cloning")
    parser.add_argument("--windows", default="24", help="test windows of the table at the end")
    chosen = parser.parse_args()
    named = [f"gpu-cluster/{WORKLOAD}/{each}-v0" for each in chosen.data]
    train(chosen.steps, named, chosen.seed, chosen.td)
    score(NAME, WORKLOAD, chosen.windows)
