"""First in, first out; two jobs share GPUs that each leaves partly idle, until sharing proves slower.

Claim: measure jobs while they run, and pack, separate or move them accordingly (Gandiva, OSDI 2018). From memory,
not checked against the paper: jobs of low utilisation and memory are packed, on the least used GPUs, and separated if
together they get less done. Our choice: utilisation is low if the profiled sum is at most `most_busy`; progress is
measured as utilisation over `window_s`, of both jobs against that of the first job before, or against 1 if it has run
for less; the later job leaves by a pause, at its full cost, and the two are not packed again. Left out: time slices,
which suspend a job in about a second where a pause here takes the scenario's time; migration; growing.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.baselines._sharing import Trial, by_rank
from gpu_cluster_gym.simulator.policy import Action, Preempt, Start, Wait
from gpu_cluster_gym.simulator.search import Joins

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


@dataclass
class Gandiva:
    """One episode of the policy.

    most_busy: largest sum of profiled utilisations of two jobs that are tried together.
    window_s: seconds of a trial.
    """

    most_busy: float = 1.0
    window_s: float = 60.0
    _trials: list[Trial] = field(default_factory=list)
    _apart: list[list[int]] = field(default_factory=list)

    def __call__(self, view: "View") -> Action:
        """Separate jobs that get less done together, else start a job alone, else pack, else wait for a reading."""
        self._trials = [trial for trial in self._trials if trial.goes_on(view)]
        while due := [trial for trial in self._trials if view.now >= trial.began_s + self.window_s]:
            self._trials.remove(due[0])
            if due[0].is_worse(view):
                self._apart.append([due[0].host, due[0].guest])
                return Preempt(due[0].guest)
        order = view.queue
        if start := view.start_first(order) or self._pack(view, order):
            return start
        return Wait(self.window_s if self._trials else None)

    def _pack(self, view: "View", order: np.ndarray) -> Start | None:
        joins = Joins(view, order)
        first, jobs, duty = joins.members[joins.group, 0], order[joins.job], view.jobs.gpu_utilization
        total = duty[first] + duty[jobs]
        allowed = (total <= self.most_busy) & (joins.sizes[joins.group] == 1)
        for pair in self._apart:
            allowed &= ~(np.isin(first, pair) & np.isin(jobs, pair))
        if start := joins.cheapest(np.where(allowed, by_rank(joins, total), np.inf)):
            host = int(view.gpus.first_owner[start.placement.gpus[0]])
            self._trials.append(Trial(host, start.job, self.window_s, view))
        return start


policy = Gandiva
GRID = {"most_busy": (0.6, 0.8, 1.0, 1.2, 1.5), "window_s": (30.0, 60.0, 300.0)}
LEVER = "sharing"
