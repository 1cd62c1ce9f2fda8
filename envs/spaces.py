"""Spaces of the environments: masked discrete actions, and observations in parts with named columns."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Space

from gpu_cluster_gym.simulator.kernel.slots.features import HIGHEST, LOWEST


class MaskedDiscrete(Discrete[np.int64]):
    """Discrete(n) whose `sample()` draws legal actions only, for samplers that pass no mask.

    mask: int8 (n,), 1 where an action is legal now.
    opening: int8 (n,), 1 where an action was legal at the start of every episode so far. The first sample after `seed`
    is legal there too, since environment checkers draw it before they reset.
    """

    def __init__(self, n: int) -> None:
        """Treat every action as legal until the environment sets `mask`."""
        super().__init__(n)
        self.mask = np.ones(n, np.int8)
        self.opening = np.ones(n, np.int8)
        self._just_seeded = False

    def seed(self, seed: int | None = None) -> Any:
        """Seed the generator of samples."""
        self._just_seeded = True
        return super().seed(seed)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """Draw an action: by a mask or probabilities if given, else a legal one."""
        if mask is None and probability is None:
            both = self.mask & self.opening
            mask = both if self._just_seeded and both.any() else self.mask
        drawn = super().sample(mask, probability)
        self._just_seeded = False
        return drawn


class Part(NamedTuple):
    """A part of an observation: a vector, or a table of `rows` rows, with named columns."""

    columns: tuple[str, ...]
    rows: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the vector or table."""
        return (len(self.columns),) if self.rows is None else (self.rows, len(self.columns))

    @property
    def size(self) -> int:
        """Number of entries."""
        return prod(self.shape)


Parts = Mapping[str, Part]


class NamedParts:
    """Mixin of environments that describe their observations by parts."""

    seen_parts: Parts

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Column names of each part of an observation, such as `columns["queue"]`."""
        return {name: part.columns for name, part in self.seen_parts.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each part of an observation, such as `shapes["queue"]`: a row per slot, columns as named."""
        return {name: part.shape for name, part in self.seen_parts.items()}

    def parts(self, observation: Any) -> dict[str, np.ndarray]:
        """Split an observation into its parts, each in its shape, behind the batch dimension if there is one."""
        return split(self.seen_parts, observation)


def split(parts: Parts, observation: Any) -> dict[str, np.ndarray]:
    """Split an observation, a flat vector of all parts or a dict with an array for each, into parts in their shapes."""
    if isinstance(observation, Mapping) and "observations" in observation:
        observation = observation["observations"]
    if not isinstance(observation, Mapping):
        ends = np.cumsum([part.size for part in parts.values()])[:-1]
        observation = dict(zip(parts, np.split(np.asarray(observation), ends, axis=-1), strict=True))
    return {name: reshaped(np.asarray(observation[name]), part.shape) for name, part in parts.items()}


def reshaped(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array whose last dimensions have this shape; leading dimensions are kept."""
    if array.shape[-len(shape) :] == shape:
        return array
    return array.reshape(*array.shape[:-1], *shape)


def numbered(name: str, count: int) -> tuple[str, ...]:
    """Return numbered names, such as `gpu_0`, `gpu_1`."""
    return tuple(f"{name}_{number}" for number in range(count))


def features(*shape: int) -> Box:
    """Return the float32 space of slot features."""
    return Box(LOWEST, HIGHEST, shape, np.float32)


def with_mask(observation: Space[Any], actions: int) -> Dict:
    """Return the space of observations that carry the action mask, as RLlib and TorchRL expect it."""
    return Dict({"observations": observation, "action_mask": Box(0, 1, (actions,), np.int8)})


def row(observations: Any, e: int) -> Any:
    """Return the observation of one environment of a batch."""
    if isinstance(observations, dict):
        return {name: row(part, e) for name, part in observations.items()}
    return observations[e]
