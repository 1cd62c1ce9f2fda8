"""Jobs of the rule across nodes: how much slower they are there, which is measured, and who takes a second node."""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.rule import Rule
from gpu_cluster_gym.simulator.vocabulary import RUNNING

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View
    from tests.accounts.rule_seats import Seats

FIRST_GUESS, WATCH_S, MOST = 0.13, 600.0, 16


class Across:
    """What has been measured so far, by job."""

    def __init__(self, rule: Rule) -> None:
        """Know nothing yet."""
        self._spanning = rule.spanning
        self._watched: dict[int, tuple[float, float]] = {}  # since when, and what it had attained by then
        self._measured: dict[int, float] = {}

    def may_span(self, view: "View", job: int, *, typed: bool) -> bool:
        """Tell whether a job could use more GPUs than a node has, and is put on one as it asks."""
        if not self._spanning or typed or view.jobs.servers[job]:
            return False
        largest = max(view.nodes.num_gpus[view.can_hold(job)], default=0)
        return bool(view.jobs.num_gpus[job] <= largest < min(view.jobs.max_workers[job], MOST))

    def slow(self, job: int) -> float:
        """Return how much slower a job is across nodes than its pace: as measured, or as guessed."""
        return self._measured.get(job, 1 + FIRST_GUESS / self._spanning)

    def watch(self, view: "View", job: int, pace: float, *, alone: bool) -> None:
        """Measure a job that is across nodes, while it runs alone there."""
        attained = float(view.jobs.attained_s[job])
        if view.jobs.phase[job] != RUNNING or not alone:
            self._watched.pop(job, None)
        elif job not in self._watched or self._watched[job][0] < view.jobs.phase_began_s[job]:
            self._watched[job] = view.now, attained
        else:
            since, before = self._watched[job]
            if view.now - since >= WATCH_S and attained > before:
                self._measured[job] = (view.now - since) / (attained - before) / pace


def second_node(view: "View", seats: "Seats", job: int) -> list[int]:
    """Return the GPUs that a job on one node would have with a second one; none if they are too few."""
    workers, home = min(int(view.jobs.max_workers[job]), MOST), int(seats.node[seats.gpus[job][0]])
    empty = [gpus[seats.empty[gpus]].tolist() for gpus in seats.nodes]
    others = [node for node in np.flatnonzero(view.can_hold(job)).tolist() if node != home]
    beside: list[int] = max((empty[node] for node in others), key=len, default=[])
    chosen = [*seats.gpus[job], *empty[home], *beside][:workers]
    return chosen if len(chosen) == workers else []


def first_node(seats: "Seats", job: int) -> list[int]:
    """Return a job's GPUs on the node where it has most, the first of equals."""
    by_node = [
        [gpu for gpu in seats.gpus[job] if seats.node[gpu] == node] for node in range(len(seats.nodes))
    ]
    return max(by_node, key=len)
