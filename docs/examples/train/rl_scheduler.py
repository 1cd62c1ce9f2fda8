"""Train a kernel network that picks the next job: one small network scores each queued job by that job alone.

This is the idea of RLScheduler (Zhang et al., SC 2020) in this environment: nothing is paused, and jobs start where
they fit. Inferred, since the text was not available: the features and the reward are those of the environment, and no
trajectories are filtered.

python -m docs.examples.train.rl_scheduler 100000 --seed 0
python evaluate.py --workload quick --policy docs.examples.train.rl_scheduler:policy sjf
"""

from functools import cache
from math import prod
from typing import Any

import torch
from sb3_contrib import MaskablePPO
from torch import Tensor

from docs.examples.train.maskable_ppo import PPO_CHOICES, Masked
from docs.examples.train.slots import JctCurve, SlotScores, command, keywords, training_envs
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {
    "running_slots": 0,
    "when_full": "wait",
}  # nothing is paused, and only starts that fit are legal
torch.set_num_threads(1)  # the network is small: more threads only add overhead
NAME, FILE = "rl_scheduler", "runs/rl_scheduler.zip"
ENVIRONMENTS, ROLLOUT = 16, 128


NEVER = 100.0  # by which the score of waiting is lower


class Kernel(SlotScores):
    """Scores of queued jobs, each by its own features; waiting is chosen only where no job fits."""

    def forward(self, seen: Tensor) -> Tensor:
        """Return the scores (B, K + 1): starts, waiting."""
        before, totals, after = seen.split(self.sizes, dim=1)
        scores = super().forward(torch.cat([before, torch.zeros_like(totals), after], dim=1))
        return scores - NEVER * torch.eye(scores.shape[1])[-1]

    @property
    def sizes(self) -> list[int]:
        """Sizes of the parts of an observation before the totals, of the totals, and behind them."""
        queue, totals, *others = (prod(shape) for shape in self.shapes.values())
        return [queue, totals, sum(others)]


def train(steps: int, seed: int = 0) -> None:
    """Train on a batch of training windows and save; MaskablePPO finds the masks itself."""
    env = training_envs(ENVIRONMENTS, WINDOWS | CHOICES)
    rollout = max(2, min(ROLLOUT, steps // ENVIRONMENTS))
    given = keywords(WINDOWS | CHOICES) | {"features_extractor_class": Kernel}
    shown: dict[str, Any] = {"verbose": 1, "tensorboard_log": "runs/tensorboard", "seed": seed}
    size: dict[str, Any] = {"n_steps": rollout, "batch_size": 4 * rollout, **PPO_CHOICES}
    model = MaskablePPO(Masked, env, policy_kwargs=given, **size, **shown)
    model.learn(steps, callback=JctCurve(), tb_log_name=NAME)
    model.save(FILE)


@cache
def model() -> MaskablePPO:
    """Load the trained model, once."""
    return MaskablePPO.load(FILE, device="cpu")


def predict(observation: Any, mask: Any) -> Any:
    """Return the start with the highest score."""
    return model().predict(observation, action_masks=mask, deterministic=True)[0]


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    command(NAME, train, WINDOWS["workload"])
