"""What is learned from finished jobs: the figures of a fitted file, and which jobs are like which.

A batch is jobs that one user submits one after another, at most `gap_s` apart, with the same GPUs, and iterations that
are alike: their profiled lengths within a factor of LIKE of that of the job before. A job is of the cell whose centre
is nearest to its profile: log odds of its duty, log seconds of an iteration, log GiB of memory, log cores asked for
each GPU, each over its scale. `simulator.kernel.rule.history` has the formulas.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.rule.history import MOST_CELLS, PROFILE, SIZES, history_dtype

LIKE = 2.5  # times: batch sizes of one model have a deviation of a quarter, so nearly all of their iterations
MOST_LIKE = (
    64  # jobs of a batch; the next begins another, so that what is believed of a job takes little time
)
LEAST_DUTY = 1e-3
LEAST_S, LEAST_GIB = 1e-3, 1e-2
ROWS_AT_ONCE = 1024  # of distances to all cells

Cell = tuple[float, ...]


@dataclass(frozen=True)
class History:
    """The figures that training windows have given; errors, deviations and levels are of logarithms.

    good_error, bad_error: of estimates, once predictable and before. within, between: of seconds of run time, in a
    batch and over batches. level: their mean by class of GPUs (0, 1, 2-3, 4-7 ...). alike, spread: of cores needed, in
    a batch and in a cell. scale: of the figures of a profile. cells: rows of centre, over the scale, mean log cores,
    and how many jobs that is of; none where cores do not matter. fitted_on: in words.
    """

    good_error: float
    bad_error: float
    within: float
    between: float
    level: tuple[float, ...]
    alike: float = 1.0
    spread: float = 1.0
    scale: tuple[float, ...] = (1.0,) * PROFILE
    cells: tuple[Cell, ...] = ()
    gap_s: float = 60.0
    fitted_on: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be: ValueError."""
        positive = ("good_error", "bad_error", "within", "between", "alike", "spread", "gap_s")
        wrong = [name for name in positive if not 0 < getattr(self, name) < np.inf]
        if len(self.level) != SIZES or not np.isfinite(self.level).all():
            wrong.append(f"level, of which there are {SIZES}")
        if len(self.scale) != PROFILE or not np.all(np.array(self.scale) > 0):
            wrong.append(f"scale, of which there are {PROFILE}")
        if len(self.cells) > MOST_CELLS or any(len(cell) != PROFILE + 2 for cell in self.cells):
            wrong.append(f"cells, at most {MOST_CELLS} of {PROFILE + 2} numbers")
        if wrong:
            raise ValueError(f"a history of finished jobs cannot have these: {'; '.join(wrong)}")

    def write(self, file: Path) -> None:
        """Write the figures as JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read(file: Path) -> History:
    """Return the figures of a fitted file; ValueError where it is none."""
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        fields |= {name: tuple(fields[name]) for name in ("level", "scale")}
        return History(**fields | {"cells": tuple(map(tuple, fields["cells"]))})
    except (OSError, TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{file} is no history of finished jobs: {error}") from error


def profiles(
    active_ms: np.ndarray, idle_ms: np.ndarray, memory_gib: np.ndarray, cores_each: np.ndarray
) -> np.ndarray:
    """Return what is known of jobs by their profiles, before they are scaled: (jobs, PROFILE)."""
    whole_ms = active_ms + idle_ms
    duty = np.clip(active_ms / np.where(whole_ms > 0, whole_ms, 1.0), LEAST_DUTY, 1 - LEAST_DUTY)
    return np.column_stack(
        [
            np.log(duty / (1 - duty)),
            np.log(np.maximum(whole_ms / 1000, LEAST_S)),
            np.log(np.maximum(memory_gib, LEAST_GIB)),
            np.log(np.maximum(cores_each, 1.0)),
        ]
    )


def nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the number of the centre nearest to each point, the first of equals; both scaled."""
    found = np.zeros(len(points), np.int64)
    for begin in range(0, len(points), ROWS_AT_ONCE):
        apart = points[begin : begin + ROWS_AT_ONCE, None] - centres
        found[begin : begin + ROWS_AT_ONCE] = (apart**2).sum(axis=2).argmin(axis=1)
    return found


def batches(
    user: np.ndarray, num_gpus: np.ndarray, submit_s: np.ndarray, iteration_s: np.ndarray, gap_s: float
) -> np.ndarray:
    """Return the job with which the batch of each job began, given jobs in order of submission."""
    log_s = np.log(np.maximum(iteration_s, LEAST_S))
    first = np.arange(len(user))
    size = np.ones(len(user), np.int64)
    open_: dict[tuple[int, int], list[int]] = {}  # the last jobs of batches that may go on, the oldest first
    for job, asked in enumerate(zip(user.tolist(), num_gpus.tolist(), strict=True)):
        last = [other for other in open_.get(asked, ()) if submit_s[job] - submit_s[other] <= gap_s]
        alike = [
            other
            for other in last
            if abs(log_s[job] - log_s[other]) <= np.log(LIKE) and size[first[other]] < MOST_LIKE
        ]
        if alike:
            last.remove(alike[-1])
            first[job] = first[alike[-1]]
            size[first[job]] += 1
        open_[asked] = [*last, job]
    return first


def records_of(history: History | None, jobs: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return a record of what is believed for each of the state's: of the first one's jobs, the others for clones."""
    records = np.zeros(len(states), history_dtype(states["phase"].shape[1]))
    h = records[0]
    for name in ("first_like", "next_like"):
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
    """Write which jobs are of one batch."""
    whole_s = (jobs["profiled_active_ms"] + jobs["profiled_idle_ms"]) / 1000
    first = batches(jobs["user"], jobs["num_gpus"], jobs["submit_s"], whole_s, gap_s)
    h.first_like[: len(jobs)] = first
    last = np.full(len(jobs), NOBODY)
    for job, head in enumerate(first.tolist()):
        if last[head] != NOBODY:
            h.next_like[last[head]] = job
        last[head] = job


def lay_out_cells(h: np.record, jobs: np.ndarray, history: History) -> None:
    """Write the cells, and which each job is of."""
    if not history.cells:
        return
    cells = np.array(history.cells)
    h.num_cells = len(cells)
    h.log_need[: len(cells)] = cells[:, PROFILE]
    h.counted[: len(cells)] = cells[:, PROFILE + 1]
    columns = ("profiled_active_ms", "profiled_idle_ms", "profiled_memory_gib", "cores_each")
    points = profiles(*(jobs[name] for name in columns)) / np.array(history.scale)
    h.cell[: len(jobs)] = nearest(points, cells[:, :PROFILE])
