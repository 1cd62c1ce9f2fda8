"""An episode and its plain account, moved together and compared at every instant and after every action."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_cluster_gym.simulator.episode import asking
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import PHASES
from gpu_cluster_gym.simulator.policy import Action, Policy, Wait
from gpu_cluster_gym.workloads import Workload
from tests.accounts.fluid import ROUNDING, Fluid
from tests.accounts.legality import is_legal
from tests.accounts.lives import CLOSED, DRAINING, HOLDING, Life, shape_of

Columns = dict[str, tuple[Sequence[Any], Sequence[Any]]]  # what the episode says, and what the account says

BANKED = (  # the account's book, the episode's column, and the phases in which it is not up to date
    ("wait", "wait_s", ("queued", "held", "reserved", "restarting")),
    ("overhead", "overhead_s", ("loading", "pausing")),
    ("busy", "busy_gpu_s", HOLDING),
    ("shared", "shared_s", HOLDING),
    ("shared area", "shared_gpu_s", HOLDING),
    ("run area", "run_gpu_s", HOLDING),
    ("overhead area", "overhead_gpu_s", HOLDING),
    ("lost area", "lost_gpu_s", HOLDING),
)
HELD = ("reserved", *HOLDING)  # has GPUs, or will have


def of_those(jobs: list[int], seen: np.ndarray, expected: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return two columns restricted to these jobs."""
    values = seen.tolist()
    one: list[Any] = [None] * len(expected)
    other = one.copy()
    for job in jobs:
        one[job], other[job] = values[job], expected[job]
    return one, other


class Twins:
    """An episode and its account; `differences` are the first that were found.

    made: number of legal and illegal actions of each kind.
    crowd: maximum number of jobs seen on one GPU.
    held_s, doubled_s, idle_s: GPU-seconds of all jobs, of jobs next to an older one, and of no job.
    """

    def __init__(self, work: Workload, levels: tuple[float, ...] = ()) -> None:
        self.work, self.episode, self.fluid = work, work.episode(), Fluid(work, levels)
        self.episode.set_levels(levels)
        self.differences: list[str] = []
        self.made: Counter[tuple[type, bool]] = Counter()
        self.held_s = self.doubled_s = self.idle_s = 0.0
        self.crowd = 0

    def play(self, policy: Policy) -> list[str]:
        """Let a policy act to the end, or until the accounts differ; return the result."""
        while not self.episode.done and self.advance():
            action: Action | None = None
            while not self.differences and not isinstance(action, Wait):
                self.apply(action := asking(policy, self.episode)())
        return self.differences

    def advance(self) -> bool:
        """Advance to the next instant; return whether there was one and the accounts agree."""
        residents, clock = self.episode.view.gpus.num_jobs.copy(), self.episode.view.now
        self.fluid.outages.fails = self.episode.state.fail_at[: self.fluid.cluster.num_nodes].tolist()
        if not self.step():
            self.differences.append("nothing is pending")
            return False
        seconds = self.episode.view.now - clock
        self.held_s += seconds * residents.sum()
        self.doubled_s += seconds * np.maximum(residents - 1, 0).sum()
        self.idle_s += seconds * np.count_nonzero(residents == 0)
        self.crowd = max(self.crowd, int(residents.max()))
        self.fluid.fated = self.episode.state.oom_restarts.tolist()
        self.fluid.outages.repaired = self.episode.state.until[: self.fluid.cluster.num_nodes].tolist()
        self.differences += self.fluid.advance(float(self.episode.state.clock))
        self.fluid.instant = int(self.episode.state.instant)
        self.compare()
        return not self.differences

    def step(self) -> bool:
        """Advance the episode to its next instant, and past instants separated from it only by rounding."""
        states, jobs = self.episode.states, self.episode.jobs
        moved = self.episode.advance()
        states[1] = states[0]
        while calls.advance(states, 1, jobs) and states["clock"][1] - states["clock"][0] < 1e-9:
            states[0] = states[1]
        return moved

    def legal(self, action: Action) -> bool:
        """Return whether an action is legal in the episode; record a disagreement with the account."""
        reason = self.episode.why_not(action)
        self.made[type(action), reason is None] += 1
        if (reason is None) != is_legal(self.fluid, action):
            self.differences.append(
                f"at {self.fluid.clock!r}: {action}: {reason or 'legal'}, expected the contrary"
            )
        return reason is None

    def apply(self, action: Action) -> None:
        """Carry out a legal action on both."""
        self.episode.apply(action)
        self.fluid.fated = self.episode.state.oom_restarts.tolist()
        self.fluid.apply(action)
        if not isinstance(action, Wait):  # to wait changes nothing before the next instant, which is compared
            self.compare()

    def compare(self) -> None:
        """Record where the accounts differ, the first time that they do."""
        if self.differences:
            return
        if legality.check(self.episode.states, 0, self.episode.jobs):
            self.differences.append(f"at {self.fluid.clock!r}: the core's own laws are broken")
        for name, (seen, expected) in (self.of_jobs() | self.of_machines()).items():
            if seen == expected:
                continue
            for index, (one, other) in enumerate(zip(seen, expected, strict=True)):
                if one != other and not (isinstance(other, float | int) and abs(one - other) <= ROUNDING):
                    where = f"at {self.fluid.clock!r}: {name} of {index}"
                    self.differences.append(f"{where} is {one!r}, expected {other!r}")

    def of_jobs(self) -> Columns:
        """Return the compared quantities of each job."""
        state, seen, lives = self.episode.state, self.episode.view.jobs, self.fluid.lives
        here = lives[: len(seen.phase)]
        columns: Columns = {
            "phase": (
                [PHASES[phase] for phase in state.phase[: len(lives)].tolist()],
                [life.phase for life in lives],
            ),
            "progress": (seen.attained_s.tolist(), [life.progress for life in here]),
            "run": (seen.ran_s.tolist(), [life.spent["run"] for life in here]),
            "lost": (state.lost_s[: len(lives)].tolist(), [life.spent["lost"] for life in lives]),
            "service": (seen.gpu_seconds.tolist(), [life.service for life in here]),
            "core": (seen.core_seconds.tolist(), [life.spent["core"] for life in here]),
            "restarts": (seen.oom_restarts.tolist(), [life.ooms for life in here]),
            "failures": (seen.failures.tolist(), [life.failures for life in here]),
            "preemptions": (seen.preemptions.tolist(), [life.preemptions for life in here]),
            "resizes": (seen.resizes.tolist(), [life.resizes for life in here]),
            "cores": (seen.cores_now.tolist(), [life.cores for life in here]),
            "level": (state.level[: len(lives)].tolist(), [life.rank for life in lives]),
            "throttle": (seen.throttle.tolist(), [life.level for life in here]),
            "node": (seen.node.tolist(), [life.node for life in here]),
        }
        waits = [job for job, life in enumerate(here) if life.phase in ("queued", "restarting")]
        columns["must load"] = of_those(waits, seen.must_load, [life.saved for life in here])
        for book, column, open_in in BANKED:
            closed = [job for job, life in enumerate(lives) if life.phase not in open_in]
            columns[book] = of_those(
                closed, state[column][: len(lives)], [life.spent[book] for life in lives]
            )
        return columns | self.of_shapes(here) | self.of_estimates(here)

    def of_shapes(self, here: list[Life]) -> Columns:
        """Return the compared current, future and requested shapes of jobs."""
        seen = self.episode.view.jobs
        shapes = [shape_of(life.task, life.wanted) if life.wanted else life.shape for life in here]
        shown = [job for job, life in enumerate(here) if life.phase != "done"]
        held = [shape.gpus if life.phase in HELD else 0 for shape, life in zip(shapes, here, strict=True)]
        return {
            "workers": of_those(shown, seen.workers_now, [shape.workers for shape in shapes]),
            "servers": of_those(shown, seen.servers_now, [shape.servers for shape in shapes]),
            "GPUs": (seen.gpus_now.tolist(), held),
        }

    def of_estimates(self, here: list[Life]) -> Columns:
        """Return the compared run times."""
        seen = self.episode.view.jobs
        estimates_s = [life.task.estimates_s[int(life.predictable)] for life in here]
        exact = "estimates" not in self.work.scenario.parts
        rest = [
            estimate_s - life.progress
            if exact
            else max(estimate_s - life.progress, 0.2 * life.progress, 15.0)
            for estimate_s, life in zip(estimates_s, here, strict=True)
        ]
        shown = [job for job, life in enumerate(here) if life.phase != "done"]
        return {
            "predictable": (seen.is_predictable.tolist(), [life.predictable for life in here]),
            "estimate": (seen.estimate_s.tolist(), estimates_s),
            "remaining": of_those(shown, seen.remaining_s, rest),
        }

    def of_machines(self) -> Columns:
        """Return the compared quantities of GPUs and nodes."""
        ground, outages = self.fluid.ground, self.fluid.outages
        seen, nodes_seen = self.episode.view.gpus, self.episode.view.nodes
        gpus, nodes = range(len(ground.node_of)), range(ground.cluster.num_nodes)
        here = [ground.residents(gpu) for gpu in gpus]
        closed = [ground.closed[node] > 0 for node in ground.node_of]
        down_at = [
            until if state == DRAINING else np.inf
            for until, state in zip(outages.until, ground.closed, strict=True)
        ]
        return {
            "residents": (
                [sorted(seats[seats >= 0].tolist()) for seats in seen.jobs],
                [sorted(jobs) for jobs in here],
            ),
            "holder": (seen.first_owner.tolist(), [jobs[0] if jobs else -1 for jobs in here]),
            "heir": (
                seen.reserved_for.tolist(),
                [CLOSED if closed[gpu] else (ground.heirs(gpu) or [-1])[0] for gpu in gpus],
            ),
            "memory": (seen.free_memory_gib.tolist(), [ground.memory(gpu) for gpu in gpus]),
            "free cores": (nodes_seen.free_cores.tolist(), [ground.free_cores(node) for node in nodes]),
            "spare cores": (
                nodes_seen.unreserved_cores.tolist(),
                [ground.spare_cores(node) for node in nodes],
            ),
            "closed": (nodes_seen.closed.tolist(), ground.closed),
            "down at": (nodes_seen.down_at_s.tolist(), down_at),
        }
