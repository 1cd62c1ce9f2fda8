"""Slow, plain simulator of rankings on GPU nodes, with which the compiled kernel must agree to the bit.

GPUs are exclusive, their speed is constant; times are seconds, memory is GiB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Gpu = tuple[int, int]  # its node, and its number inside the node
HOLDING = ("running", "pausing", "loading")


class Node(NamedTuple):
    """A machine; each GPU has `gpu_memory_gib`. Cores are unlimited."""

    gpus: int
    gpu_memory_gib: float
    cores: int


class Job(NamedTuple):
    """Constants of a job; `gpu_memory_gib` is its need on each of its GPUs."""

    submit_s: float
    num_gpus: int
    duration_s: float
    estimate_s: float
    gpu_memory_gib: float
    pause_s: float
    load_s: float


class Rules(NamedTuple):
    """A ranking and its parameters; `levels` are limits in GPU-seconds, ascending.

    key: submit, estimate, remaining, remaining_area, level or true_remaining.
    placement: first_fit, best_fit, spread or pooled.
    discipline: greedy, strict or easy.
    """

    key: str
    preempt: bool
    placement: str = "best_fit"
    discipline: str = "greedy"
    memory: bool = True
    preemption: bool = True
    estimates: bool = True
    tick_s: float = 300.0
    levels: tuple[float, ...] = ()


class Bound(NamedTuple):
    """Constraints, by job: the nodes that it may use, and the jobs that must end before it may start."""

    nodes: tuple[frozenset[int], ...]
    waits_for: tuple[frozenset[int], ...]


class Outcome(NamedTuple):
    """Outcome of a job: finish_s - submit_s = wait_s + run_s + overhead_s, except for rounding."""

    start_s: float
    finish_s: float
    wait_s: float
    run_s: float
    overhead_s: float
    preemptions: int


def simulate(
    jobs: Sequence[Job],
    nodes: Sequence[Node],
    rules: Rules,
    begins_s: float = -math.inf,
    bound: Bound | None = None,
) -> list[Outcome]:
    """Run `jobs` (sorted by submit_s) to the last finish; raise ValueError if one could never start.

    begins_s: time before which jobs are served by submission, without preemption; then the rules have their first pass,
        even if nothing else happens.
    bound: constraints of the jobs, if there are any.
    """
    simulation = Simulation(jobs, nodes, rules._replace(key="submit", preempt=False), bound)
    while simulation.left() and simulation.next_instant() < begins_s:
        simulation.now = simulation.next_instant()
        simulation.settle()
        simulation.walk()
    simulation.rules = rules
    if begins_s > -math.inf and simulation.left():
        simulation.now = begins_s
        simulation.settle()
        simulation.walk()
        simulation.assert_no_gpu_is_held_twice()
    while simulation.left():
        simulation.now = simulation.next_instant()
        simulation.settle()
        simulation.walk()
        simulation.assert_no_gpu_is_held_twice()
    return [simulation.outcomes[index] for index in range(len(jobs))]


@dataclass
class Progress:
    """State of a job. A phase began at `since` and ends by itself at `end` (inf: it does not)."""

    index: int
    job: Job
    phase: str = "absent"  # absent, held, queued, running, pausing, loading, done
    since: float = 0.0
    end: float = math.inf
    attained: float = 0.0  # seconds run in earlier running phases
    level: int = 0
    gpus: set[Gpu] = field(default_factory=set)
    start_s: float = math.nan
    wait_s: float = 0.0
    overhead_s: float = 0.0
    preemptions: int = 0

    def enter(self, phase: str, now: float, end: float) -> None:
        """Enter a phase."""
        self.phase, self.since, self.end = phase, now, end


class Simulation:
    """Jobs, nodes and time, and the events of an instant."""

    def __init__(
        self, jobs: Sequence[Job], nodes: Sequence[Node], rules: Rules, bound: Bound | None = None
    ) -> None:
        everywhere = frozenset(range(len(nodes)))
        self.bound = bound or Bound((everywhere,) * len(jobs), (frozenset(),) * len(jobs))
        self.all = [Progress(index, job) for index, job in enumerate(jobs)]
        self.nodes = list(nodes)
        self.rules = rules
        self.now = -math.inf
        self.outcomes: dict[int, Outcome] = {}
        self.every_gpu = {(node, gpu) for node in range(len(nodes)) for gpu in range(nodes[node].gpus)}
        submits = [job.submit_s for job in jobs]
        if submits != sorted(submits) or list(rules.levels) != sorted(rules.levels):
            raise ValueError("jobs must be sorted by submit_s, and levels must rise")
        for p in self.all:
            if p.job.num_gpus < 1 or p.job.duration_s <= 0 or not self.place(p, self.every_gpu):
                raise ValueError(f"job has no GPU, no duration, or does not fit the empty cluster: {p.job}")

    def left(self) -> int:
        """Return the number of jobs that have not finished."""
        return len(self.all) - len(self.outcomes)

    def those(self, *phases: str) -> list[Progress]:
        """Return the jobs in any of these phases, in order of index."""
        return [p for p in self.all if p.phase in phases]

    def gpus_of(self, *phases: str) -> set[Gpu]:
        """Return the GPUs held by jobs in any of these phases."""
        return {gpu for p in self.those(*phases) for gpu in p.gpus}

    def free(self) -> set[Gpu]:
        """Return the GPUs that no job holds."""
        return self.every_gpu - self.gpus_of(*HOLDING)

    def assert_no_gpu_is_held_twice(self) -> None:
        """Assert that GPUs are exclusive, that a job holds all it asked or none, and its constraints."""
        for p in self.those(*HOLDING):
            assert {node for node, _ in p.gpus} <= self.bound.nodes[p.index]
            assert self.bound.waits_for[p.index] <= self.outcomes.keys()
        assert all(len(p.gpus) == (p.job.num_gpus if p.phase in HOLDING else 0) for p in self.all)
        assert len(self.gpus_of(*HOLDING)) == sum(p.job.num_gpus for p in self.those(*HOLDING))

    def estimate(self, p: Progress) -> float:
        """Return the run time that policies see."""
        return p.job.estimate_s if self.rules.estimates else p.job.duration_s

    def key(self, p: Progress) -> tuple[float, int]:
        """Return the sort key of a job, ascending, ties by index."""
        attained = p.attained + (self.now - p.since) if p.phase == "running" else p.attained
        remaining = p.job.duration_s - attained
        if self.rules.estimates:
            remaining = max(p.job.estimate_s - attained, 0.2 * attained, 15.0)
        value = {
            "submit": p.job.submit_s,
            "estimate": self.estimate(p),
            "remaining": remaining,
            "remaining_area": remaining * p.job.num_gpus,
            "level": p.level,
            "true_remaining": p.job.duration_s - attained,
        }[self.rules.key]
        return value, p.index

    def limit_time(self, p: Progress) -> float:
        """Return when a job reaches the limit of its level; inf if it has none or does not run."""
        levels = self.rules.levels
        if self.rules.key != "level" or p.phase != "running" or p.level == len(levels):
            return math.inf
        return p.since + (levels[p.level] / p.job.num_gpus - p.attained)

    def next_instant(self) -> float:
        """Return the time of the next event: an end, an arrival, a level change or a tick."""
        times = [min(p.end, self.limit_time(p)) for p in self.those(*HOLDING)]
        times += [p.job.submit_s for p in self.those("absent")]
        if self.rules.estimates and self.rules.tick_s > 0 and self.those("queued"):
            multiple = int(self.now // self.rules.tick_s) - 1
            while multiple * self.rules.tick_s <= self.now:
                multiple += 1
            times.append(multiple * self.rules.tick_s)
        assert min(times) >= self.now, "time runs back"
        return min(times)

    def settle(self) -> None:
        """End what ends now, let jobs arrive, queue those that wait for no job, and raise levels."""
        for p in self.those(*HOLDING):
            if p.end <= self.now:
                self.end_phase(p)
        for p in self.those("absent"):
            if p.job.submit_s <= self.now:
                p.enter("held", self.now, math.inf)
        for p in self.those("held"):
            if self.bound.waits_for[p.index] <= self.outcomes.keys():
                p.phase = "queued"  # it has waited since its submission
        for p in self.those("running"):
            while self.limit_time(p) <= self.now:
                p.level += 1

    def end_phase(self, p: Progress) -> None:
        """Finish a running job, queue a paused one, run a loaded one."""
        if p.phase == "running":
            run_s = p.job.duration_s
            self.outcomes[p.index] = Outcome(
                p.start_s, self.now, p.wait_s, run_s, p.overhead_s, p.preemptions
            )
            p.gpus = set()
            p.enter("done", self.now, math.inf)
        elif p.phase == "pausing":
            p.overhead_s += self.now - p.since
            self.queue(p)
        else:
            p.overhead_s += self.now - p.since
            self.run(p)

    def queue(self, p: Progress) -> None:
        """Put a job into the queue, holding nothing."""
        p.gpus = set()
        p.enter("queued", self.now, math.inf)

    def run(self, p: Progress) -> None:
        """Let a job that holds its GPUs make progress."""
        p.enter("running", self.now, self.now + (p.job.duration_s - p.attained))

    def start(self, p: Progress, gpus: set[Gpu]) -> None:
        """Give a queued job its GPUs. A first start runs at once, a resumed job loads before."""
        p.wait_s += self.now - p.since
        p.gpus = gpus
        resumed = not math.isnan(p.start_s)
        p.start_s = p.start_s if resumed else self.now
        if resumed and self.rules.preemption and p.job.load_s > 0:
            p.enter("loading", self.now, self.now + p.job.load_s)
        else:
            self.run(p)

    def pause(self, p: Progress) -> None:
        """Stop a running job; it holds its GPUs until the pause is done, at once if that takes no time."""
        p.attained += self.now - p.since
        p.preemptions += 1
        if self.rules.preemption and p.job.pause_s > 0:
            p.enter("pausing", self.now, self.now + p.job.pause_s)
        else:
            self.queue(p)

    def place(self, p: Progress, available: set[Gpu]) -> set[Gpu] | None:
        """Return the GPUs of `available` that the rule gives a job, or None if it does not fit.

        A gang that fits one node is kept on one. A larger one takes entirely available nodes, each time the
        largest that does not exceed what is missing, and one further node by the rule for the rest.
        """
        job = p.job
        need_gib = job.gpu_memory_gib if self.rules.memory else 0.0
        large = [i for i, node in enumerate(self.nodes) if node.gpu_memory_gib >= need_gib]
        holders = [i for i in large if i in self.bound.nodes[p.index]]
        if not holders or job.num_gpus > len(available):
            return None
        if self.rules.placement == "pooled":
            # Which of the GPUs they are means nothing in a pool; the lowest-numbered stand for the count.
            return set(sorted(available)[: job.num_gpus])
        room = {i: sorted(gpu for gpu in available if gpu[0] == i) for i in holders}
        chosen: set[Gpu] = set()
        if job.num_gpus > max(self.nodes[i].gpus for i in holders):
            for node in sorted(holders, key=lambda i: (-self.nodes[i].gpus, i)):
                if len(room[node]) == self.nodes[node].gpus <= job.num_gpus - len(chosen):
                    chosen |= set(room[node])
        missing = job.num_gpus - len(chosen)
        if missing == 0:
            return chosen
        fitting = [i for i in room if len(room[i]) >= missing and not chosen & set(room[i])]
        if not fitting:
            return None
        sign = {"first_fit": 0, "best_fit": 1, "spread": -1}[self.rules.placement]
        node = min(fitting, key=lambda i: (sign * len(room[i]), i))
        return chosen | set(room[node][:missing])

    def walk(self) -> None:
        """Carry out one scheduling pass."""
        if self.rules.preempt and self.rules.placement == "pooled":
            self.walk_preempting_pooled()
        elif self.rules.preempt:
            self.walk_preempting()
        elif self.rules.discipline == "easy":
            while self.start_one_under_easy():
                pass
        else:
            self.walk_queue()

    def walk_queue(self) -> None:
        """Start what fits, in order; under `strict` a job that does not start blocks its nodes to later ones."""
        blocked = set[int]()
        for p in sorted(self.those("queued"), key=self.key):
            gpus = None if blocked & self.bound.nodes[p.index] else self.place(p, self.free())
            if gpus is not None:
                self.start(p, gpus)
            elif self.rules.discipline == "strict":
                blocked |= self.bound.nodes[p.index]

    def start_one_under_easy(self) -> bool:
        """Start the first job that fits and does not delay the head that it is behind; return whether there was one.

        A job that does not fit, and may use no node of an earlier head, is a head.
        """
        heads: list[Progress] = []
        for p in sorted(self.those("queued"), key=self.key):
            gpus, head = self.place(p, self.free()), self.first_before(p, heads)
            if gpus is None:
                heads += [p] if head is None else []
            elif head is None or self.does_not_delay(head, p, gpus):
                self.start(p, gpus)
                return True
        return False

    def first_before(self, p: Progress, heads: Iterable[Progress]) -> Progress | None:
        """Return the first head that may use a node that a job may use, too."""
        nodes = self.bound.nodes
        return next((head for head in heads if nodes[head.index] & nodes[p.index]), None)

    def does_not_delay(self, head: Progress, p: Progress, gpus: set[Gpu]) -> bool:
        """Return whether `p`, run on `gpus`, ends by the head's shadow time or leaves the head enough GPUs then."""
        ends = {r.index: max(self.now, r.since + self.estimate(r)) for r in self.those("running")}
        for shadow in sorted(set(ends.values())):
            free_then = self.free().union(*(self.all[i].gpus for i, end in ends.items() if end <= shadow))
            if self.place(head, free_then) is not None:
                in_time = self.now + self.estimate(p) <= shadow
                return in_time or self.place(head, free_then - gpus) is not None
        raise AssertionError("the head does not fit the empty cluster")

    def walk_preempting(self) -> None:
        """Grant GPUs in order: free ones, else pausing ones too, else any not granted; then pause and start."""
        free, pausing = self.free(), self.gpus_of("pausing")
        granted = self.gpus_of("loading")
        to_pause: list[Progress] = []
        to_start: list[tuple[Progress, set[Gpu]]] = []
        blocked = set[int]()  # nodes, under `strict`
        for p in sorted(self.those("running", "queued"), key=self.key):
            if p.phase == "running":
                gpus = None if p.gpus & granted else p.gpus
                to_pause += [p] if gpus is None else []
            elif blocked & self.bound.nodes[p.index]:
                gpus = None
            else:
                gpus = self.place(p, free - granted)
                gpus = gpus or self.place(p, (free | pausing) - granted)
                gpus = gpus or self.place(p, self.every_gpu - granted)
                to_start += [(p, gpus)] if gpus is not None else []
            if gpus is None and self.rules.discipline == "strict":
                blocked |= self.bound.nodes[p.index]
            granted = granted | (gpus or set())
        for p in to_pause:
            self.pause(p)
        free = self.free()
        for p, gpus in to_start:
            if gpus <= free:
                self.start(p, gpus)

    def walk_preempting_pooled(self) -> None:
        """Do the same with numbers of GPUs, regardless of which jobs would release them."""
        ungranted = len(self.every_gpu) - len(self.gpus_of("loading"))
        to_pause: list[Progress] = []
        to_start: list[Progress] = []
        refused = False
        for p in sorted(self.those("running", "queued"), key=self.key):
            barred = p.phase == "queued" and refused and self.rules.discipline == "strict"
            if not barred and p.job.num_gpus <= ungranted:
                ungranted -= p.job.num_gpus
                to_start += [p] if p.phase == "queued" else []
            else:
                refused = True
                to_pause += [p] if p.phase == "running" else []
        for p in to_pause:
            self.pause(p)
        # They start in order on what is really free now. The first that must wait for a pause has all that is
        # still free set aside for it, so those granted after it wait too.
        for p in to_start:
            gpus = self.place(p, self.free())
            if gpus is None:
                return
            self.start(p, gpus)
