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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from baselines.lib.kinds import Kinds
from simulator.policy import Action, RunsWhole
from simulator.turns import Turns

if TYPE_CHECKING:
    from simulator.view import View

LEVER = "gpu_types"

ROUND_S = 360.0
NOTHING = 1e-6  # a share, or a loss of the least, that is but the solver's rounding

Objective = Literal["fairness", "throughput"]


def shares(
    gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray, objective: Objective = "fairness"
) -> np.ndarray:
    """Return the share of its time that each job is to have on each kind of GPUs: (jobs, kinds).

    speed: of a job on a kind, 0 where it cannot run. sizes: GPUs of each type; a kind more is all of them together.
    """
    if has_room_for_all(gpus, speed, sizes):
        return np.where(speed > 0, 1.0, 0.0)
    return solved(gpus, speed, sizes, objective)


def solved(gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray, objective: Objective) -> np.ndarray:
    """Return the shares by the linear program."""
    rows, count, alike = _alike(gpus, speed)
    return np.take(_shares_of(rows, count, sizes, objective), alike, axis=0)


def has_room_for_all(gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray) -> bool:
    """Tell whether all jobs that can run at all do so at once on GPUs of one type: then each has all of its time."""
    return len(sizes) == 1 and bool(gpus[(speed > 0).any(axis=1)].sum() <= sizes.sum())


def _alike(gpus: np.ndarray, speed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what jobs that are alike have, GPUs and speeds, how many these are, and the row of each job."""
    rows, alike = np.unique(np.column_stack([gpus, speed]), axis=0, return_inverse=True)
    return rows, np.bincount(alike), alike


def _shares_of(rows: np.ndarray, count: np.ndarray, sizes: np.ndarray, objective: Objective) -> np.ndarray:
    """Return the shares of jobs by row: those that are alike have like shares."""
    each, speed = rows[:, :1], rows[:, 1:]
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
        bounds = Bounds(least * found[-1] * (1 - NOTHING), upper)
        # With no unknown that must be whole this is `linprog`: the same solver, less overhead, equal to the digit.
        result = milp(-goal, constraints=LinearConstraint(limits, ub=most), bounds=bounds)
        found = found if result.x is None else result.x
    given = found[:-1].reshape(speed.shape)
    return np.where(given > NOTHING, given, 0.0)


@dataclass
class Gavel(RunsWhole):
    """One episode of the policy.

    objective: whether the least of all throughputs is made largest, or their sum; each over that of equal shares.
    round_s: between two rounds.
    """

    objective: Objective = "fairness"
    round_s: float = ROUND_S

    def __post_init__(self) -> None:
        """Begin an episode."""
        self._turns = Turns(self.round_s)
        self._kinds: Kinds | None = None
        self._known: dict[tuple[bytes, ...], np.ndarray] = {}  # shares by row of what has been divided before

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant, then a wait; shares are found anew where other jobs are there."""
        while (move := self._turns.next_move(view)) is None:
            self._turns.share(self._shares(view, self._turns.sharing))
        return move

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Carry it out inside the kernel to the end, but for finding shares; tell whether every job ended."""
        return self._turns.run_whole(states, jobs, histories, self._shares)

    def _shares(self, view: "View", jobs: np.ndarray) -> np.ndarray:
        """Return the shares of these jobs on each kind."""
        self._kinds = self._kinds or Kinds(view)
        gpus, speed, sizes = view.jobs.num_gpus[jobs], self._kinds.speeds(view, jobs), self._kinds.sizes(view)
        if has_room_for_all(gpus, speed, sizes):
            return np.where(speed > 0, 1.0, 0.0)
        rows, count, alike = _alike(gpus, speed)
        key = rows.tobytes(), count.tobytes(), sizes.tobytes()
        if key not in self._known:
            self._known[key] = _shares_of(rows, count, sizes, self.objective)
        return np.take(self._known[key], alike, axis=0)


policy = Gavel
GRID = {"round_s": (360.0, 1200.0, 3600.0, 14_400.0), "objective": ("fairness", "throughput")}
