"""Observations of the action `plain`: a module for each, with one attribute `observation`; `sets` is the default.

Where the agent chooses the placement rule, the default is `tables`; with hints, where a rule chooses all but the job,
`slots`.

An observation has `parts(sizes)`, the name, shape and columns of each part (`envs.spaces.Part`); `space(sizes)`; and a
call `(rows, sizes)` that returns new arrays from the rows that the kernel writes, float32 (..., n), whose layout
`simulator.slots.Slots` describes. `shows_hints` is True where it shows the base policy's choice, `only_queue` where it
reads no further than the part about the queue, and `one_place` where it shows one start per queue slot, so that agents
cannot choose among placement rules. A function of the view is an observation too, see `FromView`.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from gpu_cluster_gym.envs.spaces import Part, numbered
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.view import View


class Sizes(NamedTuple):
    """Numbers of slots and machines."""

    queue_slots: int
    running_slots: int
    gpus: int
    nodes: int


class FromView:
    """Observation that a function of a scheduler's view returns: a vector of fixed length, float32, any finite numbers.

    The first call determines the length.
    """

    only_queue = False

    def __init__(self, function: Callable[[View], Any]) -> None:
        """Take the function."""
        self._function, self._size = function, 0
        self._name = repr(getattr(function, "__name__", function))

    def __call__(self, view: View) -> np.ndarray:
        """Return the vector; ValueError if it is none, or its length differs from the first one's."""
        seen = np.array(self._function(view), np.float32)
        if seen.ndim != 1 or not len(seen) or not np.isfinite(seen).all():
            raise ValueError(
                f"observation {self._name}: expected a vector of finite numbers, also where no job is queued, "
                f"not {seen}"
            )
        self._size = self._size or len(seen)
        if len(seen) != self._size:
            raise ValueError(
                f"observation {self._name}: expected {self._size} numbers, as in the first call, not {len(seen)}; "
                "pad or cut them to a fixed length"
            )
        return seen

    def parts(self, episode: Episode) -> dict[str, Part]:
        """Return the only part, after a call at the first arrival of a copy of an episode at its beginning."""
        first = copy.deepcopy(episode)
        while not first.num_present:
            first.advance()
        return {"values": Part(numbered("value", len(self(first.view))))}

    def space(self) -> Box:
        """Return the observation space."""
        any_number = np.finfo(np.float32)
        return Box(any_number.min, any_number.max, (self._size,), np.float32)
