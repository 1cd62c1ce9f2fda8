"""Network that scores every queue slot with shared weights and adds the scores to the base policy's logits."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from gpu_cluster_gym.agents.networks import FORBIDDEN, ScoringNetwork
from gpu_cluster_gym.simulator.kernel.slots.features import QUEUE_FEATURES, TOTALS

PRESENT = QUEUE_FEATURES.index("present")


class Observation(NamedTuple):
    """Parts of a batch of flat observations of `envs.observations.slots`."""

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
        """Split a (B, n) batch with `slots` queue slots."""
        sizes = (slots * len(QUEUE_FEATURES), len(TOTALS), slots + 1, slots + 1)
        seen, totals, base_logits, mask = flat.split(sizes, dim=1)
        return cls(seen.unflatten(1, (slots, -1)), totals, base_logits, mask > 0)


class SlotEncoder(nn.Module):
    """Two layers shared by all slots; each slot is encoded with the totals, and empty slots are not pooled."""

    def __init__(self, hidden: int) -> None:
        """Make the layers."""
        super().__init__()
        self.slot = nn.Linear(len(QUEUE_FEATURES), hidden)
        self.totals = nn.Linear(len(TOTALS), hidden, bias=False)
        self.deeper = nn.Linear(hidden, hidden)

    def forward(self, seen: Observation) -> tuple[Tensor, Tensor]:
        """Return encoded slots, (B, K, H), and their mean, maximum and the totals, (B, 2 H + len(TOTALS))."""
        first = relu(self.slot(seen.slots) + self.totals(seen.totals).unsqueeze(1))
        each = relu(self.deeper(first))
        present = seen.slots[:, :, PRESENT : PRESENT + 1]
        kept = each * present
        mean = kept.sum(1) / present.sum(1).clamp(min=1.0)
        # Encoded slots are non-negative, so zeros in place of empty slots do not change the maximum.
        return each, torch.cat([mean, kept.amax(1), seen.totals], dim=1)


class SlotNetwork(ScoringNetwork):
    """Actor and critic, without shared layers.

    Logits are `base_logit_scale` x the base policy's logits + a residual that is 0 before training, so the untrained
    agent is its base policy. The network is equivariant: permuted slots give permuted logits.
    """

    def __init__(self, slots: int, *, hidden: int = 32, base_logit_scale: float = 0.4) -> None:
        """Make the layers; the last layers of the residual are zero."""
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
        """Return the residual that is added to the base policy's logits, (B, K + 1)."""
        each, pooled = self.actor(seen)
        context = relu(self.context(pooled))
        joined = relu(self.from_slot(each) + self.from_context(context).unsqueeze(1))
        return torch.cat([self.score(joined).squeeze(2), self.wait(context)], dim=1)

    def forward_actor(self, flat: Tensor) -> Tensor:
        """Return the logits of a (B, n) batch, (B, K + 1); those of illegal actions are masked."""
        seen = Observation.of(flat, self.slots)
        logits = self.base_logit_scale * seen.base_logits + self.residual(seen)
        return logits.masked_fill(~seen.legal, FORBIDDEN)

    def forward_critic(self, flat: Tensor) -> Tensor:
        """Return the values of a (B, n) batch, (B, 1)."""
        value: Tensor = self.value(self.critic(Observation.of(flat, self.slots))[1])
        return value
