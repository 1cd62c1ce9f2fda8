"""Networks that score what may be chosen, be it slots or moves, and what Stable-Baselines3 sees of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

FORBIDDEN = -1e8  # logit of an illegal action


class ScoringNetwork(nn.Module, ABC):
    """Actor and critic on vectors (B, n) in which the mask stands too: no caller can forget it."""

    @abstractmethod
    def forward_actor(self, flat: Tensor) -> Tensor:
        """Return the logits (B, actions), those of illegal actions out of reach."""

    @abstractmethod
    def forward_critic(self, flat: Tensor) -> Tensor:
        """Return the values (B, 1)."""

    def forward(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values."""
        return self.forward_actor(flat), self.forward_critic(flat)

    @torch.no_grad()
    def choose(self, flat: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return an action for each observation: the most likely, or one drawn with a generator."""
        logits = self.forward_actor(flat)
        if generator is None:
            return logits.argmax(1)
        return torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)


class ScoringPolicy(ActorCriticPolicy):
    """Such a network as Stable-Baselines3 wants it: its logits and values are those of actions, as they are."""

    def __init__(self, *args: Any, made: Callable[[], ScoringNetwork], **kwargs: Any) -> None:
        """Remember what makes the network."""
        self._made = made
        super().__init__(*args, **kwargs)

    @property
    def network(self) -> ScoringNetwork:
        """The network itself."""
        network = self.mlp_extractor
        assert isinstance(network, ScoringNetwork)
        return network

    def _build(self, lr_schedule: Schedule) -> None:
        self.mlp_extractor = self._made()  # type: ignore[assignment]
        self.action_net = nn.Identity()
        self.value_net = nn.Identity()  # type: ignore[assignment]
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]
