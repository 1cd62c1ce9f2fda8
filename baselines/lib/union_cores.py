"""How many CPU cores each job is to have where jobs share GPUs: what its profile says it lacks, else by trying."""

from typing import TYPE_CHECKING

import numpy as np

from baselines.lib.arrays import ROUNDING, Holders, divide, resizes, start_on_cores
from baselines.lib.tuning import Tuner
from simulator.policy import Action

if TYPE_CHECKING:
    from simulator.view import View

INPUT_BOUND = (
    1.1  # a measured iteration so many times its GPUs' time waits for its input: twice the profiler's error
)
WHOLE = 1.0  # CPU jobs keep all they ask for


class Feeder:
    """What is known of the need of jobs for cores.

    A job whose measured iteration is longer than its GPUs' time lacks cores, and how many is told by how much longer.
    Of others the least number is searched for, up to what they ask for.
    """

    def __init__(self, reserve: float = 1.0) -> None:
        """Know no job yet. reserve: cores for each GPU of which its job is sure."""
        self.tuner = Tuner()
        self._reserve = reserve
        self._factor: dict[int, float] = {}

    def input_bound_factor(self, view: "View", job: int) -> float:
        """Return how many times its GPUs' time an iteration took, with the cores asked for and fewest workers."""
        if job not in self._factor:
            rows = view.profile(job)
            rows = rows[rows[:, 2] == 0]
            few = rows[np.argmin(rows[:, 0])]
            gpu_s = (view.jobs.profiled_active_ms[job] + view.jobs.profiled_idle_ms[job]) / 1000
            whole = view.jobs.num_gpus[job] * gpu_s
            self._factor[job] = float(few[3] * few[0] / whole) if whole > 0 else 1.0
        return self._factor[job]

    def holders(self, view: "View", crowding: dict[int, float]) -> Holders:
        """Return which job holds cores where, and what the running jobs want; crowding: of each of them."""
        want, gain = self.tuner.wishes(view)
        running = view.running
        asked_cores = view.jobs.cores_each[running] - view.jobs.server_cores[running]
        for row, (job, gpus, asked) in enumerate(
            zip(running.tolist(), view.jobs.num_gpus[running].tolist(), asked_cores.tolist(), strict=True)
        ):
            if not gpus:
                continue
            if (input_bound_factor := self.input_bound_factor(view, job)) > INPUT_BOUND:
                want[row] = np.ceil(asked * input_bound_factor / crowding.get(job, 1.0))
                gain[row] = 1 / max(asked * input_bound_factor, 1.0)
            else:
                want[row] = min(want[row], np.ceil(asked))
        return held_by(view, want, gain)

    def moves(self, view: "View", held: Holders) -> list[Action]:
        """Return the changes by which the cores are divided anew; jobs with parameter servers keep theirs."""
        cores = divide(held, self._reserve, least_share=WHOLE)
        return resizes(view, held, np.where(held.servers > 0, view.jobs.cores_now[held.jobs], cores))

    def shrink(self, view: "View", held: Holders, taken: np.ndarray) -> list[Action]:
        """Return the changes by which so many cores of each node come free."""
        cores = divide(held, self._reserve, taken=taken, least_share=WHOLE)
        return resizes(view, held, np.minimum(cores, view.jobs.cores_now[held.jobs]))

    def start_cpu_job(self, view: "View", held: Holders, jobs: np.ndarray) -> list[Action]:
        """Return the moves by which the first of these CPU jobs starts that fits."""
        return start_on_cores(view, held, jobs, self._reserve)


def held_by(view: "View", want: np.ndarray, gain: np.ndarray) -> Holders:
    """Return which job holds cores where; as `_arrays.holders`, but for jobs that share GPUs."""
    jobs = view.running
    is_cpu, nodes = view.jobs.is_cpu_job[jobs], view.jobs.node[jobs]
    on = np.zeros((len(jobs), len(view.nodes.num_gpus)))
    on[is_cpu, nodes[is_cpu]] = 1
    gpus, seats = np.nonzero(np.isin(view.gpus.jobs, jobs) & (view.gpus.jobs >= 0))
    np.add.at(on, (np.searchsorted(jobs, view.gpus.jobs[gpus, seats]), view.gpus.node[gpus]), 1)
    places: list[list[tuple[int, float]]] = [[] for _ in jobs]
    for row, node in np.argwhere(on).tolist():
        places[row].append((node, float(on[row, node])))
    servers = view.jobs.server_cores[jobs]
    want = np.maximum(np.where(is_cpu, view.jobs.cores_each[jobs], want), 1.0) + servers
    room = view.nodes.unreserved_cores + on.T @ view.jobs.cores_now[jobs] + ROUNDING
    return Holders(jobs, is_cpu, on, places, want, servers, gain, view.jobs.phase_began_s[jobs], room)
