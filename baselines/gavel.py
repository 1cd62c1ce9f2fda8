"""Time shares of each job on each type of GPU from a linear program, realised in rounds (Gavel, OSDI 2020).

Claim: a faster type speeds up some jobs much more than others, so a policy that knows each job's throughput on each
type serves all jobs better than one that treats all GPUs alike. Its "least attained service" is max-min fairness: time
shares X, of each job on each type, that maximise the minimum of GPUs x throughput(X) / throughput(equal time on every
GPU), where the shares of a job sum to at most 1 and no type gives more GPUs than it has. The authors' code states that,
and the rounds: pairs of job and type are served by decreasing X / time received, a job on one type, and on the same
GPUs if possible. From memory, not checked against the paper: rounds of 6 min; the count of time received restarts with
each X, and only a deficit is carried over.

Inferred: capacity beyond the optimal minimum is used to maximise the sum; X and the time received are summed since a
job's arrival, or new jobs would go first until they had received as much as any other job. Our choice: a job gets no
GPUs of a type where it has no share, unlike with left-over GPUs in their code, since here a move costs minutes; a job
without a turn in a round runs on if no other job needs its GPUs; between rounds jobs that fit start where they have a
share, and no job is paused; a job changes its type by `Resize`; a gang that is wider than every type has a share of all
types together; with a single type, where many shares are optimal, jobs have equal shares or all that they can use,
which needs no solver. Throughputs are as profiled. Objective `throughput` is the largest sum, as theirs, but of gains
relative to equal time. Left out: two jobs on a GPU, estimated throughputs, weights, groups with their own shares.

Rounds are carried out by `simulator.kernel.rounds.time_sharing`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from gpu_cluster_gym.simulator.compiled_policy import CompiledPolicy, Kernel
from gpu_cluster_gym.simulator.kernel.rounds import time_sharing
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.simulator.vocabulary import OPEN

LEVER = "gpu_types"

ROUND_S = 360.0
NEGLIGIBLE = 1e-6  # a share, or a loss of the minimum gain, that is the solver's rounding

Objective = Literal["fairness", "throughput"]


@dataclass
class Gavel(CompiledPolicy):
    """One episode of the policy.

    objective: whether the minimum of all throughputs is maximised, or their sum; each relative to equal shares.
    round_s: seconds between two rounds.
    """

    objective: Objective = "fairness"
    round_s: float = ROUND_S

    kernel = Kernel(time_sharing.memory_dtype, time_sharing.step, time_sharing.run)

    def __post_init__(self) -> None:
        """Begin an episode."""
        self._kinds: Kinds | None = None
        self._shares = Shares(self.objective)
        super().__init__()

    def init_memory(self, memory: np.ndarray, states: np.ndarray) -> None:
        """Write the settings into a memory of zeros."""
        time_sharing.init_memory(memory, states, self.round_s)

    def answer(self, status: int, view: View) -> None:
        """Write the shares of the jobs that are there now into the memory."""
        memory = self.memory(source_of(view).states)[0]
        jobs = memory["sharing"][: memory["num_sharing"]].astype(np.int64)
        self._kinds = self._kinds or Kinds(view)
        gpus, speed, sizes = view.jobs.num_gpus[jobs], self._kinds.speeds(view, jobs), self._kinds.sizes(view)
        shares = self._shares(gpus, speed, sizes)
        memory["share"][jobs, : shares.shape[1]] = shares


class Kinds:
    """Kinds of GPUs of a cluster, and the speed of each job on them.

    A kind is a type of GPUs; the last kind is all GPUs together, for gangs that no type has enough GPUs for.
    """

    def __init__(self, view: View) -> None:
        """Read the cluster."""
        types = np.unique(view.nodes.gpu_type[view.nodes.num_gpus > 0])
        each = view.nodes.gpu_type == types[:, None]
        self.nodes = np.vstack([each, each.any(axis=0)])  # (kinds, nodes)
        # Jobs whose GPUs must have the same memory can be on the same nodes: these are kept once, as rows.
        self._row_of: dict[bytes, int] = {}
        self._holds = np.empty((0, len(view.nodes.num_gpus)), np.int64)  # (rows, nodes)
        self._row = np.empty(0, np.int64)  # row of each job, -1 where it has not been seen
        self._slowest = np.empty((0, len(self.nodes)))  # (jobs, kinds), speed on the slowest GPUs of a kind

    def __len__(self) -> int:
        """Return the number of kinds, including the one of all GPUs together."""
        return len(self.nodes)

    def sizes(self, view: View) -> np.ndarray:
        """Return the number of GPUs of each type on nodes where jobs may start: (types,)."""
        total: np.ndarray = self.nodes[:-1] @ np.where(view.nodes.closed == OPEN, view.nodes.num_gpus, 0)
        return total

    def speeds(self, view: View, jobs: np.ndarray) -> np.ndarray:
        """Return the speed of jobs on each kind, 0 where it has too few GPUs with enough memory: (jobs, kinds)."""
        there = np.where(view.nodes.closed == OPEN, view.nodes.num_gpus, 0)
        self._see(view, jobs)
        room = (self._holds * there) @ self.nodes.T
        enough = room[self._row[jobs]] >= view.jobs.num_gpus[jobs, None]
        enough[:, -1] &= ~enough[:, :-1].any(axis=1)
        return np.where(enough, self._slowest[jobs], 0.0)

    def _see(self, view: View, jobs: np.ndarray) -> None:
        """Record the nodes that can hold each new job, and its speed on each kind, which never change."""
        if (more := int(jobs.max(initial=-1)) + 1 - len(self._row)) > 0:
            # Capacity doubles: otherwise each new job would copy the rows of all earlier ones.
            more += len(self._row)
            self._row = np.pad(self._row, (0, more), constant_values=-1)
            self._slowest = np.pad(self._slowest, ((0, more), (0, 0)))
        for job in jobs[self._row[jobs] < 0].tolist():
            holds, speed = view.can_hold(job), view.type_speed(job)
            row = self._row_of.setdefault(holds.tobytes(), len(self._row_of))
            if row == len(self._holds):
                self._holds = np.vstack([self._holds, holds])
            self._row[job] = row
            self._slowest[job] = [speed[nodes & holds].min(initial=np.inf) for nodes in self.nodes]


class Shares:
    """Shares of time that are optimal for all jobs; results of the solver are kept."""

    def __init__(self, objective: Objective = "fairness") -> None:
        """Create an empty cache. objective: as for `Gavel`."""
        self._objective: Objective = objective
        self._known: dict[tuple[bytes, ...], np.ndarray] = {}

    def __call__(self, gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the share of its time that each job has on each kind of GPUs: (jobs, kinds).

        gpus: (jobs,), number of GPUs. speed: (jobs, kinds), 0 where a job cannot run. sizes: (types,), number of GPUs;
        the kind after the types is all of them together.
        """
        if has_room_for_all(gpus, speed, sizes):
            return np.where(speed > 0, 1.0, 0.0)
        if len(sizes) == 1 and self._objective == "fairness":
            return of_one_type(gpus, speed, sizes)
        rows, count, row_of = alike(gpus, speed)
        key = rows.tobytes(), count.tobytes(), sizes.tobytes()
        if key not in self._known:
            self._known[key] = program(rows, count, sizes, self._objective)
        return np.take(self._known[key], row_of, axis=0)


def has_room_for_all(gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray) -> bool:
    """Return whether GPUs of one type have space for all jobs that can run: then each has all of its time."""
    return len(sizes) == 1 and bool(gpus[(speed > 0).any(axis=1)].sum() <= sizes.sum())


def alike(gpus: np.ndarray, speed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return distinct jobs as rows of GPUs and speed on each kind, the number of jobs of a row, and each job's row."""
    rows, row_of = np.unique(np.column_stack([gpus, speed]), axis=0, return_inverse=True)
    return rows, np.bincount(row_of), row_of


def of_one_type(gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return an optimum of the program without solving it: equal GPU time for each job, or all that it can use."""
    able = (speed > 0).any(axis=1)
    each = np.sort(gpus[able]).astype(float)  # those that use least first
    left = sizes.sum() - np.concatenate([[0.0], np.cumsum(each[:-1])])
    levels = left / np.arange(
        len(each), 0, -1
    )  # GPUs for each remaining job once smaller ones have all they use
    level = levels[np.argmax(each >= levels)]
    return np.where(speed > 0, np.minimum(level / np.maximum(gpus, 1), 1.0)[:, None], 0.0)


def program(rows: np.ndarray, count: np.ndarray, sizes: np.ndarray, objective: Objective) -> np.ndarray:
    """Return the shares of distinct jobs (see `alike`) by the linear program: (rows, kinds)."""
    each, speed = rows[:, :1], rows[:, 1:]
    able, all_gpus = speed > 0, np.append(sizes, sizes.sum())[: speed.shape[1]]
    # Gain: GPUs x speed on a kind / speed with equal time on every GPU where the job can run.
    equal = (speed * all_gpus).sum(axis=1) / np.maximum((able * all_gpus).sum(axis=1), 1)
    gain = each * speed / np.where(equal > 0, equal, 1.0)[:, None]
    # GPUs that a GPU of each kind takes of each type: (types, kinds).
    takes = np.column_stack([np.eye(len(sizes)), sizes / max(sizes.sum(), 1)])[:, : speed.shape[1]]
    of_job = np.kron(np.eye(len(rows)), np.ones(speed.shape[1]))
    of_type = (count[:, None] * each * takes[:, None]).reshape(len(sizes), -1)
    # The unknowns are the shares and, last, the minimum gain, which is at most that of any job that can run.
    limits = np.pad(np.vstack([-of_job * gain.ravel(), of_job, of_type]), ((0, 0), (0, 1)))
    limits[: len(rows), -1] = able.any(axis=1)
    most = np.concatenate([np.zeros(len(rows)), np.ones(len(rows)), sizes])
    least, total = np.append(np.zeros(speed.size), 1.0), np.append((count[:, None] * gain).ravel(), 0.0)
    upper, found = np.append(able.ravel(), gain.max(initial=0.0)), np.zeros(speed.size + 1)
    for goal in (least, total) if objective == "fairness" else (total,):
        bounds = Bounds(least * found[-1] * (1 - NEGLIGIBLE), upper)
        # Without integer unknowns this is `linprog`: the same solver with less overhead, equal to the digit.
        result = milp(-goal, constraints=LinearConstraint(limits, ub=most), bounds=bounds)
        found = found if result.x is None else result.x
    given = found[:-1].reshape(speed.shape)
    return np.where(given > NEGLIGIBLE, given, 0.0)


policy = Gavel
GRID = {"round_s": (360.0, 1200.0, 3600.0, 14_400.0), "objective": ("fairness", "throughput")}
