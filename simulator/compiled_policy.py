"""What a policy whose moves are found in the kernel keeps beside an episode: a record, which copies with the policy."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.decided import tier_of
from gpu_cluster_gym.simulator.kernel.cluster.layout import Tier
from gpu_cluster_gym.simulator.source import Record


class Keeps(ABC):
    """A record of a kernel's own type, made when the first episode is seen."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._size: Tier | None = None
        self._memory = np.empty(0)

    @abstractmethod
    def dtype(self, size: Tier) -> np.dtype:
        """Return the type of the record at a tier."""

    @abstractmethod
    def fresh(self, states: np.ndarray) -> np.ndarray:
        """Return the record as it begins, (1,), for records of an episode."""

    def kept(self, states: np.ndarray) -> np.ndarray:
        """Return the record, (1,), for records of an episode; made now where there is none yet."""
        if self._size is None:
            self._remember(tier_of(states), self.fresh(states))
        return self._memory

    def __getstate__(self) -> dict[str, Any]:
        """Return all that a copy needs; how the record is read is found again."""
        return {name: value for name, value in vars(self).items() if name != "_read"}

    def __setstate__(self, copied: dict[str, Any]) -> None:
        """Go on from what was copied: a record of the kernel's own type."""
        vars(self).update(copied)
        if self._size is not None:
            record = self._memory
            self._remember(self._size, np.empty(1, self.dtype(self._size)))
            self._memory[:] = record

    def _remember(self, size: Tier, memory: np.ndarray) -> None:
        self._size, self._memory, self._read = size, memory, Record(memory, 0)
