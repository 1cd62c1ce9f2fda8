"""A features extractor of Stable-Baselines3 that scores every action with the same weights, whatever its slot.

A job moves from slot to slot as others leave, so a network with weights of its own for each slot must learn everything
64 times. `maskable_ppo`, `sb3_ppo` and `sb3_dqn` in this folder show how to use it.
"""

from math import prod
from typing import Any

import gymnasium
import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

UNLIKELY = 10.0  # by which the score of an illegal action is lower


class SlotScores(BaseFeaturesExtractor):
    """Scores of all actions, (B, K + R + 1), from observations `sets` (B, n): each job is judged beside the totals."""

    def __init__(self, space: gymnasium.Space, choices: dict[str, Any], hidden: int = 32) -> None:
        """Read the layout of observations. choices: keywords of the environment."""
        env: Any = gymnasium.make("gpu_cluster_gym:GPUCluster-v2", **choices).unwrapped
        self.shapes, self.may_pause = env.shapes, env.columns["running"].index("may_pause")
        super().__init__(space, self.shapes["queue"][0] + self.shapes["running"][0] + 1)
        totals = self.shapes["totals"][0]

        def scorer(inputs: int) -> nn.Module:
            layers = nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
            return nn.Sequential(*layers, nn.Linear(hidden, 1))

        self.start = scorer(self.shapes["queue"][1] + totals)
        self.pause = scorer(self.shapes["running"][1] + totals)
        self.wait = scorer(totals)

    def forward(self, seen: Tensor) -> Tensor:
        """Return the scores: starts, pauses, waiting."""
        parts = seen.split([prod(shape) for shape in self.shapes.values()], dim=1)
        queue, totals, legal, running = (
            part.unflatten(1, shape) for part, shape in zip(parts, self.shapes.values(), strict=True)
        )
        starts, pauses = (
            scorer(torch.cat([rows, totals.unsqueeze(1).expand(-1, rows.shape[1], -1)], dim=2)).squeeze(2)
            for scorer, rows in ((self.start, queue), (self.pause, running))
        )
        may = torch.cat([legal[:, :-1], running[:, :, self.may_pause], legal[:, -1:]], dim=1)
        return torch.cat([starts, pauses, self.wait(totals)], dim=1) - UNLIKELY * (1.0 - may)
