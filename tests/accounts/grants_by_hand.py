"""Grants to an order of jobs in plain Python: the jobs that keep their GPUs, pause or start, and their GPUs.

A policy says in which order jobs come and how many GPUs each is to have. A running job keeps its GPUs where no job
before it needs them; a queued one starts where the scenario's rule puts it on free GPUs, else it waits for GPUs of a
node that pauses in flight will free, else the fewest jobs that come after it are paused, the last in order of equally
many. GPUs that are being freed for a job are kept for it. CPU jobs start where they fit; no job is paused for them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Start
from gpu_cluster_gym.simulator.vocabulary import NOBODY, PAUSING
from tests.accounts.room_by_hand import alone, cheapest

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

ROUNDING = 1e-6  # of sums of cores


class Request(NamedTuple):
    """A queued or running job, and how many GPUs it is to have."""

    job: int
    gpus: int


class Room(NamedTuple):
    """GPUs for a job, and the jobs to pause for it."""

    victims: list[int]
    gpus: list[int]


class Part(NamedTuple):
    """Offer of a node to a job: the smallest has fewest victims, the last in order, and fewest GPUs to wait for."""

    num_victims: int
    minus_places: float
    awaited: int
    node: int
    victims: tuple[int, ...]


class Ledger(NamedTuple):
    """By node: free GPUs, GPUs that pauses in flight will free, and GPUs of each candidate.

    place: of each job, in order. cost: of pausing each, the same for all. cores: unreserved on each node once all
    pauses in flight have ended and what is reserved has started. gain: what a GPU of each job adds to them.
    """

    free: list[list[int]]
    freeing: list[list[int]]
    held: list[dict[int, list[int]]]
    place: np.ndarray
    cost: np.ndarray
    cores: np.ndarray
    gain: np.ndarray

    def keep(self, job: int) -> None:
        """Leave a job its GPUs."""
        for held in self.held:
            held.pop(job, None)

    def most(self, node: int) -> int:
        """Return how many GPUs of a node are available at most."""
        return len(self.free[node]) + len(self.freeing[node]) + sum(map(len, self.held[node].values()))

    def gpus(self, node: int, victims: Iterable[int]) -> list[int]:
        """Return the GPUs of a node that are available once these are paused, the free ones first."""
        freed = [gpu for victim in victims for gpu in self.held[node].get(victim, ())]
        return self.free[node] + self.freeing[node] + freed

    def cores_with(self, node: int, victims: Iterable[int]) -> float:
        """Return the cores of a node that are unreserved once these are paused."""
        gains = (len(self.held[node].get(victim, ())) * self.gain[victim] for victim in victims)
        return float(self.cores[node] + sum(gains))


def grants(view: "View", requests: Sequence[Request], *, pausing: bool = True) -> Iterator[Action]:
    """Yield the pauses and starts of this instant, each of which is to be made before the next is requested.

    requests: of queued and running jobs, in order; a running job without a request keeps its GPUs.
    pausing: whether running jobs may be paused; else they keep their GPUs.
    """
    queued, cores = set(view.queue.tolist()), view.jobs.cores_each.tolist()
    runners = set(alone(view, view.preemptible).tolist()) if pausing else set()
    after = [request.job for request in requests if request.job in runners]
    unlike = bool(np.ptp(view.nodes.gpu_memory_gib))
    hopeless = set()
    ledger: Ledger | None = None  # as long as nothing is done
    for request in requests:
        if after and request.job == after[0]:
            after = after[1:]
            if ledger:
                ledger.keep(request.job)
        if request.job not in queued:
            continue
        memory = view.can_hold(request.job).tobytes() if unlike else b""
        request_class = request.gpus, cores[request.job], memory
        if request_class in hopeless or view.just_paused(request.job):
            continue
        if placement := view.place(request.job, gpus=request.gpus):
            ledger = None
            yield Start(request.job, _with_servers(view, request, placement))
            continue
        ledger = ledger or ledger_of(view, after)
        room = make_room(view, request, ledger) or Room([], [])
        start = Start(request.job, _with_servers(view, request, Placement(tuple(sorted(room.gpus)))))
        if not room.gpus or is_too_early(view, room, start):
            hopeless.add(request_class)
            continue
        ledger = None
        after = [job for job in after if job not in room.victims]
        yield from map(Preempt, room.victims)
        if not view.why_not(start):
            yield start


def is_too_early(view: "View", room: Room, move: Action) -> bool:
    """Return whether GPUs are free for a move, but cores only once a pause in flight has ended."""
    return not room.victims and view.why_not(move) is not None


def _with_servers(view: "View", request: Request, placement: Placement) -> Placement:
    """Return a placement that gives parameter servers the GPUs beyond one for each worker, if there are such."""
    workers = int(view.jobs.num_gpus[request.job])
    if request.gpus == workers:
        return placement
    return placement._replace(workers=workers, servers=request.gpus - workers)


def make_room(view: "View", request: Request, ledger: Ledger, among: np.ndarray | None = None) -> Room | None:
    """Find GPUs for a job: free ones, ones that are being freed, and those of a minimum number of victims.

    among: whether each node is allowed; None for all. Exact on one node; a gang on several takes the best node for each
    part. None if the job does not fit, or if a node would lack the cores that it requests.
    """
    if not request.gpus or not (any(ledger.held) or len(view.pausing)):
        return None
    able, each = view.can_hold(request.job), float(view.jobs.cores_each[request.job])
    able = able if among is None else able & among
    room = Room([], [])
    for wanted in by_node(view, request, able):
        nodes = np.flatnonzero(able & (view.nodes.num_gpus >= wanted)).tolist()
        parts = [_part(ledger, node, wanted, each, room.victims) for node in nodes]
        best = min((part for part in parts if part), default=None)
        if not best:
            return None
        able[best.node] = False
        room.victims.extend(best.victims)
        room.gpus.extend(ledger.gpus(best.node, room.victims)[:wanted])
    return room


def _part(ledger: Ledger, node: int, wanted: int, each: float, chosen: list[int]) -> Part | None:
    """Return the offer of a node towards some GPUs with some cores each; `chosen` are paused already."""
    if ledger.most(node) < wanted:
        return None
    missing = wanted - len(ledger.gpus(node, chosen))
    offers = [(job, len(gpus)) for job, gpus in ledger.held[node].items() if job not in chosen]
    found = cheapest(missing, offers, ledger.cost, ledger.place)
    if not found or ledger.cores_with(node, [*chosen, *found.jobs]) + wanted + ROUNDING < each * wanted:
        return None
    return Part(found.size, found.minus_remaining_s, wanted - len(ledger.free[node]), node, found.jobs)


def by_node(view: "View", request: Request, able: np.ndarray) -> list[int]:
    """Return how many GPUs a job takes on each of its nodes, as the placement rules do on equal nodes."""
    largest = int(view.nodes.num_gpus[able].max())
    whole, rest = divmod(request.gpus, largest)
    return [largest] * whole + [rest] * (rest > 0)


def ledger_of(view: "View", jobs: Sequence[int]) -> Ledger:
    """Return which job holds what, as far as it is available to a job if some of these are paused."""
    nodes, holder, reserved_for = (
        range(len(view.nodes.num_gpus)),
        view.gpus.first_owner,
        view.gpus.reserved_for,
    )
    pausing = (holder >= 0) & (view.jobs.phase[holder] == PAUSING)
    place, cores, gain = (
        np.full(len(view.jobs.phase), -1.0),
        np.full(len(nodes), np.inf),
        np.zeros(len(view.jobs.phase)),
    )
    place[list(jobs)] = np.arange(len(jobs))
    if view.cpu_limited:
        cores, gain = view.nodes.unreserved_cores.copy(), view.jobs.cores_now - 1
        change = np.where(pausing, gain[holder], 0.0) - np.where(
            reserved_for >= 0, view.jobs.cores_each[reserved_for] - 1, 0.0
        )
        np.add.at(cores, view.gpus.node, change)
    cost = np.ones(len(place))
    ledger = Ledger([[] for _ in nodes], [[] for _ in nodes], [{} for _ in nodes], place, cost, cores, gain)
    open_to_one = (reserved_for == NOBODY) & (view.gpus.num_jobs <= 1)
    free, held = open_to_one & (holder < 0), open_to_one & (holder >= 0) & (place[holder] >= 0)
    for kind, lists in (free, ledger.free), (open_to_one & pausing, ledger.freeing):
        for gpu, node in zip(np.flatnonzero(kind).tolist(), view.gpus.node[kind].tolist(), strict=True):
            lists[node].append(gpu)
    for gpu, node, job in zip(
        np.flatnonzero(held).tolist(), view.gpus.node[held].tolist(), holder[held].tolist(), strict=True
    ):
        ledger.held[node].setdefault(job, []).append(gpu)
    return ledger
