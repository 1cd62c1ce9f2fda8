"""An episode and a plain account of it, moved together and compared at every instant and after every action."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from envs.kernel import calls, laws
from envs.kernel.layout import PHASES
from envs.policy import Action, Policy, Wait
from envs.workload import Workload
from tests.fluid import HOLDING, ROUNDING, Fluid
from tests.legality import is_legal

Columns = dict[str, tuple[Sequence[Any], Sequence[Any]]]  # what the episode says, and what the account says

BANKED = (  # the account's book, the episode's column, and the phases in which it is not up to date
    ("wait", "wait", ("queued", "reserved", "restarting")),
    ("overhead", "overhead", ("loading", "pausing")),
    ("busy", "busy_early", HOLDING),
    ("shared", "shared", HOLDING),
    ("core", "core_seconds", HOLDING),
)


class Twins:
    """The two; `differences` are the first that were found.

    made: how often each kind of action was legal, and was not. crowd: the most jobs seen on one GPU.
    held_s, doubled_s, idle_s: GPU-seconds of all jobs, of those beside an older one, and of nobody.
    """

    def __init__(self, work: Workload, levels: tuple[float, ...] = ()) -> None:
        self.work, self.episode, self.fluid = work, work.episode(), Fluid(work, levels)
        self.episode.set_levels(levels)
        self.differences: list[str] = []
        self.made: Counter[tuple[type, bool]] = Counter()
        self.held_s = self.doubled_s = self.idle_s = 0.0
        self.crowd = 0

    def play(self, policy: Policy) -> list[str]:
        """Let a policy act to the end, or until the accounts differ; return how."""
        while not self.episode.done and self.advance():
            action: Action | None = None
            while not self.differences and not isinstance(action, Wait):
                self.apply(action := policy(self.episode.view))
        return self.differences

    def advance(self) -> bool:
        """Move to the next instant; tell whether there was one and all agrees."""
        residents, clock = self.episode.view.num_residents.copy(), self.episode.view.now
        if not self.step():
            self.differences.append("nothing is pending")
            return False
        seconds = self.episode.view.now - clock
        self.held_s += seconds * residents.sum()
        self.doubled_s += seconds * np.maximum(residents - 1, 0).sum()
        self.idle_s += seconds * np.count_nonzero(residents == 0)
        self.crowd = max(self.crowd, int(residents.max()))
        self.fluid.fated = self.episode.state.ooms.tolist()
        self.differences += self.fluid.advance(float(self.episode.state.clock))
        self.fluid.instant = int(self.episode.state.instant)
        self.compare()
        return not self.differences

    def step(self) -> bool:
        """Move the episode to its next instant, and on through those that only rounding keeps apart from it."""
        states, jobs = self.episode.states, self.episode.jobs
        moved = self.episode.advance()
        states[1] = states[0]
        while calls.advance(states, 1, jobs) and states[1].clock - states[0].clock < 1e-9:
            states[0] = states[1]
        return moved

    def legal(self, action: Action) -> bool:
        """Tell whether an action is legal in the episode; note it if it should not be, or should."""
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
        self.fluid.fated = self.episode.state.ooms.tolist()
        self.fluid.apply(action)
        self.compare()

    def compare(self) -> None:
        """Note where the accounts differ, the first time that they do."""
        if self.differences:
            return
        if laws.check(self.episode.states, 0, self.episode.jobs):
            self.differences.append(f"at {self.fluid.clock!r}: the core's own laws are broken")
        for name, (seen, expected) in (self.of_jobs() | self.of_machines()).items():
            for index, (one, other) in enumerate(zip(seen, expected, strict=True)):
                close = isinstance(other, float | int) and abs(one - other) <= ROUNDING
                if one != other and not close:
                    where = f"at {self.fluid.clock!r}: {name} of {index}"
                    self.differences.append(f"{where} is {one!r}, expected {other!r}")

    def of_jobs(self) -> Columns:
        """Return what is said of each job."""
        state, view, lives = self.episode.state, self.episode.view, self.fluid.lives
        here = lives[: len(view.phase)]
        columns: Columns = {
            "phase": ([PHASES[phase] for phase in state.phase[: len(lives)]], [life.phase for life in lives]),
            "progress": (view.attained_s.tolist(), [life.progress for life in here]),
            "run": (view.ran_s.tolist(), [life.spent["run"] for life in here]),
            "lost": (state.lost[: len(lives)].tolist(), [life.spent["lost"] for life in lives]),
            "restarts": (view.oom_restarts.tolist(), [life.ooms for life in here]),
            "preemptions": (view.preemptions.tolist(), [life.preemptions for life in here]),
            "cores": (view.cores_now.tolist(), [life.cores for life in here]),
            "level": (state.level[: len(lives)].tolist(), [life.rank for life in lives]),
            "throttle": (view.throttle.tolist(), [life.level for life in here]),
            "node": (view.node_of.tolist(), [life.node for life in here]),
        }
        for book, column, open_in in BANKED:
            closed = [job for job, life in enumerate(lives) if life.phase not in open_in]
            columns[book] = (state[column][closed].tolist(), [lives[job].spent[book] for job in closed])
        return columns

    def of_machines(self) -> Columns:
        """Return what is said of GPUs and nodes."""
        view, fluid = self.episode.view, self.fluid
        gpus, nodes = range(len(fluid.node_of)), range(fluid.cluster.num_nodes)
        here = [fluid.residents(gpu) for gpu in gpus]
        return {
            "residents": (
                [sorted(seats[seats >= 0].tolist()) for seats in view.residents],
                [sorted(jobs) for jobs in here],
            ),
            "holder": (view.holder.tolist(), [jobs[0] if jobs else -1 for jobs in here]),
            "heir": (view.heir.tolist(), [(fluid.heirs(gpu) or [-1])[0] for gpu in gpus]),
            "memory": (view.free_memory_gib.tolist(), [fluid.memory(gpu) for gpu in gpus]),
            "free cores": (view.free_cores.tolist(), [fluid.free_cores(node) for node in nodes]),
            "spare cores": (view.spare_cores.tolist(), [fluid.spare_cores(node) for node in nodes]),
        }
