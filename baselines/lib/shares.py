"""Shares of time of each job on each type of GPU that are best for all of them: `gavel`'s linear program.

On GPUs of one type fair shares need no solver: jobs have alike, or all they can use.
"""

from typing import Literal

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

NOTHING = 1e-6  # a share, or a loss of the least, that is but the solver's rounding

Objective = Literal["fairness", "throughput"]


class Shares:
    """What finds shares; what has been found it knows."""

    def __init__(self, objective: Objective = "fairness") -> None:
        """Take what is made largest."""
        self._objective: Objective = objective
        self._known: dict[tuple[bytes, ...], np.ndarray] = {}  # by row, of what has been divided before

    def __call__(self, gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the share of its time that each job is to have on each kind of GPUs: (jobs, kinds).

        speed: of a job on a kind, 0 where it cannot run. sizes: GPUs of each type; a kind more is all of them together.
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
    """Tell whether all jobs that can run at all do so at once on GPUs of one type: then each has all of its time."""
    return len(sizes) == 1 and bool(gpus[(speed > 0).any(axis=1)].sum() <= sizes.sum())


def alike(gpus: np.ndarray, speed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of what jobs that are alike have, GPUs and the speed on each kind; their numbers; each job's row."""
    rows, row_of = np.unique(np.column_stack([gpus, speed]), axis=0, return_inverse=True)
    return rows, np.bincount(row_of), row_of


def of_one_type(gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return an optimum of the program without solving it: as much for each job as for any, or all that it can use."""
    able = (speed > 0).any(axis=1)
    each = np.sort(gpus[able]).astype(float)  # those that use least first
    left = sizes.sum() - np.concatenate([[0.0], np.cumsum(each[:-1])])
    levels = left / np.arange(len(each), 0, -1)  # of GPUs' time for each of those that are left
    level = levels[np.argmax(each >= levels)]
    return np.where(speed > 0, np.minimum(level / np.maximum(gpus, 1), 1.0)[:, None], 0.0)


def program(rows: np.ndarray, count: np.ndarray, sizes: np.ndarray, objective: Objective) -> np.ndarray:
    """Return the shares of jobs by row, by the linear program."""
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
