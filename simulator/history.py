"""Run times and core needs of finished jobs: the fitted figures, and which jobs resemble each other.

A batch is a sequence of jobs that one user submits, at most `gap_s` apart, with the same number of GPUs and similar
iterations: the profiled iteration time of each is within a factor of SIMILAR of that of the job before. Profiles are
grouped in cells; a job belongs to the cell with the nearest centre: log odds of GPU utilisation, log seconds of an
iteration, log GiB of memory, log cores requested per GPU, each divided by its scale. The formulas are in
`simulator.kernel.union.estimates`.
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

SIMILAR = (
    2.5  # batch sizes of one model deviate by a quarter, which covers nearly all of their iteration times
)
MAX_BATCH = 64  # jobs; the next job begins another batch, which bounds the time of an estimate
MIN_UTILIZATION = 1e-3
MIN_S, MIN_GIB = 1e-3, 1e-2
CHUNK_ROWS = 1024  # of distances to all cells

Cell = tuple[float, ...]


@dataclass(frozen=True)
class History:
    """Figures fitted to training windows; errors, deviations and levels are of logarithms.

    good_error, bad_error: std. dev. of estimates of predictable and of other jobs.
    within, between: std. dev. of run times (s) in a batch, and of the batch means.
    level: mean run time (s) by class of GPUs (0, 1, 2-3, 4-7 ...).
    alike, spread: std. dev. of core needs in a batch, and in a cell.
    scale: of the features of a profile.
    cells: rows of the scaled centre, the mean log core need and its number of jobs; empty if cores do not matter.
    gap_s: maximum time between submissions of a batch.
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
        """Check the figures; ValueError names each invalid field."""
        positive = ("good_error", "bad_error", "within", "between", "alike", "spread", "gap_s")
        wrong = [f"{name} (a positive number)" for name in positive if not 0 < getattr(self, name) < np.inf]
        if len(self.level) != NUM_GPU_CLASSES or not np.isfinite(self.level).all():
            wrong.append(f"level ({NUM_GPU_CLASSES} finite numbers)")
        if len(self.scale) != PROFILE_WIDTH or not np.all(np.array(self.scale) > 0):
            wrong.append(f"scale ({PROFILE_WIDTH} positive numbers)")
        if len(self.cells) > MAX_CELLS or any(len(cell) != PROFILE_WIDTH + 2 for cell in self.cells):
            wrong.append(f"cells (at most {MAX_CELLS} rows of {PROFILE_WIDTH + 2} numbers)")
        if wrong:
            raise ValueError(f"invalid history of finished jobs: expected {'; '.join(wrong)}")

    def write(self, file: Path) -> None:
        """Write the figures as JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read(file: Path) -> History:
    """Return the figures of a fitted file; ValueError if it is not valid."""
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
    """Return the unscaled features of profiles: (jobs, PROFILE_WIDTH)."""
    whole_ms = active_ms + idle_ms
    duty = np.clip(active_ms / np.where(whole_ms > 0, whole_ms, 1.0), MIN_UTILIZATION, 1 - MIN_UTILIZATION)
    return np.column_stack(
        [
            np.log(duty / (1 - duty)),
            np.log(np.maximum(whole_ms / 1000, MIN_S)),
            np.log(np.maximum(memory_gib, MIN_GIB)),
            np.log(np.maximum(cores_each, 1.0)),
        ]
    )


def nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the index of the centre nearest to each point, the first of equals; both scaled."""
    found = np.zeros(len(points), np.int64)
    for begin in range(0, len(points), CHUNK_ROWS):
        apart = points[begin : begin + CHUNK_ROWS, None] - centres
        found[begin : begin + CHUNK_ROWS] = (apart**2).sum(axis=2).argmin(axis=1)
    return found


def batches(
    user: np.ndarray, num_gpus: np.ndarray, submit_s: np.ndarray, iteration_s: np.ndarray, gap_s: float
) -> np.ndarray:
    """Return the first job of each job's batch, for jobs in order of submission."""
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
    """Return a history record for each state: the first for these jobs, the others for clones."""
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
    """Write the batches of the jobs."""
    whole_s = (jobs["profiled_active_ms"] + jobs["profiled_idle_ms"]) / 1000
    first = batches(jobs["user"], jobs["num_gpus"], jobs["submit_s"], whole_s, gap_s)
    h.first_in_batch[: len(jobs)] = first
    last = np.full(len(jobs), NOBODY)
    for job, head in enumerate(first.tolist()):
        if last[head] != NOBODY:
            h.next_in_batch[last[head]] = job
        last[head] = job


def lay_out_cells(h: np.record, jobs: np.ndarray, history: History) -> None:
    """Write the cells, and the cell of each job."""
    if not history.cells:
        return
    cells = np.array(history.cells)
    h.num_cells = len(cells)
    h.log_need[: len(cells)] = cells[:, PROFILE_WIDTH]
    h.cell_jobs[: len(cells)] = cells[:, PROFILE_WIDTH + 1]
    columns = ("profiled_active_ms", "profiled_idle_ms", "profiled_memory_gib", "cores_each")
    points = profiles(*(jobs[name] for name in columns)) / np.array(history.scale)
    h.cell[: len(jobs)] = nearest(points, cells[:, :PROFILE_WIDTH])
