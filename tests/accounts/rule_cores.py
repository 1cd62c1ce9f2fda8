"""How many CPU cores each job is to have where jobs share GPUs: found by trying, as CODA's tuner does."""

import math
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action
from gpu_cluster_gym.simulator.rule import Rule
from tests.accounts.rule_seats import Seats, between
from tests.accounts.rule_shapes import Paces
from tests.accounts.shares_of_cores import ROUNDING, Holders, divide, resizes, start_on_cores
from tests.accounts.trial_of_cores import Tuner

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

WHOLE = 1.0  # CPU jobs keep all they ask for
MIN_GAIN = 1e-9


class Feeder:
    """Divides the cores of each node among the jobs on it, by what its tuner finds that they need.

    What a job asks for does not count: it has little to do with its need. A wish is bounded by its readings, which end
    once its GPUs are busy or more cores do not help, and what a job gets by the cores of its nodes.
    """

    def __init__(self, rule: Rule, paces: Paces, *, learns: bool) -> None:
        """Know no job yet. learns: whether there is a history that teaches what jobs need."""
        self._paces, self._learns = paces, learns and rule.trust_cores > 0
        self.tuner = Tuner(start=rule.first_guess)
        self._rule, self._reserve = rule, rule.reserve

    def holders(self, view: "View", seats: Seats) -> Holders:
        """Return which job holds cores where, what the running jobs want, and what they make of it for the shorter."""
        want, gain = self.tuner.wishes(view)
        left_s = np.maximum(seats.left_s[view.running], 1.0)
        if self._learns:
            want, gain = self._learned(view, seats, want, gain)
        held = held_by(view, want, gain / left_s**self._rule.shorter_first)
        return held._replace(surplus=self._rule.surplus)

    def _learned(
        self, view: "View", seats: Seats, want: np.ndarray, gain: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return wishes and gains between those of the tuner and those that follow from what finished jobs teach."""
        want, gain, trust = want.copy(), gain.copy(), self._rule.trust_cores
        for row, job in enumerate(view.running.tolist()):
            gpus = len(seats.gpus.get(job, ()))
            if not gpus or view.jobs.servers[job]:
                continue
            shape = int(view.jobs.num_gpus[job]) / gpus / self._paces.of(view, job, gpus, 0)
            need = view.jobs.expected_cores[[job]] * (shape / seats.crowd[job])
            want[row] = math.ceil(between(want[[row]], need, trust)[0] - ROUNDING)
            gain[row] = between(np.maximum(gain[[row]], MIN_GAIN), 1.0 / (need * gpus), trust)[0]
        return want, gain

    def moves(self, view: "View", held: Holders) -> list[Action]:
        """Return the changes by which the cores are divided anew; jobs with parameter servers keep theirs."""
        cores = divide(held, self._reserve, min_share=WHOLE)
        return resizes(view, held, np.where(held.servers > 0, view.jobs.cores_now[held.jobs], cores))

    def shrink(self, view: "View", held: Holders, taken: np.ndarray) -> list[Action]:
        """Return the changes by which so many cores of each node come free."""
        cores = divide(held, self._reserve, taken=taken, min_share=WHOLE)
        return resizes(view, held, np.minimum(cores, view.jobs.cores_now[held.jobs]))

    def start_cpu_job(self, view: "View", held: Holders, jobs: np.ndarray) -> list[Action]:
        """Return the moves by which the first of these CPU jobs starts that fits."""
        return start_on_cores(view, held, jobs, self._reserve)


def held_by(view: "View", want: np.ndarray, gain: np.ndarray) -> Holders:
    """Return which job holds cores where; as `shares_of_cores.holders`, but for jobs that share GPUs."""
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
