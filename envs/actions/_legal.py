"""Numbered actions of which only some are legal at a time."""

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete


class Legal(Discrete[np.int64]):
    """Discrete(n) of which `sample()` draws legal actions only, for samplers without a mask.

    mask: int8 (n,), 1 where an action is legal now. opening: the same, but legal at the start of every episode so
    far. The first draw after `seed` is legal there too, since the checkers draw it before they reset.
    """

    def __init__(self, n: int) -> None:
        """Hold every action for legal until the environment says otherwise."""
        super().__init__(n)
        self.mask = np.ones(n, np.int8)
        self.opening = np.ones(n, np.int8)
        self._just_seeded = False

    def seed(self, seed: int | None = None) -> Any:
        """Seed the draws."""
        self._just_seeded = True
        return super().seed(seed)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """Draw an action: by a mask or probabilities if given, else one that is legal now."""
        if mask is None and probability is None:
            both = self.mask & self.opening
            mask = both if self._just_seeded and both.any() else self.mask
        drawn = super().sample(mask, probability)
        self._just_seeded = False
        return drawn
