"""One small network that scores every move of a list alike, beside the load, and adds that to the rule's own choice."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from gpu_cluster_gym.agents.scoring import FORBIDDEN, ScoringNetwork
from gpu_cluster_gym.simulator.kernel.moves.move_list import FEATURES, KINDS, MAX_MOVES
from gpu_cluster_gym.simulator.kernel.union.load import LOAD

OWN, KIND = FEATURES.index("own_choice"), FEATURES.index(KINDS[0])
PARTS = ("load", "mask", "moves")
"""The parts of an observation as a vector holds them, one behind the other: in the order of Gymnasium's `Dict`."""


class Listed(NamedTuple):
    """A batch of observations of `envs.moves`."""

    moves: Tensor
    """(B, K, len(FEATURES))"""
    load: Tensor
    """(B, len(LOAD))"""
    legal: Tensor
    """bool (B, K)"""

    @property
    def own(self) -> Tensor:
        """Whether it is the rule's own choice, bool (B, K)."""
        return self.moves[:, :, OWN] > 0

    @property
    def kinds(self) -> Tensor:
        """1 for the kind of each move, (B, K, len(KINDS))."""
        return self.moves[:, :, KIND : KIND + len(KINDS)]

    @classmethod
    def of(cls, flat: Tensor) -> "Listed":
        """Take apart a (B, n) batch of vectors."""
        load, mask, moves = flat.split((len(LOAD), MAX_MOVES, MAX_MOVES * len(FEATURES)), dim=1)
        return cls(moves.unflatten(1, (MAX_MOVES, -1)), load, mask > 0)


def flat(seen: Mapping[str, np.ndarray]) -> Tensor:
    """Return observations of N environments, or of one, as vectors (N, n)."""
    count = len(np.atleast_2d(seen["mask"]))
    return torch.from_numpy(
        np.concatenate([np.asarray(seen[name], np.float32).reshape(count, -1) for name in PARTS], axis=1)
    )


class MoveEncoder(nn.Module):
    """Two layers shared by all moves; a move is read beside the load."""

    def __init__(self, hidden: int, reads: int) -> None:
        """Make the layers, for so many numbers of the load."""
        super().__init__()
        self.move = nn.Linear(len(FEATURES), hidden)
        self.load = nn.Linear(reads, hidden, bias=False)
        self.deeper = nn.Linear(hidden, hidden)

    def forward(self, seen: Listed) -> Tensor:
        """Return each move, (B, K, H)."""
        first = relu(self.move(seen.moves) + self.load(seen.load).unsqueeze(1))
        encoded: Tensor = relu(self.deeper(first))
        return encoded


class MoveNetwork(ScoringNetwork):
    """Actor and critic, apart from each other.

    A move's logit is what the network scores it by, plus `base_scale` for the rule's own choice; scores are 0 before
    anything is learned: the agent begins as the rule. Moves in another order have the same logits. Of moves that are
    not the rule's own choice only those of some kinds, `instead`, are within reach.
    """

    _instead: Tensor

    def __init__(
        self, hidden: int, *, base_scale: float, instead: Sequence[str] = KINDS, reads: Sequence[str] = LOAD
    ) -> None:
        """Make the layers for some names of `LOAD`; ValueError for another."""
        super().__init__()
        if unknown := [name for name in reads if name not in LOAD]:
            raise ValueError(
                f"nothing of the load is called {', '.join(unknown)}: there is {', '.join(LOAD)}"
            )
        self.reads, self.base_scale = [LOAD.index(name) for name in reads], base_scale
        self.register_buffer("_instead", torch.tensor([kind in instead for kind in KINDS]), persistent=False)
        self.actor = MoveEncoder(hidden, len(self.reads))
        self.score = nn.Linear(hidden, 1)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)
        self.critic = MoveEncoder(hidden, len(self.reads))
        self.value = nn.Sequential(nn.Linear(2 * hidden + len(self.reads), 64), nn.ReLU(), nn.Linear(64, 1))

    def scores(self, seen: Listed) -> Tensor:
        """Return what is added to the rule's own choice, (B, K)."""
        found: Tensor = self.score(self.actor(self._read(seen))).squeeze(2)
        return found

    def reach(self, seen: Listed) -> Tensor:
        """Tell which moves may be made: the rule's own choice, and those of some kinds; bool (B, K)."""
        found: Tensor = seen.legal & (seen.own | (seen.kinds[:, :, self._instead] > 0).any(2))
        return found

    def others(self, seen: Listed) -> Tensor:
        """Tell which moves may be made in the place of the rule's own, bool (B, K)."""
        return self.reach(seen) & ~seen.own

    def forward_actor(self, flat: Tensor) -> Tensor:
        """Return the logits (B, K) of a (B, n) batch; those of empty places and of other kinds are out of reach."""
        seen = Listed.of(flat)
        logits = self.base_scale * seen.own + self.scores(seen)
        return logits.masked_fill(~self.reach(seen), FORBIDDEN)

    def forward_critic(self, flat: Tensor) -> Tensor:
        """Return the values (B, 1)."""
        seen = self._read(Listed.of(flat))
        there = seen.legal.unsqueeze(2)
        each = self.critic(seen) * there  # never negative, so 0 in an empty place leaves the maximum as it is
        mean = each.sum(1) / there.sum(1).clamp(min=1)
        value: Tensor = self.value(torch.cat([mean, each.amax(1), seen.load], dim=1))
        return value

    def _read(self, seen: Listed) -> Listed:
        return seen._replace(load=seen.load[:, self.reads])
