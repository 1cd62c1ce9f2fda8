"""GPUs given to jobs in an order, in rounds (`simulator.kernel.rounds`).

A policy says in which order jobs come and how many GPUs each is to have. A running job keeps its GPUs where no job
before it needs them; a queued one starts where the scenario's rule puts it on free GPUs, else it waits for GPUs of a
node that pauses in flight will free, else the fewest jobs that come after it are paused, the last in order of equally
many. GPUs that are being freed for a job are kept for it. CPU jobs start where they fit; no job is paused for them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.compiled_policy import Keeps
from gpu_cluster_gym.simulator.decided import written_down
from gpu_cluster_gym.simulator.kernel.cluster.decided import tier_of
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_LEVELS, Tier
from gpu_cluster_gym.simulator.kernel.rounds import rounds
from gpu_cluster_gym.simulator.policy import Action, RunsWhole
from gpu_cluster_gym.simulator.source import Source, source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import stream

ROUND_S = 240.0  # Tiresias' interval in AITurbo's code


class Wishes(NamedTuple):
    """Queued and running jobs, the first first, and how many GPUs each is to have."""

    jobs: np.ndarray
    gpus: np.ndarray


class Levels(NamedTuple):
    """An order by levels of attained service, first in, first out inside, with a way back for jobs that starve.

    limits: GPU-seconds, since a job was last sent back, at which the next level begins. starve: seconds of waiting for
    each second run after which a queued job is sent back to the first. servers_on_gpus: whether jobs are to have GPUs
    for their parameter servers.
    """

    limits: tuple[float, ...]
    starve: float
    servers_on_gpus: bool = False


class Rounds(Keeps):
    """The moves of one policy that settles which jobs run at each arrival, and every so often while jobs wait for GPUs.

    In between, what fits starts in the same order and no job is paused. A round may be late by less than a glance.
    """

    def __init__(self, order: Callable[[View], Wishes] | Levels, every_s: float = ROUND_S) -> None:
        """Note what gives the wishes of an instant, of all that are queued or running; ValueError for many levels."""
        if isinstance(order, Levels) and len(order.limits) > MAX_LEVELS:
            raise ValueError(f"{len(order.limits)} limits of levels: at most {MAX_LEVELS}")
        self._order, self._every_s = order, every_s
        super().__init__()

    def dtype(self, size: Tier) -> np.dtype:
        """Return the type of the record at a tier."""
        return rounds.round_dtype(size)

    def fresh(self, states: np.ndarray) -> np.ndarray:
        """Return the record as it begins."""
        memory = np.zeros(1, self.dtype(tier_of(states)))
        memory["every_s"] = self._every_s
        if isinstance(self._order, Levels):
            memory["way"], memory["limits"] = rounds.BY_LEVEL, np.inf
            memory["limits"][0, : len(self._order.limits)] = self._order.limits
            memory["starve"], memory["apart"] = self._order.starve, self._order.servers_on_gpus
        rounds.forget(memory)
        return memory

    def __call__(self, view: View) -> Action:
        """Return the next move of this instant, then a wait."""
        source = source_of(view)
        memory = self.kept(source.states)
        while (what := rounds.next_move(source.states, 0, memory, 0, source.jobs)) == rounds.ORDER:
            self._tell(view)
        return written_down(memory, what)

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Make all moves on the first record to the end, inside the kernel; tell whether every job ended."""
        memory = self.kept(states)
        view = View(Source(states, jobs, stream(int(states["seed"][0]), "view"), histories))
        while rounds.run(states, 0, memory, 0, jobs) == rounds.ORDER:
            self._tell(view)
        return bool(states["num_done"][0] == states["num_jobs"][0])

    def _tell(self, view: View) -> None:
        """Tell the kernel the order of this instant."""
        assert not isinstance(self._order, Levels), "the kernel finds this order itself"
        wishes, source = self._order(view), source_of(view)
        jobs, memory = source.known(wishes.jobs), self.kept(source.states)
        memory["order"][0, : len(jobs)], memory["wanted"][0, : len(jobs)] = jobs, wishes.gpus
        memory["num_order"], memory["stage"] = len(jobs), rounds.BEGINNING


class InRounds(RunsWhole):
    """A policy that is an order, carried out by its `rounds`."""

    rounds: Rounds

    def __call__(self, view: View) -> Action:
        """Start what fits in order, or pause for it in a round, then wait."""
        return self.rounds(view)

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Carry it out inside the kernel to the end; tell whether every job ended."""
        return self.rounds.run_whole(states, jobs, histories)


def by(view: View, jobs: np.ndarray, *keys: np.ndarray) -> Wishes:
    """Return the wishes of jobs, each for what it asks, by keys of theirs, the first first, then by (submit, job)."""
    some = jobs[np.lexsort((jobs, *reversed(keys)))]
    return Wishes(some, view.jobs_of(some).num_gpus)
