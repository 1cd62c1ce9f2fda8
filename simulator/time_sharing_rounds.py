"""Turns on kinds of GPUs in rounds, by the time that each job is owed and has had (`simulator.kernel.rounds.turns`)."""

from collections.abc import Callable

import numpy as np

from gpu_cluster_gym.simulator.compiled_policy import Keeps
from gpu_cluster_gym.simulator.decided import written_down
from gpu_cluster_gym.simulator.kernel.cluster.layout import Tier
from gpu_cluster_gym.simulator.kernel.rounds import turns
from gpu_cluster_gym.simulator.kernel.rounds.turn_memory import SHARE, fresh_turns, turn_dtype
from gpu_cluster_gym.simulator.policy import Action
from gpu_cluster_gym.simulator.source import Source, source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import stream

Divide = Callable[[View, np.ndarray], np.ndarray]
"""Finds the shares of time, (jobs, kinds), of some jobs."""


class Turns(Keeps):
    """The moves of one policy that gives each job shares of time on each kind of GPUs.

    A kind is a type of GPUs of the cluster, by its number in `simulator.vocabulary.GPU_TYPES`; the last is all GPUs
    together.
    """

    def __init__(self, every_s: float) -> None:
        """Know nothing yet; every_s: between two rounds."""
        self._every_s = every_s
        super().__init__()

    def dtype(self, size: Tier) -> np.dtype:
        """Return the type of the record at a tier."""
        return turn_dtype(size)

    def fresh(self, states: np.ndarray) -> np.ndarray:
        """Return the record as it begins."""
        return fresh_turns(states, self._every_s)

    @property
    def sharing(self) -> np.ndarray:
        """The jobs that shares are to be found for: all with GPUs that have arrived and not ended."""
        m = self._read
        jobs: np.ndarray = m.sharing[: m.num_sharing].astype(np.int64)
        return jobs

    @property
    def received_s(self) -> np.ndarray:
        """Seconds that each job that has arrived has had on each kind so far: (jobs, kinds)."""
        m = self._read
        received: np.ndarray = m.got_s[: m.num_known, : m.num_kinds].copy()
        return received

    def share(self, shares: np.ndarray) -> None:
        """Take the shares of time of the jobs in `sharing` on each kind: (jobs, kinds)."""
        m = self._read
        m.share[m.sharing[: m.num_sharing], : shares.shape[1]] = shares

    def next_move(self, view: View) -> Action | None:
        """Return the next move of this instant, then a wait; None where other jobs, or nodes, need new shares first."""
        source = source_of(view)
        memory = self.kept(source.states)
        what = turns.next_move(source.states, 0, memory, 0, source.jobs)
        return None if what == SHARE else written_down(memory, what)

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray, divide: Divide) -> bool:
        """Make all moves on the first record to the end, inside the kernel; tell whether every job ended.

        divide: finds the shares of jobs, as in `sharing`, for `share`.
        """
        memory = self.kept(states)
        view = View(Source(states, jobs, stream(int(states["seed"][0]), "view"), histories))
        while turns.run(states, 0, memory, 0, jobs) == SHARE:
            self.share(divide(view, self.sharing))
        return bool(states["num_done"][0] == states["num_jobs"][0])
