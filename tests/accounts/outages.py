"""Closing and opening of nodes: drains by the calendar; random failures as the record has them."""

import math
from collections.abc import Sequence

from gpu_cluster_gym.simulator.physics import Physics
from tests.accounts.lives import DOWN, DRAINING, OPEN

ROUNDING, HOUR = 1e-6, 3600.0  # s


class Outages:
    """Next changes of each node.

    until: when a draining node goes down, or a node that is down comes up.
    fails: next failure of each node.
    repaired: end of repair of a node that has just failed, as the record has it.
    """

    def __init__(self, physics: Physics, nodes: int, start_s: float) -> None:
        self.physics = physics
        self.every_s = physics.drain_every_h * HOUR or math.inf
        self.drains = [start_s + self.every_s * (node + 1) / nodes for node in range(nodes)]
        self.until = [math.inf] * nodes
        self.fails: Sequence[float] = [math.inf] * nodes
        self.repaired: Sequence[float] = [math.inf] * nodes

    def next_time(self, closed: list[int]) -> float:
        """Return the time of the next change of any node."""
        return min(self.due(node, now) for node, now in enumerate(closed))

    def due(self, node: int, now: int) -> float:
        """Return the time of each node's next change."""
        match now:
            case 0:
                return min(self.fails[node], self.drains[node])
            case 1:
                return min(self.fails[node], self.until[node])
        return self.until[node]

    def change(self, node: int, now: int, clock: float) -> int:
        """Return the new state of a node with a due change."""
        if now == DOWN:
            self.until[node] = math.inf
            while self.drains[node] < clock - ROUNDING:
                self.drains[node] += self.every_s
            return OPEN
        if self.fails[node] <= clock + ROUNDING:
            self.until[node] = self.repaired[node]
            return DOWN
        if now == DRAINING:
            self.until[node] += self.physics.drain_length_h * HOUR
            return DOWN
        self.until[node] = self.drains[node] + self.physics.drain_notice_h * HOUR
        self.drains[node] += self.every_s
        return DRAINING
