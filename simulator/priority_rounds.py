"""GPUs given to jobs in a priority order, in rounds (`simulator.kernel.rounds.priority`).

A policy returns the order of the jobs and the number of GPUs of each. A running job keeps its GPUs unless a job before
it needs them. A queued job starts where the scenario's rule places it on free GPUs. If it does not fit, it waits for a
node whose GPUs will be freed by pauses in progress. If there is none, the smallest number of later jobs is paused, and
among equally small sets the one that comes last in the order. GPUs that are being freed for a job are reserved for it.
CPU jobs start where they fit; no job is paused for them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.compiled_policy import CompiledPolicy, Kernel
from gpu_cluster_gym.simulator.kernel.rounds import priority
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.view import View

ROUND_S = 240.0  # Tiresias' interval in AITurbo's code


class Requests(NamedTuple):
    """Queued and running jobs, (jobs,), highest priority first, and the number of GPUs of each, (jobs,)."""

    jobs: np.ndarray
    gpus: np.ndarray


class PriorityRounds(CompiledPolicy):
    """A policy that decides which jobs run at each arrival, and every `every_s` seconds while jobs wait for GPUs.

    Between rounds, jobs that fit start in the same order and no job is paused.
    """

    kernel = Kernel(priority.memory_dtype, priority.step, priority.run)
    asks_often = True

    def __init__(self, order: Callable[[View], Requests], every_s: float = ROUND_S) -> None:
        """Take the function that returns the requests of an instant, of all jobs that are queued or running."""
        self._order, self._every_s = order, every_s
        super().__init__()

    def init_memory(self, memory: np.ndarray, states: np.ndarray) -> None:
        """Write the settings into a memory of zeros."""
        priority.init_memory(memory, self._every_s)

    def answer(self, status: int, view: View) -> None:
        """Write the order of this instant into the memory."""
        requests, source = self._order(view), source_of(view)
        jobs, memory = source.known(requests.jobs), self.memory(source.states)
        memory["order"][0, : len(jobs)], memory["wanted"][0, : len(jobs)] = jobs, requests.gpus
        memory["num_order"] = len(jobs)


def requests_by(jobs: np.ndarray, gpus: np.ndarray, *keys: np.ndarray) -> Requests:
    """Return jobs and their GPUs sorted by keys, (jobs,) each, smallest first; equal ones keep their order."""
    order = np.lexsort(keys[::-1])
    return Requests(jobs[order], gpus[order])
