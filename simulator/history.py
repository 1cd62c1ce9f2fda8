"""Run times and core needs of finished jobs: parameters fitted to them, and groups of similar jobs.

A batch is a sequence of jobs that one user submits, at most `gap_s` apart, with the same number of GPUs and similar
iterations: the profiled iteration time of each is within a factor of SIMILAR of that of the job before. Profiles are
grouped in cells by their features: log odds of GPU utilisation, log seconds of an iteration, log GiB of memory, and log
cores requested per GPU, each divided by its scale. A job belongs to the cell with the nearest centre. The formulas are
in `simulator.kernel.union.estimates`.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.union.estimates import (
    MAX_CELLS,
    NUM_GPU_CLASSES,
    PROFILE_WIDTH,
    history_dtype,
)

SIMILAR = 2.5
"""Largest ratio of the iteration times of consecutive jobs of a batch. Batch sizes of a model deviate by a quarter
(`traces._fill`), so that the iteration times of nearly all pairs of its jobs are within this ratio."""
MAX_BATCH = 64  # jobs; the next job begins another batch, which bounds the time of an estimate
MIN_UTILIZATION = 1e-3
MIN_S, MIN_GIB = 1e-3, 1e-2  # lower bounds of features before their logarithm
CHUNK_ROWS = 1024  # jobs whose distances to all cells are in memory at once

Cell = tuple[float, ...]


@dataclass(frozen=True)
class History:
    """Parameters fitted to training windows.

    good_error, bad_error: std. dev. of the errors of the log estimates of predictable and of other jobs.
    within, between: std. dev. of log run times in a batch, and of their means over a batch.
    level: (NUM_GPU_CLASSES,), mean log run time (s) by class of GPUs (0, 1, 2-3, 4-7 ...).
    alike, spread: std. dev. of log core needs in a batch, and of their means over a batch in a cell.
    scale: (PROFILE_WIDTH,), divisors of the features of a profile.
    cells: a row per cell of its scaled centre, mean log core need and number of jobs, (cells, PROFILE_WIDTH + 2);
        empty if cores do not matter.
    gap_s: maximum time between consecutive submissions of a batch, s.
    fitted_on: description of the training windows.
    """

    good_error: float
    bad_error: float
    within: float
    between: float
    level: tuple[float, ...]
    alike: float = 1.0
    spread: float = 1.0
    scale: tuple[float, ...] = (1.0,) * PROFILE_WIDTH
    cells: tuple[Cell, ...] = ()
    gap_s: float = 60.0
    fitted_on: str = ""

    def __post_init__(self) -> None:
        """Check the parameters; ValueError names each invalid field."""
        positive = ("good_error", "bad_error", "within", "between", "alike", "spread", "gap_s")
        wrong = [
            f"{name!r} to be a finite number > 0" for name in positive if not 0 < getattr(self, name) < np.inf
        ]
        if len(self.level) != NUM_GPU_CLASSES or not np.isfinite(self.level).all():
            wrong.append(f"'level' to have {NUM_GPU_CLASSES} finite numbers")
        if len(self.scale) != PROFILE_WIDTH or not np.all(np.array(self.scale) > 0):
            wrong.append(f"'scale' to have {PROFILE_WIDTH} positive numbers")
        if len(self.cells) > MAX_CELLS or any(len(cell) != PROFILE_WIDTH + 2 for cell in self.cells):
            wrong.append(f"'cells' to have at most {MAX_CELLS} rows of {PROFILE_WIDTH + 2} numbers")
        if wrong:
            raise ValueError(f"invalid history of finished jobs: expected {'; '.join(wrong)}")

    def write(self, file: Path) -> None:
        """Write the parameters as JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read(file: Path) -> History:
    """Return the parameters in a JSON file; ValueError if it cannot be read or is not valid."""
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        fields |= {name: tuple(fields[name]) for name in ("level", "scale")}
        return History(**fields | {"cells": tuple(map(tuple, fields["cells"]))})
    except (OSError, TypeError, KeyError, ValueError) as error:
        why = f"no field {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{file}: expected a run-time predictor as written by python -m benchmarks.history --write ({why})"
        ) from error


def profiles(
    active_ms: np.ndarray, idle_ms: np.ndarray, memory_gib: np.ndarray, cores_each: np.ndarray
) -> np.ndarray:
    """Return the unscaled features of profiles: float64 (jobs, PROFILE_WIDTH).

    active_ms, idle_ms: (jobs,) time of an iteration with the GPU active and idle, ms.
    memory_gib: (jobs,) memory per GPU, GiB. cores_each: (jobs,) requested cores per GPU.
    """
    whole_ms = active_ms + idle_ms
    utilization = np.clip(
        active_ms / np.where(whole_ms > 0, whole_ms, 1.0), MIN_UTILIZATION, 1 - MIN_UTILIZATION
    )
    return np.column_stack(
        [
            np.log(utilization / (1 - utilization)),
            np.log(np.maximum(whole_ms / 1000, MIN_S)),
            np.log(np.maximum(memory_gib, MIN_GIB)),
            np.log(np.maximum(cores_each, 1.0)),
        ]
    )


def nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the index of the centre nearest to each point, the first of equals: int64 (points,).

    points, centres: scaled features, (points, PROFILE_WIDTH) and (cells, PROFILE_WIDTH).
    """
    found = np.zeros(len(points), np.int64)
    for begin in range(0, len(points), CHUNK_ROWS):
        apart = points[begin : begin + CHUNK_ROWS, None] - centres
        found[begin : begin + CHUNK_ROWS] = (apart**2).sum(axis=2).argmin(axis=1)
    return found


def batches(
    user: np.ndarray, num_gpus: np.ndarray, submit_s: np.ndarray, iteration_s: np.ndarray, gap_s: float
) -> np.ndarray:
    """Return the first job of each job's batch, for jobs in order of submission: int64 (jobs,).

    user, num_gpus: (jobs,) index of the user, and requested GPUs.
    submit_s, iteration_s: (jobs,) time of submission, and profiled time of an iteration, s.
    gap_s: maximum time between consecutive submissions of a batch, s.
    """
    log_s = np.log(np.maximum(iteration_s, MIN_S))
    first = np.arange(len(user))
    size = np.ones(len(user), np.int64)
    open_: dict[tuple[int, int], list[int]] = {}  # last jobs of batches that may continue, oldest first
    for job, asked in enumerate(zip(user.tolist(), num_gpus.tolist(), strict=True)):
        last = [other for other in open_.get(asked, ()) if submit_s[job] - submit_s[other] <= gap_s]
        similar = [
            other
            for other in last
            if abs(log_s[job] - log_s[other]) <= np.log(SIMILAR) and size[first[other]] < MAX_BATCH
        ]
        if similar:
            last.remove(similar[-1])
            first[job] = first[similar[-1]]
            size[first[job]] += 1
        open_[asked] = [*last, job]
    return first


def records_of(history: History | None, jobs: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return a history record for each state: the first is filled in for these jobs, the others are for copies."""
    records = np.zeros(len(states), history_dtype(states["phase"].shape[1]))
    h = records[0]
    for name in ("first_in_batch", "next_in_batch"):
        h[name][:] = NOBODY
    if history is None:
        return records
    h.fitted = 1
    for name in ("good_error", "bad_error", "within", "between", "level", "alike", "spread"):
        h[name] = getattr(history, name)
    lay_out_batches(h, jobs, history.gap_s)
    lay_out_cells(h, jobs, history)
    return records


def lay_out_batches(h: np.record, jobs: np.ndarray, gap_s: float) -> None:
    """Write the batches of the jobs into a history record."""
    whole_s = (jobs["profiled_active_ms"] + jobs["profiled_idle_ms"]) / 1000
    first = batches(jobs["user"], jobs["num_gpus"], jobs["submit_s"], whole_s, gap_s)
    h.first_in_batch[: len(jobs)] = first
    last = np.full(len(jobs), NOBODY)
    for job, head in enumerate(first.tolist()):
        if last[head] != NOBODY:
            h.next_in_batch[last[head]] = job
        last[head] = job


def lay_out_cells(h: np.record, jobs: np.ndarray, history: History) -> None:
    """Write the cells, and the cell of each job, into a history record."""
    if not history.cells:
        return
    cells = np.array(history.cells)
    h.num_cells = len(cells)
    h.log_need[: len(cells)] = cells[:, PROFILE_WIDTH]
    h.cell_jobs[: len(cells)] = cells[:, PROFILE_WIDTH + 1]
    columns = ("profiled_active_ms", "profiled_idle_ms", "profiled_memory_gib", "cores_each")
    points = profiles(*(jobs[name] for name in columns)) / np.array(history.scale)
    h.cell[: len(jobs)] = nearest(points, cells[:, :PROFILE_WIDTH])
