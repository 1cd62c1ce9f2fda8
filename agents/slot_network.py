"""One small network that scores every queue slot alike, and adds what it learns to the base policy's preference."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from gpu_cluster_gym.agents.networks import FORBIDDEN, ScoringNetwork
from gpu_cluster_gym.simulator.kernel.slots.features import QUEUE_FEATURES, TOTALS

PRESENT = QUEUE_FEATURES.index("present")


class Observation(NamedTuple):
    """A batch of the flat observations of `envs.observations.slots`, taken apart."""

    slots: Tensor
    """(B, K, len(QUEUE_FEATURES))"""
    totals: Tensor
    """(B, len(TOTALS))"""
    base_logits: Tensor
    """(B, K + 1), the last for waiting"""
    legal: Tensor
    """bool (B, K + 1)"""

    @classmethod
    def of(cls, flat: Tensor, slots: int) -> "Observation":
        """Split a (B, n) batch of observations with `slots` slots."""
        sizes = (slots * len(QUEUE_FEATURES), len(TOTALS), slots + 1, slots + 1)
        seen, totals, base_logits, mask = flat.split(sizes, dim=1)
        return cls(seen.unflatten(1, (slots, -1)), totals, base_logits, mask > 0)


class SlotEncoder(nn.Module):
    """Two layers shared by all slots; a slot is read beside the totals, and empty ones are left out of the pools."""

    def __init__(self, hidden: int) -> None:
        """Make the layers."""
        super().__init__()
        self.slot = nn.Linear(len(QUEUE_FEATURES), hidden)
        self.totals = nn.Linear(len(TOTALS), hidden, bias=False)
        self.deeper = nn.Linear(hidden, hidden)

    def forward(self, seen: Observation) -> tuple[Tensor, Tensor]:
        """Return each slot (B, K, H), and all of them in one vector (B, 2 H + len(TOTALS)): mean, maximum, totals."""
        first = relu(self.slot(seen.slots) + self.totals(seen.totals).unsqueeze(1))
        each = relu(self.deeper(first))
        present = seen.slots[:, :, PRESENT : PRESENT + 1]
        kept = each * present
        mean = kept.sum(1) / present.sum(1).clamp(min=1.0)
        # Encoded slots are never negative, so 0 in place of an empty one leaves the maximum as it is.
        return each, torch.cat([mean, kept.amax(1), seen.totals], dim=1)


class SlotNetwork(ScoringNetwork):
    """Actor and critic, apart from each other.

    Logits are `base_logit_scale` x the base policy's + a residual, which is 0 before training: the agent starts as its
    base policy. The order of the slots does not matter: permuted slots give permuted logits.
    """

    def __init__(self, slots: int, *, hidden: int = 32, base_logit_scale: float = 0.4) -> None:
        """Make the layers; those that give the residual give 0."""
        super().__init__()
        self.slots, self.base_logit_scale = slots, base_logit_scale
        pooled = 2 * hidden + len(TOTALS)
        self.actor = SlotEncoder(hidden)
        self.context = nn.Linear(pooled, hidden)
        self.from_slot = nn.Linear(hidden, hidden)
        self.from_context = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1)
        self.wait = nn.Linear(hidden, 1)
        for layer in (self.score, self.wait):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.critic = SlotEncoder(hidden)
        self.value = nn.Sequential(
            nn.Linear(pooled, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def residual(self, seen: Observation) -> Tensor:
        """Return what is added to the base policy's logits, (B, K + 1)."""
        each, pooled = self.actor(seen)
        context = relu(self.context(pooled))
        joined = relu(self.from_slot(each) + self.from_context(context).unsqueeze(1))
        return torch.cat([self.score(joined).squeeze(2), self.wait(context)], dim=1)

    def forward_actor(self, flat: Tensor) -> Tensor:
        """Return the logits (B, K + 1) of a (B, n) batch, those of illegal actions out of reach."""
        seen = Observation.of(flat, self.slots)
        logits = self.base_logit_scale * seen.base_logits + self.residual(seen)
        return logits.masked_fill(~seen.legal, FORBIDDEN)

    def forward_critic(self, flat: Tensor) -> Tensor:
        """Return the values (B, 1)."""
        value: Tensor = self.value(self.critic(Observation.of(flat, self.slots))[1])
        return value
