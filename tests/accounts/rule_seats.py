"""Where a job can run: on GPUs of its own, in a share slot beside others, or in the place of a job paused for it.

Two jobs on a GPU are taken to slow each other down by 0.48 for each GPU's worth of profiled demand beyond one, as the
median of Gavel's pairs on V100s, and by a fixed 4 % per co-located job, as Lucid's; a gang is as slow as on its worst
GPU.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.rule import Rule
from gpu_cluster_gym.simulator.vocabulary import DONE, LOADING, PAUSING, QUEUED, RUNNING
from tests.accounts.rule_across import Across
from tests.accounts.rule_shapes import ROUNDING, Paces
from tests.accounts.rule_types import Types
from tests.accounts.sharing_by_hand import ALONE_AFTER

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

CONTENTION, LOSS_PER_JOB = 0.48, 0.04
NOBODY = -1


class Offer(NamedTuple):
    """GPUs for a job and its servers, how much slower than alone it runs there, and how many GPUs it has alone."""

    gpus: tuple[int, ...]
    servers: int
    slowdown: float
    owned: int


def between(own: np.ndarray, learned: np.ndarray, trust: float) -> np.ndarray:
    """Return what lies between the rule's own figures and learned ones, by logarithms; its own where they are equal."""
    pairs = zip(own.tolist(), learned.tolist(), strict=True)
    found = [
        told
        if mine == told or trust == 1.0
        else math.exp((1.0 - trust) * math.log(mine) + trust * math.log(told))
        for mine, told in pairs
    ]
    return np.array(found, float)


def believed_remaining_s(view: "View", rule: Rule) -> np.ndarray:
    """Return the run time left of each job, in the shape it asks for, as the rule believes."""
    own: np.ndarray = view.jobs.remaining_s
    if not rule.trust_times:
        return own
    learned: np.ndarray = view.jobs.expected_remaining_s
    found, apart = own.copy(), (own != learned) & (view.jobs.phase != DONE)
    found[apart] = between(own[apart], np.maximum(learned[apart], 1.0), rule.trust_times)
    return found


class Seats:
    """Which jobs are on which GPUs at one moment, read once, and what another would find there. A seat: a share slot.

    claimed: GPUs that are kept for a job.
    left_s: seconds each job has to go: a queued one as asked, alone, on its fastest GPUs, with its load, others as
    things are. anew_s: if it starts anew so. alone: whether it can only have GPUs of its own. pause_area: GPU-seconds
    that its pause takes. waiting: how many jobs wait for GPUs, at least one.
    """

    def __init__(
        self, view: "View", paces: Paces, types: Types, across: Across, claimed: set[int], rule: Rule
    ) -> None:
        """Read the view."""
        self.now, self.rule, self.most_busy = view.now, rule, rule.most_busy * rule.sharing
        self.here, self.num_jobs = view.gpus.jobs, np.asarray(view.gpus.num_jobs)
        self.duty, self.memory = view.jobs.gpu_utilization, np.asarray(view.jobs.profiled_memory_gib)
        self.oom_prone = np.asarray(view.jobs.oom_restarts) >= ALONE_AFTER
        self.room_gib, self.across = view.gpus.unclaimed_memory_gib, across
        self.node, self.unreserved_cores = np.asarray(view.gpus.node), np.asarray(view.nodes.unreserved_cores)
        self.nodes = [np.flatnonzero(self.node == node) for node in range(len(view.nodes.num_gpus))]
        taken, phase = self.here >= 0, np.asarray(view.jobs.phase)
        self.demand = np.where(taken, self.duty[self.here], 0.0).sum(axis=1)
        self.kept = np.asarray(view.gpus.reserved_for) != NOBODY
        self.kept[list(claimed)] = True
        self.empty = (self.num_jobs == 0) & ~self.kept
        leaving = (taken & ((phase[self.here] == PAUSING) | self.oom_prone[self.here])).any(axis=1)
        self.open = (self.num_jobs > 0) & (self.num_jobs < view.max_share) & ~self.kept & ~leaving
        self.gpus: dict[int, list[int]] = {}
        for gpu, seat in np.argwhere(taken).tolist():
            self.gpus.setdefault(int(self.here[gpu, seat]), []).append(gpu)
        self.crowd = {job: self._worst(gpus) for job, gpus in self.gpus.items()}
        loading_s, held_s = view.jobs.loading_s, view.now - view.jobs.phase_began_s
        types.see(view)
        self.slow, self.typed = types.slow, types.typed
        self.places = [*self.nodes, *types.groups(view, self.empty)]
        self.remaining_s = believed_remaining_s(view, rule) / types.fastest
        self.type_now = {job: float(self.slow[job, self.node[gpus]].max()) for job, gpus in self.gpus.items()}
        self.left_s = self.remaining_s + np.where(phase == QUEUED, loading_s, 0.0)
        self.pace, self.may_span, self.is_across = dict[int, float](), dict[int, bool](), dict[int, bool]()
        self.workers, self.servers = view.jobs.workers_now, view.jobs.servers_now
        for job in self.gpus:
            self._see_pace(view, paces, job)
        self.left_s += np.where(phase == LOADING, loading_s - held_s, 0.0)
        self.left_s = np.where(phase == PAUSING, view.jobs.pause_s - held_s, self.left_s)
        self.anew_s = np.where(phase == QUEUED, self.left_s, self.remaining_s + view.jobs.load_s)
        self.alone = self.oom_prone | (phase == RUNNING)
        self.frees_s = np.where(taken, self.left_s[self.here], 0.0).max(axis=1)
        self.pause_area = (view.jobs.pause_s + view.jobs.load_s) * view.jobs.gpus_now
        self.waiting = max(int((view.jobs.num_gpus[view.queue] > 0).sum()), 1)

    def _see_pace(self, view: "View", paces: Paces, job: int) -> None:
        """Read how fast an active job is in its shape, and on more nodes than it would be on as it asks."""
        self.pace[job] = paces.of(view, job, int(self.workers[job]), int(self.servers[job]))
        self.left_s[job] *= self.pace[job] * self.crowd[job] * self.type_now[job]
        self.may_span[job] = self.across.may_span(view, job, typed=self.typed)
        self.is_across[job] = self.may_span[job] and len(set(self.node[self.gpus[job]].tolist())) > 1
        if self.is_across[job]:
            self.across.watch(view, job, self.pace[job], alone=self.crowd[job] == 1)
            self.left_s[job] *= self.across.slow(job)
            self.pace[job] *= self.across.slow(job)

    def _worst(self, gpus: list[int]) -> float:
        return max(slowdown(self.demand[gpu], self.num_jobs[gpu] - 1) for gpu in gpus)

    def crowding(self, job: int, able: np.ndarray) -> np.ndarray:
        """Return how much slower than at best a job would run on each GPU; infinite where it cannot. able: nodes."""
        demand = self.demand + self.duty[job]
        fits = self.open & (self.room_gib >= self.memory[job]) & (demand <= self.most_busy)
        beside = 1 + CONTENTION * np.maximum(demand - 1, 0) + LOSS_PER_JOB * self.num_jobs
        found = np.where(fits & ~self.alone[job], beside, np.inf)
        found[self.empty] = 1.0
        found[~able[self.node]] = np.inf
        found *= self.slow[job, self.node]
        return found

    def harm_s(self, job: int, offer: Offer) -> float:
        """Return the seconds that jobs on its GPUs lose beside a job while both run."""
        chosen, total = set(offer.gpus), 0.0
        others = [other for gpu in offer.gpus for other in self.here[gpu].tolist() if other >= 0]
        for other in dict.fromkeys(others):
            after = max(
                slowdown(
                    self.demand[gpu] + self.duty[job] * (gpu in chosen),
                    self.num_jobs[gpu] - 1 + (gpu in chosen),
                )
                for gpu in self.gpus[other]
            )
            slower = max(after / self.crowd[other] - 1, 0.0)
            total += slower * min(self.left_s[other], offer.slowdown * self.left_s[job])
        return float(total)

    def openings(
        self, job: int, crowd: np.ndarray, able: set[int], holds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return of each GPU when it has a seat for a job without a pause, which to pause for one, and the slowdown.

        able: the jobs that may be paused; -1 where there is none. holds: nodes on which the job fits.
        """
        opens_s = np.where(np.isfinite(crowd), 0.0, np.inf)
        evicted, after = np.full(len(crowd), NOBODY), np.full(len(crowd), np.inf)
        for gpu in np.flatnonzero(holds[self.node] & ~self.kept & np.isinf(crowd)).tolist():
            others_here = [other for other in self.here[gpu].tolist() if other >= 0]
            if not others_here:
                continue
            opens_s[gpu] = max(self.left_s[other] for other in others_here)
            longest = 0.0
            for other in others_here:
                slow = self._without(job, gpu, other)
                if np.isinf(slow):
                    continue
                opens_s[gpu] = min(opens_s[gpu], self.left_s[other])
                if other in able and self.left_s[other] > longest:
                    longest, evicted[gpu], after[gpu] = self.left_s[other], other, slow
        return opens_s, evicted, after

    def _without(self, job: int, gpu: int, evicted: int) -> float:
        """Return a job's slowdown on a GPU from which another is evicted; infinite if it cannot run there even then."""
        others, by_type = self.num_jobs[gpu] - 1, float(self.slow[job, self.node[gpu]])
        if not others:
            return by_type
        demand = self.demand[gpu] - self.duty[evicted] + self.duty[job]
        room = self.room_gib[gpu] + self.memory[evicted] >= self.memory[job]
        blocked = self.alone[job] or self.oom_prone[self.here[gpu][self.here[gpu] >= 0]].any()
        return (
            slowdown(demand, others) * by_type
            if room and not blocked and demand <= self.most_busy
            else np.inf
        )

    def relief_s(self, job: int) -> float:
        """Return the seconds that the jobs beside a job gain if it leaves them."""
        others = {other for gpu in self.gpus[job] for other in self.here[gpu].tolist() if other >= 0} - {job}
        crowd, left = self.crowd[job], min((self.left_s[other] for other in (*others, job)), default=0.0)
        return float((crowd - 1) / crowd * left) if others else 0.0

    def cores_lacking(self, gpus: tuple[int, ...]) -> np.ndarray:
        """Return how many cores of each node others must give up so that a job has one beside them on each GPU."""
        shared = np.array([gpu for gpu in gpus if self.num_jobs[gpu] > 0], int)
        wanted = np.bincount(self.node[shared], minlength=len(self.nodes)).astype(float)
        return np.where(self.unreserved_cores + ROUNDING < wanted, wanted, 0.0)

    def can_take(self, job: int, gpus: list[int], seats: int) -> bool:
        """Tell whether GPUs that were kept for a job have a seat, and memory, for it now."""
        shared = self.num_jobs[gpus] > 0
        return bool(
            (self.num_jobs[gpus] < seats).all() and (self.room_gib[gpus] >= self.memory[job])[shared].all()
        )


def slowdown(demand: float, others: float) -> float:
    """Return how much slower than alone jobs run on a GPU of which so much is demanded, beside so many others."""
    return float(1 + CONTENTION * max(demand - 1, 0.0) + LOSS_PER_JOB * others) if others > 0 else 1.0
