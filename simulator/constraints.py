"""Constraints on jobs: the nodes that each may use, and the jobs that must end before it may start."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

ANY_NODE = np.empty((0, 0), bool)
NO_PAIRS = np.empty((0, 2), np.int64)


@dataclass(frozen=True)
class Constraints:
    """Constraints of the jobs of an episode; by default there are none.

    node_kind: (nodes,) kind of each node, of those that constraints distinguish
    may_use: (jobs, kinds) whether a job may use the nodes of a kind; without kinds every job may use every node
    waits_for: (dependencies, 2), a job and one that must end before it may start
    """

    node_kind: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    may_use: np.ndarray = field(default_factory=lambda: ANY_NODE)
    waits_for: np.ndarray = field(default_factory=lambda: NO_PAIRS)

    @property
    def bind_nodes(self) -> bool:
        """Whether some job may not use every node, as far as is known in advance."""
        return bool(self.may_use.shape[1] > 0)

    def check(self, placement: str) -> None:
        """Raise ValueError where the placement does not support them, or where jobs wait for one another."""
        if self.bind_nodes and placement == "pooled":
            raise ValueError(
                "placement pooled does not support jobs that are bound to nodes: choose another placement, or drop "
                "gpu_type and partition from the constraints"
            )
        if len(circle := circle_in(self.waits_for)):
            raise ValueError(
                f"jobs depend on one another in a circle and could never start: {', '.join(map(str, circle))}; "
                "correct their dependencies, or drop depends_on from the constraints"
            )

    def fields(self) -> dict[str, Any]:
        """Return these settings as fields of an episode's record."""
        nodes = {"node_kind": self.node_kind, "may_use": self.may_use} if self.bind_nodes else {}
        return nodes | ({"waits_for": self.waits_for} if len(self.waits_for) else {})


NO_CONSTRAINTS = Constraints()


def circle_in(waits_for: np.ndarray) -> list[int]:
    """Return jobs that wait for one another in a circle, each for the next, the last for the first; empty without."""
    left: dict[int, list[int]] = {}
    for job, other in waits_for.tolist():
        left.setdefault(job, []).append(other)
    ended: set[int] = set()
    for job in left:
        path, on_path = [job], {job}
        while path:
            others = left.get(path[-1], [])
            while others and others[-1] in ended:
                others.pop()
            if not others:
                ended.add(path[-1])
                on_path.remove(path.pop())
            elif others[-1] in on_path:
                return path[path.index(others[-1]) :]
            else:
                path.append(others[-1])
                on_path.add(others[-1])
    return []
