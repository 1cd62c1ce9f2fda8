"""Observations of the action `plain`: a module for each, with one attribute `observation`.

An observation has `parts(sizes)`, the name, shape and columns of each part (`envs.spaces.Part`); `space(sizes)`; and a
call `(rows, sizes)` that returns new arrays from the rows that the kernel writes, float32 (..., n), whose layout
`simulator.slots.Slots` describes. `shows_hints` is True where it shows the base policy's choice, `only_queue` where it
reads no further than the part about the queue, and `one_place` where it shows one start per queue slot, so that agents
cannot choose among placement rules.
"""

from typing import NamedTuple


class Sizes(NamedTuple):
    """Numbers of slots and machines."""

    queue_slots: int
    running_slots: int
    gpus: int
    nodes: int
