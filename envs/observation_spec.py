"""What every number of an observation is: the parts of it, the columns of each by name, and their shapes."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np


class Part(NamedTuple):
    """A part of an observation: a vector, or so many rows one behind the other, with these columns."""

    columns: tuple[str, ...]
    rows: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its table, or of its vector."""
        return (len(self.columns),) if self.rows is None else (self.rows, len(self.columns))

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)


Parts = Mapping[str, Part]


class Named:
    """What sees parts: columns, shapes, and an observation taken apart by them."""

    seen_parts: Parts

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The names of the columns of each part of an observation, as `columns["queue"]`."""
        return {name: part.columns for name, part in self.seen_parts.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each part of an observation, as `shapes["queue"]`: a row a slot, its columns as named."""
        return {name: part.shape for name, part in self.seen_parts.items()}

    def parts(self, observation: Any) -> dict[str, np.ndarray]:
        """Return an observation as its parts, each in its shape; of a batch each with the batch's dimension before."""
        return apart(self.seen_parts, observation)


def apart(parts: Parts, observation: Any) -> dict[str, np.ndarray]:
    """Return an observation, a vector of all parts or a vector or table of each, as parts in their shapes."""
    if not isinstance(observation, Mapping):
        ends = np.cumsum([part.size for part in parts.values()])[:-1]
        observation = dict(zip(parts, np.split(np.asarray(observation), ends, axis=-1), strict=True))
    return {name: shaped(np.asarray(observation[name]), part.shape) for name, part in parts.items()}


def shaped(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return numbers in a shape, behind the dimensions that they have besides."""
    if array.shape[-len(shape) :] == shape:
        return array
    return array.reshape(*array.shape[:-1], *shape)


def numbered(name: str, count: int) -> tuple[str, ...]:
    """Return so many names, as `gpu_0`, `gpu_1`."""
    return tuple(f"{name}_{number}" for number in range(count))
