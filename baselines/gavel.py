"""Shares of time on each type of GPU by a linear program, carried out in rounds (Gavel, OSDI 2020).

Claim: jobs gain very differently by a faster type, so a policy that knows each job's throughput on each serves all
better than one that takes GPUs to be alike. Its "least attained service" is max-min fairness: shares X of time, of each
job on each type, that maximise the least of GPUs x throughput(X) / throughput(equal time on every GPU), where no job
has more than all of its time and no type gives more GPUs than it has. The authors' code states that, and a round: of
all (job, type) the largest X / time received first, a job on one type, and on the same GPUs if it can. From memory, not
checked against the paper: rounds of 6 min; that their count of time begins anew with each X, and only a deficit is
carried over.

Inferred: what the least leaves over goes to the largest sum; X is summed, like the time received, since a job came, or
newcomers would go first until they had received as much as any other. Our choice: GPUs are never given where a job has
no share, which their code does with what is left over, since here moving on costs minutes; a job that has no turn in a
round but is in no other's way runs on; between rounds what fits starts where it has a share, and no job is paused; a
job goes to another type as `Resize` does; a gang for which no type has GPUs enough has a share of all together.
Throughputs are as profiled. Objective `throughput`, the largest sum: as theirs, but for gains over equal time. Left
out: two jobs on a GPU, throughputs to be estimated, weights, groups with shares of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.optimize import linprog

from baselines.lib.grants import GLANCE_S
from baselines.lib.kinds import Kinds, Turn, take
from simulator.policy import Action, Wait
from simulator.vocabulary import DONE

if TYPE_CHECKING:
    from simulator.view import View

ROUND_S = 360.0
NOTHING = 1e-6  # a share, or a loss of the least, that is but the solver's rounding

Objective = Literal["fairness", "throughput"]


def shares(
    gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray, objective: Objective = "fairness"
) -> np.ndarray:
    """Return the share of its time that each job is to have on each kind of GPUs: (jobs, kinds).

    speed: of a job on a kind, 0 where it cannot run. sizes: GPUs of each type; a kind more is all of them together.
    """
    rows, alike = np.unique(np.column_stack([gpus, speed]), axis=0, return_inverse=True)
    count, each, speed = np.bincount(alike), rows[:, :1], rows[:, 1:]  # jobs that are alike have like shares
    able, whole = speed > 0, np.append(sizes, sizes.sum())[: speed.shape[1]]
    equal = (speed * whole).sum(axis=1) / np.maximum((able * whole).sum(axis=1), 1)
    gain = each * speed / np.where(equal > 0, equal, 1.0)[:, None]
    takes = np.column_stack([np.eye(len(sizes)), sizes / max(sizes.sum(), 1)])[:, : speed.shape[1]]
    of_job = np.kron(np.eye(len(rows)), np.ones(speed.shape[1]))
    of_type = (count[:, None] * each * takes[:, None]).reshape(len(sizes), -1)
    # The unknowns are the shares and, last, the least gain, which is no more than that of any job that can run.
    limits = np.pad(np.vstack([-of_job * gain.ravel(), of_job, of_type]), ((0, 0), (0, 1)))
    limits[: len(rows), -1] = able.any(axis=1)
    most = np.concatenate([np.zeros(len(rows)), np.ones(len(rows)), sizes])
    least, total = np.append(np.zeros(speed.size), 1.0), np.append((count[:, None] * gain).ravel(), 0.0)
    upper, found = np.append(able.ravel(), gain.max(initial=0.0)), np.zeros(speed.size + 1)
    for goal in (least, total) if objective == "fairness" else (total,):
        lower = least * found[-1] * (1 - NOTHING)
        result = linprog(-goal, limits, most, bounds=np.column_stack([lower, upper]).tolist())
        found = found if result.x is None else result.x
    given = found[:-1].reshape(speed.shape)
    return np.where(given > NOTHING, given, 0.0)[alike]


@dataclass
class Gavel:
    """One episode of the policy.

    objective: whether the least of all throughputs is made largest, or their sum; each over that of equal shares.
    round_s: between two rounds.
    """

    objective: Objective = "fairness"
    round_s: float = ROUND_S

    def __post_init__(self) -> None:
        self._instant, self._now, self._began_s = -1, 0.0, -np.inf
        self._divided: tuple[bytes, ...] = ()
        self._moves: Iterator[Action] = iter(())

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant, then a wait."""
        if self._instant < 0:
            self._kinds, self._on = Kinds(view), np.zeros(0, int)
            self._shares, self._owed_s, self._got_s = np.zeros((3, 0, len(self._kinds)))
        if view.instant != self._instant:
            self._instant = view.instant
            self._count(view)
            self._moves = self._begin(view)
        if move := next(self._moves, None):
            return move
        self._on = self._kinds.held(view)
        waiting = view.jobs.num_gpus[view.queue].any() or len(self._kinds) > 2
        return Wait(GLANCE_S) if waiting and len(view.running) else Wait()

    def _count(self, view: "View") -> None:
        """Count the time that has passed as owed to jobs by their shares, and as received where they held GPUs."""
        passed_s, self._now = view.now - self._now, view.now
        self._owed_s += self._shares * passed_s
        had = np.flatnonzero(self._on >= 0)
        self._got_s[had, self._on[had]] += passed_s
        if new := len(view.jobs.phase) - len(self._shares):
            tables = self._shares, self._owed_s, self._got_s
            self._shares, self._owed_s, self._got_s = (np.pad(table, ((0, new), (0, 0))) for table in tables)

    def _begin(self, view: "View") -> Iterator[Action]:
        """Return the moves of this instant; shares are divided anew if other jobs, or nodes, are there."""
        due = view.now >= self._began_s + self.round_s
        if due:
            self._began_s = view.now
        if not due and not len(view.startable):
            return iter(())
        jobs = np.flatnonzero((view.jobs.phase != DONE) & (view.jobs.num_gpus > 0))
        there = jobs.tobytes(), view.nodes.closed.tobytes()
        if there != self._divided:
            self._divided = there
            speed, sizes = self._kinds.speeds(view, jobs), self._kinds.sizes(view)
            self._shares[:] = 0
            self._shares[jobs] = shares(view.jobs.num_gpus[jobs], speed, sizes, self.objective)
        return take(view, self._kinds, self._turns(jobs), pausing=due)

    def _turns(self, jobs: np.ndarray) -> list[Turn]:
        """Return the jobs on the kinds that they have shares of, by what they are owed over what they have had."""
        share, owed_s, got_s = self._shares[jobs], self._owed_s[jobs], self._got_s[jobs]
        ratio = np.where(got_s > 0, owed_s / np.maximum(got_s, NOTHING), np.inf)
        row, kind = np.nonzero(share)
        order = np.lexsort((jobs[row], -share[row, kind], -ratio[row, kind]))
        return list(map(Turn, jobs[row[order]].tolist(), kind[order].tolist()))


policy = Gavel
GRID = {"round_s": (360.0, 1200.0, 3600.0, 14_400.0), "objective": ("fairness", "throughput")}
