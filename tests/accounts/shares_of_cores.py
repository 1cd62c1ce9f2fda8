"""Division of CPU cores among jobs that want some, in plain Python.

On each node some cores for each GPU are reserved for jobs with GPUs, the rest is for CPU jobs. What one side leaves
idle the other borrows, and gives back by shrinking, without a pause: a job that has more than the reserve of its
GPUs when a CPU job comes, the CPU job that came last when a job with GPUs needs its reserve.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Placement, Resize, Start
from gpu_cluster_gym.simulator.vocabulary import OPEN

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

MIN_SHARE = 0.5  # of its requested cores, that a CPU job always keeps; our choice
ROUNDING = 1e-6


class Holders(NamedTuple):
    """Running jobs, with an entry per job in each array, and the cores of each node available to them.

    on: (jobs, nodes), GPUs of a job on a node; 1 for a CPU job. places: the same, as pairs of a node and how many.
    want: cores for each of those; what a CPU job asks for. servers: of these, those of parameter servers, which no job
    can take. gain: how much a job makes of one. since_s: when it began. surplus: times what it wants that a job with
    GPUs is given at most, where no job wants it.
    """

    jobs: np.ndarray
    is_cpu: np.ndarray
    on: np.ndarray
    places: list[list[tuple[int, float]]]
    want: np.ndarray
    servers: np.ndarray
    gain: np.ndarray
    since_s: np.ndarray
    room: np.ndarray
    surplus: float = 1.0


def holders(view: "View", want: np.ndarray, gain: np.ndarray) -> Holders:
    """Return the cores that jobs hold by node, given what the running jobs want."""
    jobs = view.running
    servers = view.jobs.server_cores[jobs]
    is_cpu, nodes = view.jobs.is_cpu_job[jobs], view.jobs.node[jobs]
    on = np.zeros((len(jobs), len(view.nodes.num_gpus)))
    on[is_cpu, nodes[is_cpu]] = 1
    gpus = np.flatnonzero(np.isin(view.gpus.first_owner, jobs))
    np.add.at(on, (np.searchsorted(jobs, view.gpus.first_owner[gpus]), view.gpus.node[gpus]), 1)
    places: list[list[tuple[int, float]]] = [[] for _ in jobs]
    for row, node in np.argwhere(on).tolist():
        places[row].append((node, float(on[row, node])))
    want = np.maximum(np.where(is_cpu, view.jobs.cores_each[jobs], want), 1.0) + servers
    room = view.nodes.unreserved_cores + on.T @ view.jobs.cores_now[jobs] + ROUNDING
    return Holders(jobs, is_cpu, on, places, want, servers, gain, view.jobs.phase_began_s[jobs], room)


def divide(
    held: Holders,
    reserve: float,
    *,
    taken: np.ndarray | float = 0.0,
    min_share: float = MIN_SHARE,
) -> np.ndarray:
    """Return the cores of each running job in a new division, whole numbers.

    Each job has one and its servers', CPU jobs the minimum share of what they request; then the reserve is allocated,
    then CPU jobs get what they request, in the order of their starts, then, by marginal gain per core, the others what
    they want.
    taken: cores of each node that other jobs will have.
    """
    least = np.clip(np.ceil(min_share * held.want), 1, held.want)
    cores = np.where(held.is_cpu, least, 1.0 + held.servers)
    room = (held.room - taken - held.on.T @ cores).tolist()
    gpu_jobs, cpu_jobs = np.flatnonzero(~held.is_cpu), np.flatnonzero(held.is_cpu)
    oldest_first = cpu_jobs[np.argsort(held.since_s[cpu_jobs], kind="stable")]
    most_gain_first = gpu_jobs[np.argsort(-held.gain[gpu_jobs], kind="stable")]
    for rows, most in (
        (gpu_jobs, np.minimum(held.want, reserve + held.servers)),
        (oldest_first, held.want),
        (most_gain_first, held.want),
    ):
        _give(held, rows[cores[rows] < most[rows]], most, cores, room)
    if held.surplus > 1:
        beyond = np.ceil(held.surplus * (held.want - held.servers) - ROUNDING) + held.servers
        _give(held, most_gain_first[cores[most_gain_first] < beyond[most_gain_first]], beyond, cores, room)
    return cores


def _give(held: Holders, rows: np.ndarray, most: np.ndarray, cores: np.ndarray, room: list[float]) -> None:
    """Raise cores to `most`, in this order of jobs, as far as the nodes have free cores; modifies both."""
    for row, more in zip(rows.tolist(), (most - cores)[rows].tolist(), strict=True):
        there = min((room[node] // count for node, count in held.places[row]), default=0.0)
        if (given := min(more, there)) > 0:
            cores[row] += given
            for node, count in held.places[row]:
                room[node] -= given * count


def resizes(view: "View", held: Holders, cores: np.ndarray) -> list[Action]:
    """Return the changes to these cores, those that free cores first."""
    change = cores - view.jobs.cores_now[held.jobs]
    rows = np.flatnonzero(abs(change) > ROUNDING)
    return [
        Resize(int(held.jobs[row]), float(cores[row]))
        for row in rows[np.argsort(change[rows], kind="stable")]
    ]


def start_on_cores(view: "View", held: Holders, jobs: np.ndarray, reserve: float) -> list[Action]:
    """Return the moves that start the first of these CPU jobs that fits beside the reserves, none if none does.

    It comes on the node where it leaves most cores beyond those that others want; there they give back what it takes.
    """
    sure = held.room - held.on.T @ np.where(
        held.is_cpu, held.want, np.minimum(held.want, reserve + held.servers)
    )
    left = held.room - held.on.T @ held.want
    for job in jobs.tolist():
        asked = max(float(view.jobs.cores_each[job]), 1.0)
        fits = (sure + ROUNDING >= asked) & (view.nodes.closed == OPEN)
        if not fits.any() or view.just_paused(job):
            continue
        most = np.where(fits, left, -np.inf)
        node = 0
        for other in range(1, len(most)):  # sums in another order may differ in their last digit
            node = other if most[other] > most[node] + ROUNDING else node
        taken = np.where(np.arange(len(sure)) == node, asked, 0.0)
        cores = np.minimum(divide(held, reserve, taken=taken), view.jobs.cores_now[held.jobs])
        return [*resizes(view, held, cores), Start(job, Placement((), node=node))]
    return []
