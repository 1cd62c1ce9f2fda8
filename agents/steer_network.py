"""A small network that moves the weights of the rule by what is seen of the load."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from gpu_cluster_gym.simulator.kernel.union.load import LOAD


class SteerNetwork(nn.Module):
    """Offsets of weights, which are all 0 before anything is learned: the agent begins as the rule itself.

    It reads the load by name, so that what it has learned holds where more is seen than there was.
    """

    def __init__(self, weights: int, hidden: int, reads: Sequence[str] = LOAD) -> None:
        """Make the layers for some names of `LOAD`; ValueError for another."""
        super().__init__()
        if unknown := [name for name in reads if name not in LOAD]:
            raise ValueError(
                f"nothing of the load is called {', '.join(unknown)}: there is {', '.join(LOAD)}"
            )
        self.reads = [LOAD.index(name) for name in reads]
        self.hidden = nn.Sequential(nn.Linear(len(reads), hidden), nn.Tanh())
        self.offsets = nn.Linear(hidden, weights)
        nn.init.zeros_(self.offsets.weight)
        nn.init.zeros_(self.offsets.bias)

    def forward(self, load: Tensor) -> Tensor:
        """Return the offsets (B, weights) for what it reads of loads, (B, reads); they count from -1 to 1."""
        offsets: Tensor = self.offsets(self.hidden(load))
        return offsets

    @torch.no_grad()
    def take_in(self, mean: Tensor, deviation: Tensor) -> None:
        """Answer to a load as it did to (load - mean) / deviation, each (reads,)."""
        first = self.hidden[0]
        assert isinstance(first, nn.Linear)
        first.weight.div_(deviation)
        first.bias.sub_(first.weight @ mean)

    @torch.no_grad()
    def choose(self, load: np.ndarray) -> np.ndarray:
        """Return the offsets (weights,) for a load (len(LOAD),)."""
        chosen: np.ndarray = self(torch.from_numpy(load[self.reads])[None])[0].numpy()
        return chosen
