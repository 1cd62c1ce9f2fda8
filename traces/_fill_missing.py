"""What a trace does not tell, drawn from public measurements of training jobs.

The figures are those of `data/models.csv` and `data/hardware.csv`; `data/SOURCES.md` tells which authors published
them. Every column has a random stream of its own, by its name, so a column that the trace does have changes no
other's draws, nor does a new column; a job's values depend on the seed, its row and the rows before it. Users,
virtual clusters, states and logged starts cannot be drawn: where a trace has none, the filled table has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.traces._columns import COLUMNS
from gpu_cluster_gym.traces._filling import Filling as _Filling
from gpu_cluster_gym.traces._filling import profile as _profile
from gpu_cluster_gym.traces._profiles import NO_MODEL, STAND_IN, Floats, models
from gpu_cluster_gym.traces._restarts import load, pause, startup
from gpu_cluster_gym.traces._table import Origins

RUN_GAP_S = 60.0  # jobs of one run come at most so far apart (philly_statistics.json, batch_gap_60s)
BATCH_SPREAD = 0.25  # deviation of the logarithm of a batch size about its model's default: our choice
PREDICTABLE_SHARE = 0.7  # of the jobs: our assumption
CRASH_SHARE = (
    0.185  # of long jobs: those of Philly with a gap in their run (philly_statistics.json, restarts)
)
CRASH_LEAST_S = 3600.0  # those are of an hour at least
WORKER_CORES = 5  # of a worker without GPU (Aiturbo-vGPU's pods)
MOST_LOSS = 0.5  # of a profile's scaling: our choice
GROWTH = 2  # times the workers asked for that a job can use: our assumption
ERRORS = (
    0.25,
    1.0,
)  # deviation of the logarithm of the profiled duration, predictable or not: our assumption


def fill(
    table: pd.DataFrame, *, seed: int, largest_gpu_gib: float, cores_per_gpu: int = 6, **choices: Any
) -> pd.DataFrame:
    """Return a copy of a checked job table in which every column that can be drawn is present.

    No job is given a model, or a memory, that the largest GPU of the cluster could not hold, nor more than
    `cores_per_gpu` cores for each of its GPUs. choices: of the scenario, for columns that depend on one.
    `attrs["origin"]` tells how each column was filled. Raise
    ValueError if no profiled model fits that GPU.
    """
    filled = table.copy()
    cells = {name: filled[name].to_numpy() for name in filled.columns}
    job = _Filling(cells, largest_gpu_gib, cores_per_gpu, seed, choices)
    origin = Origins(table.attrs.get("origin", dict.fromkeys(table.columns, "measured")))
    how = {column.name: column.filled for column in COLUMNS}
    for column, draw in _DRAWS.items():
        if column not in cells:
            cells[column] = draw(job)
            origin[column] = f"filled: {how[column]}"
    names = [column.name for column in COLUMNS if column.name in cells]
    filled = filled.assign(**{name: cells[name] for name in names if name not in filled.columns})[names]
    notes = list(table.attrs.get("notes", []))
    if "model" in table and (strange := sorted(set(cells["model"]) - set(models().index))):
        notes.append(f"models without a profile, which borrow that of {STAND_IN}: {', '.join(strange)}")
    filled.attrs = {**table.attrs, "origin": origin, "notes": notes}
    return filled


def runs(
    vc: npt.NDArray[Any], num_gpus: npt.NDArray[Any], submit_s: Floats, gap_s: float = RUN_GAP_S
) -> npt.NDArray[np.int64]:
    """Return for each job the row that its run began with, given jobs in order of submission.

    A run is jobs that one virtual cluster submits one after another, with the same GPU count and at most
    `gap_s` between them.
    """
    order = np.argsort(vc, kind="stable")
    owner, gpus, at = vc[order], num_gpus[order], submit_s[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (owner[1:] != owner[:-1]) | (gpus[1:] != gpus[:-1]) | (np.diff(at) > gap_s)
    first = np.empty(len(order), np.int64)
    first[order] = order[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    return first


def _kind(job: _Filling) -> npt.NDArray[Any]:
    return np.where(job.table["num_gpus"] > 0, "gpu", "cpu").astype(object)


def _model(job: _Filling) -> npt.NDArray[Any]:
    """Draw one model for each run, among those that fit the largest GPU; a job without GPUs trains none."""
    peak = models()["mem_default_MiB"].drop(NO_MODEL) / 1024
    fits = peak.index[peak <= job.largest_gpu_gib]
    if fits.empty:
        gpu = f"a GPU of {job.largest_gpu_gib:g} GiB"
        raise ValueError(f"no profiled model fits {gpu}; the smallest needs {peak.min():.2f}")
    gpus = job.table["num_gpus"]
    run = runs(job.table.get("vc", np.full(job.rows, "")).astype(str), gpus, job.table["submit_s"])
    choice = (job.stream("model").random(job.rows) * len(fits)).astype(int)[run]
    return np.where(gpus > 0, fits.to_numpy(object)[choice], NO_MODEL).astype(object)


def _batch(job: _Filling) -> Floats:
    """Draw batch sizes about the models' defaults, no larger than fits the largest GPU."""
    drawn = np.exp(BATCH_SPREAD * job.stream("gpu_memory_gib").standard_normal(job.rows))
    wanted = np.maximum(np.rint(_profile(job, "default_batch_per_gpu") * drawn), _profile(job, "min_batch"))
    each = _profile(job, "mem_per_sample_MiB")
    room = job.largest_gpu_gib * 1024 - _profile(job, "mem_fixed_MiB")
    most = np.where(each > 0, np.floor(room / np.where(each > 0, each, 1)), wanted)
    return np.maximum(np.minimum(wanted, most), 1)


def _gpu_memory(job: _Filling) -> Floats:
    peak = (_profile(job, "mem_fixed_MiB") + _profile(job, "mem_per_sample_MiB") * _batch(job)) / 1024
    return np.minimum(peak, job.largest_gpu_gib)


def _cpu_cores(job: _Filling) -> npt.NDArray[np.int64]:
    gpus = job.table["num_gpus"]
    wanted = np.ceil(_profile(job, "input_cores_at_default_V100"))
    each = np.clip(wanted, 1, job.cores_per_gpu).astype(np.int64)
    return np.where(gpus > 0, each * gpus, job.cores_per_gpu)


def _checkpoint(job: _Filling) -> Floats:
    return _profile(job, "checkpoint_MB") * 1e6 / 2**30


def _iteration(job: _Filling) -> tuple[Floats, Floats]:
    """Return the milliseconds of one iteration on a V100, alpha + beta * batch, GPU busy and idle."""
    whole = 1e3 * (_profile(job, "alpha_s") + _profile(job, "beta_s_per_sample_V100_fp32") * _batch(job))
    busy = _profile(job, "gpu_util_default_pct") / 100
    return whole * busy, whole * (1 - busy)


def _active(job: _Filling) -> Floats:
    return _iteration(job)[0]


def _idle(job: _Filling) -> Floats:
    return _iteration(job)[1]


def _predictable_from(job: _Filling) -> Floats:
    return np.where(job.stream("predictable_from").random(job.rows) < PREDICTABLE_SHARE, 0.0, 1.0)


def _profiled_duration(job: _Filling) -> Floats:
    error = np.where(job.table["predictable_from"] < 1, *ERRORS)
    noise = np.exp(error * job.stream("profiled_duration_s").standard_normal(job.rows))
    profiled: Floats = np.maximum(job.table["duration_s"] * noise, 1.0)
    return profiled


def _input(job: _Filling) -> Floats:
    return _profile(job, "input_core_s_per_sample") * _batch(job)


def _sync(job: _Filling) -> Floats:
    return _profile(job, "sync_factor_kappa") * _profile(job, "sync_MB") / 1000


def _bandwidth(job: _Filling) -> Floats:
    """Return GPUs x samples a second x GB a sample; an iteration waits for its input where cores are few."""
    gpus, cells = job.table["num_gpus"], job.table
    cores = np.maximum(cells["cpu_cores"] / np.maximum(gpus, 1), 1e-9)
    iteration_s = np.maximum((cells["active_ms"] + cells["idle_ms"]) / 1000, cells["input_core_s"] / cores)
    none = np.zeros(job.rows)
    samples: Floats = np.divide(gpus * _batch(job), iteration_s, out=none, where=iteration_s > 0)
    return samples * _profile(job, "host_mem_bw_MB_per_sample_est") / 1000


def _servers(job: _Filling) -> npt.NDArray[np.int64]:
    return np.zeros(job.rows, np.int64)


def _min_workers(job: _Filling) -> npt.NDArray[np.int64]:
    one: npt.NDArray[np.int64] = np.minimum(job.table["num_gpus"], 1).astype(np.int64)
    return one


def _max_workers(job: _Filling) -> npt.NDArray[np.int64]:
    most: npt.NDArray[np.int64] = (GROWTH * job.table["num_gpus"]).astype(np.int64)
    return most


def _scaling_loss(job: _Filling) -> Floats:
    """Return the share of one worker's iteration over the whole batch, alpha + beta * batch * GPUs, that is alpha."""
    alpha = _profile(job, "alpha_s")
    whole = alpha + _profile(job, "beta_s_per_sample_V100_fp32") * _batch(job) * job.table["num_gpus"]
    loss: Floats = np.minimum(np.divide(alpha, whole, out=np.zeros(job.rows), where=whole > 0), MOST_LOSS)
    return loss


def _cpu_slowdown(job: _Filling) -> Floats:
    """Return the seconds of an iteration on five cores over those on a V100; 0 where it was not measured."""
    gpu_s = (job.table["active_ms"] + job.table["idle_ms"]) / 1000
    cpu_s = _profile(job, "cpu_only_core_s_per_sample") * _batch(job) / WORKER_CORES
    known = np.isfinite(cpu_s) & (gpu_s > 0) & (job.table["num_gpus"] > 0)
    slowdown: Floats = np.divide(cpu_s, gpu_s, out=np.zeros(job.rows), where=known)
    return slowdown


def _predicted_duration(job: _Filling) -> Floats:
    """Return the profile, but where a job becomes predictable on the way the truth with a smaller error."""
    noise = np.exp(ERRORS[0] * job.stream("predicted_duration_s").standard_normal(job.rows))
    later = (job.table["predictable_from"] > 0) & (job.table["predictable_from"] < 1)
    better = np.maximum(job.table["duration_s"] * noise, 1.0)
    predicted: Floats = np.where(later, better, job.table["profiled_duration_s"])
    return predicted


def _crash_at(job: _Filling) -> Floats:
    where = job.stream("crash_at").random(job.rows) / CRASH_SHARE  # any share below 1 is as likely
    long = (job.table["duration_s"] >= CRASH_LEAST_S) & (job.table["num_gpus"] > 0)
    return np.where((where > 0) & (where < 1) & long, where, 1.0)


def _profiled_memory(job: _Filling) -> Floats:
    error = job.choices.get("memory_error", 0.0)
    noise = np.exp(error * job.stream("profiled_memory_gib").standard_normal(job.rows)) if error else 1.0
    profiled: Floats = np.minimum(job.table["gpu_memory_gib"] * noise, job.largest_gpu_gib)
    return profiled


def _profiled_iteration(job: _Filling) -> tuple[Floats, Floats]:
    """Return milliseconds of an iteration, GPU busy and idle: its length exact, the share with an error."""
    active, idle = (np.array(job.table[name], float) for name in ("active_ms", "idle_ms"))
    if not (error := job.choices.get("duty_error", 0.0)):
        return active, idle
    noise = np.exp(error * job.stream("profiled_active_ms").standard_normal(job.rows))
    both = active * noise + idle
    busy = np.divide(active * noise, both, out=np.zeros(job.rows), where=both > 0)
    return (active + idle) * busy, (active + idle) * (1 - busy)


def _profiled_active(job: _Filling) -> Floats:
    return _profiled_iteration(job)[0]


def _profiled_idle(job: _Filling) -> Floats:
    return _profiled_iteration(job)[1]


def _deadline(job: _Filling) -> Floats:
    """Return submission + (1 + slack) x estimated run time, which tells no truth; none unless asked for."""
    if not (mean := job.choices.get("deadline_slack", 0.0)):
        return np.zeros(job.rows)
    slack = 2 * mean * job.stream("deadline_s").random(job.rows)
    due: Floats = job.table["submit_s"] + (1 + slack) * job.table["profiled_duration_s"]
    return due


_DRAWS: dict[str, Callable[[_Filling], npt.NDArray[Any]]] = {
    "kind": _kind,
    "model": _model,
    "gpu_memory_gib": _gpu_memory,
    "cpu_cores": _cpu_cores,
    "checkpoint_gib": _checkpoint,
    "pause_s": pause,
    "load_s": load,
    "startup_s": startup,
    "predictable_from": _predictable_from,
    "profiled_duration_s": _profiled_duration,
    "profiled_memory_gib": _profiled_memory,
    "active_ms": _active,
    "idle_ms": _idle,
    "profiled_active_ms": _profiled_active,
    "profiled_idle_ms": _profiled_idle,
    "input_core_s": _input,
    "sync_gb": _sync,
    "bandwidth_gbs": _bandwidth,
    "servers": _servers,
    "min_workers": _min_workers,
    "max_workers": _max_workers,
    "scaling_loss": _scaling_loss,
    "cpu_slowdown": _cpu_slowdown,
    "predicted_duration_s": _predicted_duration,
    "crash_at": _crash_at,
    "deadline_s": _deadline,
}
"""Column by column, in the order in which one needs another; `COLUMNS` says in words how each is drawn."""
