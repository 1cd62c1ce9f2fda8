"""Record SJF as a Minari data set, learn its actions by behaviour cloning, and score the clone.

pip install "minari[hdf5]"
python -m docs.examples.train.record_minari 2000     # steps of cloning; the data set is kept in runs/minari
"""

import os
from functools import cache
from typing import Any

import gymnasium
import minari
import torch
from minari.data_collector import EpisodeBuffer

from docs.examples.train.inspector import CHOICES, Choice
from docs.examples.train.slots import SlotScores, command
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick"}
NAME, DATA, FILE = "record_minari", "gpu-cluster/quick/sjf-v0", "runs/record_minari.pt"
EPISODES, BATCH = 16, 64
os.environ.setdefault("MINARI_DATASETS_PATH", os.path.abspath("runs/minari"))


def record() -> minari.MinariDataset:
    """Play SJF on the first training windows, and return the data set of these episodes."""
    env, sjf, played = gymnasium.make("gpu_cluster_gym:GPUCluster-v2", **WINDOWS, **CHOICES), Choice(), []
    for k in range(EPISODES):
        (seen, info), one = env.reset(options={"window": k}), EpisodeBuffer(k, observations=[], actions=[])
        one.observations.append(seen)
        while not any(one.terminations[-1:] + one.truncations[-1:]):
            one.actions.append(int(sjf(seen[None], info["action_mask"][None] > 0)[0][0]))
            seen, *rest, info = env.step(one.actions[-1])
            for kept, new in zip(
                (one.observations, one.rewards, one.terminations, one.truncations), (seen, *rest), strict=True
            ):
                kept.append(new)
        played.append(one)
    return minari.create_dataset_from_buffers(DATA, played, env, env, "SJF", description=record.__doc__)


def train(steps: int, seed: int = 0) -> None:
    """Clone the data set, which is recorded if it does not exist, and save the network."""
    data = minari.load_dataset(DATA) if DATA in minari.list_local_datasets() else record()
    seen = torch.cat([torch.as_tensor(each.observations[:-1]) for each in data])
    actions = torch.cat([torch.as_tensor(each.actions) for each in data])
    torch.manual_seed(seed)
    network = SlotScores(data.observation_space, CHOICES)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(steps):
        rows = torch.randint(len(actions), (BATCH,))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(seen[rows]), actions[rows]).backward()
        optimizer.step()
    torch.save(network.state_dict(), FILE)


@cache
def clone() -> SlotScores:
    """Load the network, once."""
    network = SlotScores(gymnasium.spaces.Box(-1, 1), CHOICES)
    network.load_state_dict(torch.load(FILE, weights_only=True))
    return network


@torch.no_grad()
def predict(observation: Any, mask: Any) -> int:
    """Return the action with the highest score."""
    return int(clone()(torch.as_tensor(observation)[None]).argmax())


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    command(NAME, train, WINDOWS["workload"])
