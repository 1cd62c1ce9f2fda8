"""Second account of the effects of actions: one cluster in plain Python sets, moved by the same actions."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpu_cluster_gym.simulator.policy import Action, Preempt, Start, Wait
from tests.accounts.reference import Job, Node


@dataclass
class Fate:
    """State of a job; `end` is when its phase ends by itself."""

    job: Job
    phase: str = "future"  # a name of simulator.kernel.cluster.layout.PHASES
    since: float = 0.0
    end: float = math.inf
    attained: float = 0.0
    started: bool = False
    touched: int = -1  # the instant of its last start or pause
    gpus: set[int] = field(default_factory=set)  # held
    wanted: set[int] = field(default_factory=set)  # reserved


class Shadow:
    """A cluster, its jobs, and the time."""

    def __init__(self, jobs: Iterable[Job], nodes: Iterable[Node], tick_s: float) -> None:
        self.fates = [Fate(job) for job in jobs]
        self.memory = [node.gpu_memory_gib for node in nodes for _ in range(node.gpus)]
        self.tick_s = tick_s
        self.clock = self.fates[0].job.submit_s
        self.wake = math.inf
        self.instant = 0

    def in_phase(self, *phases: str) -> list[int]:
        return [index for index, fate in enumerate(self.fates) if fate.phase in phases]

    def owners(self, kind: str) -> list[int]:
        """Return the job that holds each GPU (`gpus`), or for which it is reserved (`wanted`), or -1."""
        owner = [-1] * len(self.memory)
        for index, fate in enumerate(self.fates):
            for gpu in getattr(fate, kind):
                assert owner[gpu] == -1, "a GPU has two owners"
                owner[gpu] = index
        return owner

    def usable(self, index: int, *, claim: bool = False) -> list[int]:
        """Return the GPUs, free, being freed, or with a claim held by any job, on which a job may be started."""
        holder, heir = self.owners("gpus"), self.owners("wanted")
        going = {-1, *self.in_phase("pausing")} | set(range(len(self.fates)) if claim else ())
        need = self.fates[index].job.gpu_memory_gib
        gpus = range(len(self.memory))
        return [g for g in gpus if holder[g] in going and heir[g] == -1 and self.memory[g] >= need]

    def is_legal(self, action: Action) -> bool:
        """Return whether an action is legal now."""
        match action:
            case Start(index, placement, claim):
                if index not in self.in_phase("queued") or self.fates[index].touched == self.instant:
                    return False
                asked = set(placement.gpus)
                whole = len(placement.gpus) == len(asked) == self.fates[index].job.num_gpus
                return whole and asked <= set(self.usable(index, claim=claim))
            case Preempt(index):
                return index in self.in_phase("running") and self.fates[index].touched != self.instant
            case Wait(seconds):
                idle = not self.in_phase("future", "running", "pausing", "loading")
                able = any(self.fates[index].touched != self.instant for index in self.in_phase("queued"))
                return (seconds is None or seconds > 0) and not (idle and able)
            case _:
                return False

    def apply(self, action: Action) -> None:
        """Carry out a legal action."""
        match action:
            case Start(index, placement):
                fate = self.fates[index]
                fate.phase, fate.since, fate.wanted = "reserved", self.clock, set(placement.gpus)
                self.begin_if_free(fate)
            case Preempt(index):
                fate = self.fates[index]
                fate.attained += self.clock - fate.since
                fate.touched = self.instant
                fate.phase, fate.since, fate.end = "pausing", self.clock, self.clock + fate.job.pause_s
                self.settle()
            case Wait(seconds):
                idle = not self.in_phase("future", "running", "pausing", "loading")
                self.wake = self.clock + (seconds or (0.0 if idle and self.in_phase("queued") else math.inf))

    def begin_if_free(self, fate: Fate) -> None:
        """Let a job hold its reserved GPUs, if no other job does."""
        if any(fate.wanted & other.gpus for other in self.fates):
            return
        fate.gpus, fate.wanted, fate.touched = fate.wanted, set(), self.instant
        load_s = fate.job.load_s if fate.started else 0.0
        fate.started = True
        fate.phase, fate.since, fate.end = "loading", self.clock, self.clock + load_s
        self.settle()

    def advance(self) -> bool:
        """Advance to the next instant; return whether there was one."""
        times = [self.wake, *(fate.end for fate in self.fates)]
        times += [fate.job.submit_s for fate in self.fates if fate.phase == "future"]
        if self.in_phase("queued"):
            times.append((self.clock // self.tick_s + 1) * self.tick_s)
        if min(times) == math.inf:
            return False
        self.clock, self.wake, self.instant = min(times), math.inf, self.instant + 1
        self.settle()
        for index in self.in_phase("future"):
            if self.fates[index].job.submit_s <= self.clock:
                self.fates[index].phase = "queued"
        return True

    def settle(self) -> None:
        """End every phase that is due, and start the jobs that waited for its GPUs."""
        for fate in self.fates:
            if fate.end > self.clock:
                continue
            if fate.phase == "loading":
                fate.phase, fate.since = "running", self.clock
                fate.end = self.clock + (fate.job.duration_s - fate.attained)
                continue
            fate.phase = "done" if fate.phase == "running" else "queued"
            fate.gpus, fate.end, fate.since = set(), math.inf, self.clock
            for other in self.fates:
                if other.phase == "reserved":
                    self.begin_if_free(other)
