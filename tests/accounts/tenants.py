"""Slow, plain simulator of rankings with tenants, by the rules of docs/rules.md, on top of `reference.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.accounts.reference import HOLDING, Bound, Gpu, Job, Node, Outcome, Progress, Rules, Simulation


class Quotas(NamedTuple):
    """Tenant of each job, guaranteed GPUs of each tenant, and what they may borrow: none, idle or reclaim."""

    tenant: tuple[int, ...]
    gpus: tuple[int, ...]
    borrowing: str = "none"


def simulate(
    jobs: Sequence[Job],
    nodes: Sequence[Node],
    rules: Rules,
    quotas: Quotas,
    bound: Bound | None = None,
) -> list[Outcome]:
    """Run `jobs` to the last finish, as `reference.simulate` does."""
    simulation = TenantSimulation(jobs, nodes, rules, quotas, bound)
    while len(simulation.outcomes) < len(jobs):
        simulation.now = simulation.next_instant()
        simulation.settle()
        simulation.walk()
        simulation.assert_no_gpu_is_held_twice()
        simulation.assert_quotas_are_kept()
    return [simulation.outcomes[index] for index in range(len(jobs))]


class TenantSimulation(Simulation):
    """A simulation in which tenants have quotas."""

    def __init__(
        self,
        jobs: Sequence[Job],
        nodes: Sequence[Node],
        rules: Rules,
        quotas: Quotas,
        bound: Bound | None = None,
    ) -> None:
        super().__init__(jobs, nodes, rules, bound)
        self.quotas = quotas
        self.paused_at: dict[int, float] = {}
        self.started_at: dict[int, float] = {}
        self.serial: dict[int, int] = {}  # of the last start of each job
        self.starts = 0
        self.evicted: set[int] = set()  # paused by reclaim, and may not borrow yet
        self.reclaimed: set[int] = set()  # ever paused by it
        self.idle = False  # whether the last instant left jobs queued and none active

    def next_instant(self) -> float:
        """Return the time of the next event: if there is none, the present once more where claims now are void."""
        was_idle = self.idle
        borrows = self.quotas.borrowing != "none"
        self.idle = borrows and bool(self.those("queued")) and not self.those(*HOLDING)
        ticks = self.rules.estimates and self.rules.tick_s > 0
        once_more = self.idle and not was_idle and not self.those("absent") and not ticks
        return self.now if once_more else super().next_instant()

    # What tenants hold and claim.

    def tenant(self, p: Progress) -> int:
        """Return a job's tenant."""
        return self.quotas.tenant[p.index]

    def of(self, tenant: int, *phases: str) -> list[Progress]:
        """Return a tenant's jobs in these phases."""
        return [p for p in self.those(*phases) if self.tenant(p) == tenant]

    def held(self, tenant: int, *phases: str) -> int:
        """Return the GPUs of a tenant's jobs in these phases."""
        return sum(len(p.gpus) for p in self.of(tenant, *phases))

    def rest(self, tenant: int) -> int:
        """Return the guaranteed GPUs that a tenant does not hold."""
        return max(self.quotas.gpus[tenant] - self.held(tenant, *HOLDING), 0)

    def claiming(self, tenant: int) -> list[Progress]:
        """Return the queued jobs of all other tenants that alone fit into the rest of their tenant's quota."""
        others = [p for p in self.those("queued") if self.tenant(p) != tenant]
        return [p for p in others if p.job.num_gpus <= self.rest(self.tenant(p))]

    def claims_of_others(self, tenant: int, nodes: frozenset[int] | None = None) -> int:
        """Return the GPUs that all other tenants claim, each up to its rest; with nodes, of jobs that may use any."""
        claimed = [0] * len(self.quotas.gpus)
        for p in self.claiming(tenant):
            if nodes is None or self.bound.nodes[p.index] & nodes:
                claimed[self.tenant(p)] += p.job.num_gpus
        return sum(min(gpus, self.rest(other)) for other, gpus in enumerate(claimed))

    def may_borrow(self, p: Progress) -> bool:
        """Return whether enough free GPUs are unclaimed on the nodes of a job, and on those of each claim on these.

        A job that reclaim has paused may not.
        """
        own = self.bound.nodes[p.index]
        if self.idle:  # claims are void
            return sum(node in own for node, _ in self.free()) >= p.job.num_gpus
        if p.index in self.evicted:
            return False
        claims = {self.bound.nodes[q.index] for q in self.claiming(self.tenant(p))}
        for nodes in {own, *(nodes for nodes in claims if nodes & own)}:
            free = sum(node in nodes for node, _ in self.free())
            if free - self.claims_of_others(self.tenant(p), nodes) < p.job.num_gpus:
                return False
        return True

    def may_take(self, p: Progress) -> bool:
        """Return whether a job's tenant may hold the GPUs of this job too."""
        tenant, wanted = self.tenant(p), p.job.num_gpus
        if self.held(tenant, *HOLDING) + wanted <= self.quotas.gpus[tenant]:
            return True
        return self.quotas.borrowing != "none" and self.may_borrow(p)

    def assert_quotas_are_kept(self) -> None:
        """Assert that without borrowing no tenant holds more than its quota."""
        for tenant, quota in enumerate(self.quotas.gpus):
            assert self.quotas.borrowing != "none" or self.held(tenant, *HOLDING) <= quota

    # Starts.

    def pause(self, p: Progress) -> None:
        """Pause a job, which does not start again at this instant."""
        self.paused_at[p.index] = self.now
        super().pause(p)

    def start(self, p: Progress, gpus: set[Gpu]) -> None:
        """Start a job, which is not paused at this instant."""
        self.started_at[p.index] = self.now
        self.starts += 1
        self.serial[p.index] = self.starts
        self.evicted.discard(p.index)
        super().start(p, gpus)

    def was_paused_now(self, p: Progress) -> bool:
        """Return whether a job was paused at this instant."""
        return self.paused_at.get(p.index) == self.now

    def found(self, p: Progress) -> set[Gpu] | None:
        """Return the free GPUs on which a job starts now, or None."""
        if self.was_paused_now(p) or not self.may_take(p):
            return None
        return self.place(p, self.free())

    def in_order(self, jobs: Iterable[Progress]) -> list[Progress]:
        """Return jobs in the order of the ranking."""
        return sorted(jobs, key=self.key)

    def request_class(self, p: Progress) -> tuple[object, ...]:
        """Return what jobs have in common that are refused together: GPUs, nodes that hold them, tenant."""
        holds = tuple(
            (node.gpu_memory_gib >= p.job.gpu_memory_gib or not self.rules.memory)
            and number in self.bound.nodes[p.index]
            for number, node in enumerate(self.nodes)
        )
        return p.job.num_gpus, holds, self.tenant(p)

    def walk(self) -> None:
        """Carry out one scheduling pass."""
        if self.quotas.borrowing == "reclaim":
            self.let_return()
            self.reclaim()
        if self.rules.preempt:
            self.walk_preempting()
        elif self.rules.discipline == "easy":
            self.walk_easy()
        else:
            self.walk_queue()

    def walk_queue(self) -> None:
        """Start what may start and fits, in order; under `strict` a job that does not blocks its nodes."""
        refused: set[tuple[object, ...]] = set()
        blocked: dict[int, set[int]] = defaultdict(set)
        for p in self.in_order(self.those("queued")):
            nodes = self.bound.nodes[p.index]
            if self.request_class(p) in refused:
                continue
            gpus = None if blocked[self.tenant(p)] & nodes else self.found(p)
            if gpus is None:
                refused.add(self.request_class(p))
                if self.rules.discipline == "strict":
                    blocked[self.tenant(p)] |= nodes
            else:
                self.start(p, gpus)

    def start_up_to_heads(self) -> list[Progress]:
        """Start in order, of each tenant up to its head, the first that does not start; return the heads in order."""
        heads: dict[int, Progress] = {}
        for p in self.in_order(self.those("queued")):
            if self.tenant(p) in heads:
                continue
            gpus = self.found(p)
            if gpus is None:
                heads[self.tenant(p)] = p
            else:
                self.start(p, gpus)
        return self.in_order(heads.values())

    # EASY, for each tenant alone.

    def walk_easy(self) -> None:
        """Start jobs up to the heads, then backfill each tenant's queue behind its own head."""
        for head in self.start_up_to_heads():
            while self.backfill(self.tenant(head)):
                pass

    def backfill(self, tenant: int) -> bool:
        """Start the first job of a tenant that does not delay the head before it; return whether there was one."""
        heads: list[Progress] = []
        for p in self.in_order(self.of(tenant, "queued")):
            gpus, head = self.found(p), self.first_before(p, heads)
            if gpus is None:
                heads += [p] if head is None else []
            elif head is None or self.does_not_delay(head, p, gpus):
                self.start(p, gpus)
                return True
        return False

    def projected_end(self, p: Progress) -> float:
        """Return when a job frees its GPUs by its estimate: what is left of it counts from when the job runs."""
        if p.phase == "pausing":
            return p.end
        begins = p.since if p.phase == "running" else p.end
        return begins + self.estimate(p) - p.attained

    def does_not_delay(self, head: Progress, p: Progress, gpus: set[Gpu]) -> bool:
        """Return whether `p` on `gpus` ends by the head's shadow time, or leaves it GPUs and quota then."""
        tenant = self.tenant(head)
        binds, quota = self.quotas.borrowing == "none", self.quotas.gpus[tenant]
        ends = {r.index: max(self.now, self.projected_end(r)) for r in self.those(*HOLDING)}
        for shadow in sorted(set(ends.values())):
            gone = [self.all[i] for i, end in ends.items() if end <= shadow]
            free_then = self.free().union(*(r.gpus for r in gone))
            held_then = self.held(tenant, *HOLDING) - sum(
                len(r.gpus) for r in gone if self.tenant(r) == tenant
            )
            has_quota = not binds or held_then + head.job.num_gpus <= quota
            if has_quota and self.place(head, free_then) is not None:
                has_quota = not binds or held_then + head.job.num_gpus + p.job.num_gpus <= quota
                spare = has_quota and self.place(head, free_then - gpus) is not None
                return spare or self.now + self.estimate(p) <= shadow
        return True  # others claim what the head would borrow

    # Preemption, by each tenant among its own jobs.

    def limit(self, tenant: int) -> int:
        """Return the most GPUs that a pass may grant a tenant: its quota, or all it holds if nobody claims any."""
        kept, quota = self.held(tenant, "running", "loading"), self.quotas.gpus[tenant]
        borrows = self.quotas.borrowing != "none" and kept > quota
        return kept if borrows and self.claims_of_others(tenant) == 0 else quota

    def walk_preempting(self) -> None:
        """Start jobs up to the heads; grant GPUs tenant by tenant; pause and start; then start what may borrow."""
        heads = self.start_up_to_heads()
        limits = [self.limit(tenant) for tenant in range(len(self.quotas.gpus))]
        granted = self.gpus_of("loading")
        to_pause: list[Progress] = []
        to_start: list[tuple[Progress, set[Gpu]]] = []
        for tenant in map(self.tenant, heads):
            granted = self.grant(tenant, limits[tenant], granted, to_pause, to_start)
        for p in to_pause:
            self.pause(p)
        for p, gpus in to_start:
            if gpus <= self.free() and self.may_take(p):
                self.start(p, gpus)
        if self.quotas.borrowing != "none":
            self.walk_queue()

    def grant(
        self,
        tenant: int,
        limit: int,
        granted: set[Gpu],
        to_pause: list[Progress],
        to_start: list[tuple[Progress, set[Gpu]]],
    ) -> set[Gpu]:
        """Grant GPUs to a tenant's queued and running jobs, in order, and list what to do; return all granted GPUs."""
        fresh = [p for p in self.of(tenant, "running") if self.started_at[p.index] == self.now]
        count = self.held(tenant, "loading") + sum(len(p.gpus) for p in fresh)
        old = [p for p in self.of(tenant, "running") if p not in fresh]
        blocked = set[int]()  # nodes, under `strict`
        classes = set[tuple[object, ...]]()  # of refused jobs: equal ones are refused with them
        for p in self.in_order(old + self.of(tenant, "queued")):
            if p.phase == "running":
                within = self.quotas.borrowing != "none" or count + p.job.num_gpus <= limit
                gpus = p.gpus if within and not p.gpus & granted else None
                to_pause += [p] if gpus is None else []
            elif (
                self.was_paused_now(p)
                or count + p.job.num_gpus > limit
                or blocked & self.bound.nodes[p.index]
            ):
                gpus = None
                classes.add(self.request_class(p))
            elif self.request_class(p) in classes:
                gpus = None
            else:
                free, pausing = self.free(), self.gpus_of("pausing")
                own = {gpu for each in old for gpu in each.gpus}
                gpus = self.place(p, free - granted)
                gpus = gpus or self.place(p, (free | pausing) - granted)
                gpus = gpus or self.place(p, (free | pausing | own) - granted)
                to_start += [(p, gpus)] if gpus is not None else []
                classes |= {self.request_class(p)} if gpus is None else set()
            if gpus is None and self.rules.discipline == "strict":
                blocked |= self.bound.nodes[p.index]
            count += len(gpus or ())
            granted = granted | (gpus or set())
        return granted

    # Reclaim.

    def reclaim(self) -> None:
        """Pause borrowers' jobs, the last started first, for queued jobs within their quotas, by submission."""
        available = self.free() | self.gpus_of("pausing")
        tenants = range(len(self.quotas.gpus))
        rest = [self.rest(tenant) for tenant in tenants]
        kept = [self.held(tenant, "running", "loading") for tenant in tenants]
        refused: set[tuple[object, ...]] = set()
        victims: list[Progress] = []
        for p in self.those("queued"):
            if self.was_paused_now(p) or p.job.num_gpus > rest[self.tenant(p)]:
                continue
            if self.request_class(p) in refused:
                continue
            found = self.victims_for(p, available, kept, victims)
            if found is None:
                refused.add(self.request_class(p))
                continue
            for victim in found:
                kept[self.tenant(victim)] -= len(victim.gpus)
                available = available | victim.gpus
            victims += found
            rest[self.tenant(p)] -= p.job.num_gpus
            chosen = self.place(p, available)
            assert chosen is not None
            available = available - chosen
        for victim in victims:
            self.evicted.add(victim.index)
            self.reclaimed.add(victim.index)
            self.pause(victim)

    def let_return(self) -> None:
        """Let jobs that reclaim has paused borrow again if no other tenant claims any of their nodes."""
        for p in self.those("queued"):
            claims = [q for q in self.claiming(self.tenant(p)) if q.job.num_gpus > 0]
            if not any(self.bound.nodes[q.index] & self.bound.nodes[p.index] for q in claims):
                self.evicted.discard(p.index)

    def is_spared(self, p: Progress) -> bool:
        """Return whether reclaim, which has paused a job before, spares it: it has run for less than five minutes."""
        return p.index in self.reclaimed and self.now - p.since < 300

    def victims_for(
        self, p: Progress, available: set[Gpu], kept: list[int], gone: list[Progress]
    ) -> list[Progress] | None:
        """Return whom to pause so that a job finds a place on available GPUs and theirs; None if it finds none."""
        left, found = list(kept), list[Progress]()
        others = [each for each in self.those("running") if each not in gone and not self.is_spared(each)]
        for victim in sorted(others, key=lambda each: -self.serial[each.index]):
            if self.place(p, self.with_those(available, found)) is not None:
                break
            if left[self.tenant(victim)] > self.quotas.gpus[self.tenant(victim)]:
                left[self.tenant(victim)] -= len(victim.gpus)
                found.append(victim)
        if self.place(p, self.with_those(available, found)) is None:
            return None
        for victim in found[::-1]:
            spared = [each for each in found if each is not victim]
            if self.place(p, self.with_those(available, spared)) is not None:
                found = spared
        return found

    def with_those(self, available: set[Gpu], jobs: list[Progress]) -> set[Gpu]:
        """Return the available GPUs and those of some jobs."""
        return available.union(*(each.gpus for each in jobs))
