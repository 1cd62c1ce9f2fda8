"""Networks of agents that act on the rule `union`, and the policy class for networks that score actions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn
from torch.nn.functional import relu

from gpu_cluster_gym.simulator.kernel.moves.move_list import FEATURES, KINDS, MAX_MOVES
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.traces import unknown

FORBIDDEN = -1e8  # logit of an illegal action
OWN, KIND = FEATURES.index("own_choice"), FEATURES.index(KINDS[0])
PARTS = ("load", "mask", "moves")
"""Parts of an observation of moves, in the order in which a vector holds them: that of Gymnasium's `Dict`."""


def places_of(load: Sequence[str]) -> list[int]:
    """Return the indices of load features by name; ValueError for an unknown one."""
    if wrong := [name for name in load if name not in LOAD]:
        raise ValueError(unknown("load feature", wrong[0], LOAD))
    return [LOAD.index(name) for name in load]


class SteerNetwork(nn.Module):
    """A network from the load to offsets of the rule's weights; all 0 before training, which is the rule itself.

    It reads load features by name, so that a trained agent remains valid where features are added.
    """

    def __init__(self, weights: int, hidden: int, reads: Sequence[str] = LOAD) -> None:
        """Make the layers.

        weights: number of weights.
        hidden: width of the hidden layer.
        reads: names of the load features; ValueError for an unknown one.
        """
        super().__init__()
        self.reads = places_of(reads)
        self.hidden = nn.Sequential(nn.Linear(len(reads), hidden), nn.Tanh())
        self.offsets = nn.Linear(hidden, weights)
        nn.init.zeros_(self.offsets.weight)
        nn.init.zeros_(self.offsets.bias)

    def forward(self, load: Tensor) -> Tensor:
        """Return the offsets (B, weights), which are clipped to -1 to 1 in use, for loads (B, reads)."""
        offsets: Tensor = self.offsets(self.hidden(load))
        return offsets

    @torch.no_grad()
    def absorb_normalization(self, mean: Tensor, deviation: Tensor) -> None:
        """Change the first layer so that raw loads give the output of (load - mean) / deviation, each (reads,)."""
        first = self.hidden[0]
        assert isinstance(first, nn.Linear)
        first.weight.div_(deviation)
        first.bias.sub_(first.weight @ mean)

    @torch.no_grad()
    def choose(self, load: np.ndarray) -> np.ndarray:
        """Return the offsets (weights,) for a load (len(LOAD),)."""
        chosen: np.ndarray = self(torch.from_numpy(load[self.reads])[None])[0].numpy()
        return chosen


# Networks that score actions.


class ScoringNetwork(nn.Module, ABC):
    """Actor and critic on vectors (B, n) that include the action mask, so that no caller can forget it."""

    @abstractmethod
    def forward_actor(self, flat: Tensor) -> Tensor:
        """Return the logits (B, actions); those of illegal actions are `FORBIDDEN`."""

    @abstractmethod
    def forward_critic(self, flat: Tensor) -> Tensor:
        """Return the values (B, 1)."""

    def forward(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values."""
        return self.forward_actor(flat), self.forward_critic(flat)

    @torch.no_grad()
    def choose(self, flat: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return an action for each observation: the most likely one, or a sample where a generator is given."""
        logits = self.forward_actor(flat)
        if generator is None:
            return logits.argmax(1)
        return torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)


class ScoringPolicy(ActorCriticPolicy):
    """A policy of Stable-Baselines3 that uses the logits and values of a scoring network unchanged."""

    def __init__(self, *args: Any, made: Callable[[], ScoringNetwork], **kwargs: Any) -> None:
        """Take the arguments of the base class, and the constructor of the network."""
        self._made = made
        super().__init__(*args, **kwargs)

    @property
    def network(self) -> ScoringNetwork:
        """The network."""
        network = self.mlp_extractor
        assert isinstance(network, ScoringNetwork)
        return network

    def _build(self, lr_schedule: Schedule) -> None:
        self.mlp_extractor = self._made()  # type: ignore[assignment]
        self.action_net = nn.Identity()
        self.value_net = nn.Identity()  # type: ignore[assignment]
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]


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
        """Whether a move is the rule's own, bool (B, K)."""
        return self.moves[:, :, OWN] > 0

    @property
    def kinds(self) -> Tensor:
        """One-hot kind of each move, (B, K, len(KINDS))."""
        return self.moves[:, :, KIND : KIND + len(KINDS)]

    @classmethod
    def of(cls, flat: Tensor) -> "Listed":
        """Split a (B, n) batch of vectors."""
        load, mask, moves = flat.split((len(LOAD), MAX_MOVES, MAX_MOVES * len(FEATURES)), dim=1)
        return cls(moves.unflatten(1, (MAX_MOVES, -1)), load, mask > 0)


def flat(seen: Mapping[str, np.ndarray]) -> Tensor:
    """Return observations of N environments, or of one, as vectors (N, n)."""
    count = len(np.atleast_2d(seen["mask"]))
    return torch.from_numpy(
        np.concatenate([np.asarray(seen[name], np.float32).reshape(count, -1) for name in PARTS], axis=1)
    )


class MoveEncoder(nn.Module):
    """Two layers that encode each move together with the load; all moves share them."""

    def __init__(self, hidden: int, reads: int) -> None:
        """Make the layers. hidden: their width. reads: number of load features."""
        super().__init__()
        self.move = nn.Linear(len(FEATURES), hidden)
        self.load = nn.Linear(reads, hidden, bias=False)
        self.deeper = nn.Linear(hidden, hidden)

    def forward(self, seen: Listed) -> Tensor:
        """Return the encoded moves, (B, K, hidden)."""
        first = relu(self.move(seen.moves) + self.load(seen.load).unsqueeze(1))
        encoded: Tensor = relu(self.deeper(first))
        return encoded


class MoveNetwork(ScoringNetwork):
    """A network that scores each move of a list; actor and critic share nothing.

    The logit of a move is its score, plus `base_logit_scale` for the rule's own move. Scores are 0 before training, so
    that the agent starts as the rule. The order of the moves does not matter. Only the rule's own move and
    moves of the kinds `allowed_moves` can be chosen.
    """

    _allowed: Tensor

    def __init__(
        self,
        hidden: int,
        *,
        base_logit_scale: float,
        allowed_moves: Sequence[str] = KINDS,
        reads: Sequence[str] = LOAD,
    ) -> None:
        """Make the layers.

        hidden: their width.
        base_logit_scale: logit of the rule's own move before training.
        allowed_moves: kinds of moves that may replace the rule's own.
        reads: names of the load features; ValueError for an unknown one.
        """
        super().__init__()
        self.reads, self.base_logit_scale = places_of(reads), base_logit_scale
        allowed = torch.tensor([kind in allowed_moves for kind in KINDS])
        self.register_buffer("_allowed", allowed, persistent=False)
        self.actor = MoveEncoder(hidden, len(self.reads))
        self.score = nn.Linear(hidden, 1)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)
        self.critic = MoveEncoder(hidden, len(self.reads))
        self.value = nn.Sequential(nn.Linear(2 * hidden + len(self.reads), 64), nn.ReLU(), nn.Linear(64, 1))

    def scores(self, seen: Listed) -> Tensor:
        """Return the score of each move, (B, K)."""
        found: Tensor = self.score(self.actor(self._read(seen))).squeeze(2)
        return found

    def reach(self, seen: Listed) -> Tensor:
        """Return whether each move may be chosen: the rule's own, or of an allowed kind; bool (B, K)."""
        found: Tensor = seen.legal & (seen.own | (seen.kinds[:, :, self._allowed] > 0).any(2))
        return found

    def others(self, seen: Listed) -> Tensor:
        """Return whether each move may replace the rule's own, bool (B, K)."""
        return self.reach(seen) & ~seen.own

    def forward_actor(self, flat: Tensor) -> Tensor:
        """Return the logits (B, K) of a (B, n) batch; those of empty places and other kinds are `FORBIDDEN`."""
        seen = Listed.of(flat)
        logits = self.base_logit_scale * seen.own + self.scores(seen)
        return logits.masked_fill(~self.reach(seen), FORBIDDEN)

    def forward_critic(self, flat: Tensor) -> Tensor:
        """Return the values (B, 1): from mean and maximum of the encoded moves, and the load."""
        seen = self._read(Listed.of(flat))
        there = seen.legal.unsqueeze(2)
        each = (
            self.critic(seen) * there
        )  # never negative, so 0 in an empty place leaves the maximum unchanged
        mean = each.sum(1) / there.sum(1).clamp(min=1)
        value: Tensor = self.value(torch.cat([mean, each.amax(1), seen.load], dim=1))
        return value

    def _read(self, seen: Listed) -> Listed:
        return seen._replace(load=seen.load[:, self.reads])
