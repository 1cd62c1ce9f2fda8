"""A small network that moves the weights of the rule by what is seen of the load."""

import numpy as np
import torch
from torch import Tensor, nn

from simulator.kernel.steering import LOAD


class SteerNetwork(nn.Module):
    """Offsets of weights, which are all 0 before anything is learned: the agent begins as the rule itself."""

    def __init__(self, weights: int, hidden: int) -> None:
        """Make the layers."""
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(len(LOAD), hidden), nn.Tanh())
        self.offsets = nn.Linear(hidden, weights)
        nn.init.zeros_(self.offsets.weight)
        nn.init.zeros_(self.offsets.bias)

    def forward(self, load: Tensor) -> Tensor:
        """Return the offsets (B, weights) for loads (B, len(LOAD)); beyond -1 and 1 they count as these."""
        offsets: Tensor = self.offsets(self.hidden(load))
        return offsets

    @torch.no_grad()
    def choose(self, load: np.ndarray) -> np.ndarray:
        """Return the offsets (weights,) for a load (len(LOAD),)."""
        chosen: np.ndarray = self(torch.from_numpy(load)[None])[0].numpy()
        return chosen
