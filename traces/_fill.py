"""Values for columns that a trace lacks, drawn from public measurements of training jobs.

The figures are those of `data/models.csv` and `data/hardware.csv`; `data/SOURCES.md` names their authors. Every column
has its own random stream, by its name, so a column that the trace does have changes no other draws, nor does a new
column; a job's values depend on the seed, its row and the rows before it. Users, virtual clusters, states and logged
starts cannot be drawn: where a trace has none, the filled table has none.

pandas is imported inside functions: the commands' --help imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_cluster_gym.traces._asking import refuse_while_asking
from gpu_cluster_gym.traces._columns import COLUMNS
from gpu_cluster_gym.traces._streams import stream
from gpu_cluster_gym.traces._table import Origins

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]

DATA = Path(__file__).parent / "data"
STATISTICS = DATA / "philly_statistics.json"
NO_MODEL = "none"
STAND_IN = "resnet50"
MIN_START_S = 5.0  # of a job's start-up: our choice

RUN_GAP_S = 60.0  # maximum gap between jobs of a run (philly_statistics.json, batch_gap_60s)
BATCH_SPREAD = 0.25  # standard deviation of the log of a batch size around its model's default: our choice
PREDICTABLE_SHARE = 0.7  # of the jobs: our assumption
CRASH_SHARE = (
    0.185  # of long jobs: those of Philly with a gap in their run (philly_statistics.json, restarts)
)
CRASH_MIN_S = 3600.0  # run time of a long job
WORKER_CORES = 5  # of a worker without a GPU (Aiturbo-vGPU's pods)
MAX_LOSS = 0.5  # of a profile's scaling: our choice
GROWTH = 2  # maximum workers over the workers asked for: our assumption
ERRORS = (0.25, 1.0)
"""Standard deviation of the log of the profiled duration, predictable and not: our assumption."""

_NOISE = "preemption noise, lognormal sigma"
_SPREAD = "preemption noise of mean 1, lognormal sigma"
_STORAGE = "checkpoint storage bandwidth, shared NFS"
TEARDOWN_S = 2.0  # a pause also ends the job's processes: our choice
_REOPENED = "share of data_reopen_s in a restart"
RESTART_S = (MIN_START_S, 600.0)  # minimum of a high-cost restart, maximum of any, up to rounding: our choice


@cache
def models() -> pd.DataFrame:
    """Return the profiles, a row per model, and a row `NO_MODEL` for jobs without a model, which only start up."""
    import pandas as pd

    figures = pd.read_csv(DATA / "models.csv", index_col="model").select_dtypes("number").astype(float)
    figures.loc[NO_MODEL] = 0.0
    figures.loc[NO_MODEL, "startup_s"] = MIN_START_S
    return figures


@cache
def _default(parameter: str) -> float:
    """Return the default of a parameter in hardware.csv."""
    import pandas as pd

    hardware = pd.read_csv(DATA / "hardware.csv")
    (value,) = hardware.loc[(hardware["kind"] == "default") & (hardware["name"] == parameter), "value"]
    return float(value)


def speed_on(gpu_type: str, names: pd.Series) -> Floats:
    """Return the compute speed of jobs on a type of GPU relative to a V100: float (jobs,).

    gpu_type: a GPU type with measured speeds, in lower case; KeyError for another.
    names: the model of each job; `STAND_IN` stands for a model without profile.
    """
    speeds = models().filter(like="speed_")
    known = {str(name).removeprefix("speed_").removesuffix("_tf32").lower(): name for name in speeds}
    speed = speeds[known[gpu_type]] / speeds["speed_V100"]
    filled: Floats = speed.reindex(names).fillna(speed[STAND_IN]).to_numpy()
    return filled


def fill(
    table: pd.DataFrame, *, seed: int, largest_gpu_gib: float, cores_per_gpu: int = 6, **choices: Any
) -> pd.DataFrame:
    """Return a copy of a checked job table in which every column that can be drawn is present.

    No job gets a model, or a memory, beyond the largest GPU of the cluster, nor more than `cores_per_gpu` cores for
    each of its GPUs. choices: fields of the scenario, for columns that depend on them. `attrs["origin"]` holds how each
    column was filled. ValueError if no profiled model fits that GPU.
    """
    refuse_while_asking("a job table")
    filled = table.copy()
    cells = {name: filled[name].to_numpy() for name in filled.columns}
    job = Filling(cells, largest_gpu_gib, cores_per_gpu, seed, choices)
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
        notes.append(f"models without a profile, simulated with that of {STAND_IN}: {', '.join(strange)}")
    filled.attrs = {**table.attrs, "origin": origin, "notes": notes}
    return filled


def runs(
    vc: npt.NDArray[Any], num_gpus: npt.NDArray[Any], submit_s: Floats, gap_s: float = RUN_GAP_S
) -> npt.NDArray[np.int64]:
    """Return the first row of each job's run, int64 (jobs,), given jobs in order of submission.

    A run is a sequence of jobs that one virtual cluster submits one after another, with the same GPU count and gaps of
    at most `gap_s`.
    """
    order = np.argsort(vc, kind="stable")
    owner, gpus, at = vc[order], num_gpus[order], submit_s[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (owner[1:] != owner[:-1]) | (gpus[1:] != gpus[:-1]) | (np.diff(at) > gap_s)
    first = np.empty(len(order), np.int64)
    first[order] = order[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    return first


@dataclass(frozen=True)
class Filling:
    """A table during filling, column by column, with a random stream for each column."""

    table: dict[str, npt.NDArray[Any]]
    largest_gpu_gib: float
    cores_per_gpu: int
    seed: int
    choices: Mapping[str, Any]

    def stream(self, column: str) -> np.random.Generator:
        """Return the random stream of a column."""
        return stream(self.seed, "column", column)

    @property
    def rows(self) -> int:
        """Number of jobs."""
        return len(self.table["num_gpus"])

    @cached_property
    def profiles(self) -> npt.NDArray[np.int64]:
        """Row of each job's model among the profiles; a model without a profile gets that of resnet50."""
        import pandas as pd

        index = models().index
        (stand_in,) = index.get_indexer(pd.Index([STAND_IN]))
        row = index.get_indexer(pd.Index(self.table["model"]))
        return np.where(row < 0, stand_in, row)


def profile(job: Filling, figure: str) -> Floats:
    """Return a figure of each job's model."""
    return models()[figure].to_numpy()[job.profiles]


def _model(job: Filling) -> npt.NDArray[Any]:
    """Draw one model for each run, among those that fit the largest GPU; a CPU job trains none."""
    peak = models()["mem_default_MiB"].drop(NO_MODEL) / 1024
    fits = peak.index[peak <= job.largest_gpu_gib]
    if fits.empty:
        gpu = f"a GPU of {job.largest_gpu_gib:g} GiB"
        raise ValueError(f"no profiled model fits {gpu}: expected GPUs of at least {peak.min():.2f} GiB")
    gpus = job.table["num_gpus"]
    run = runs(job.table.get("vc", np.full(job.rows, "")).astype(str), gpus, job.table["submit_s"])
    choice = (job.stream("model").random(job.rows) * len(fits)).astype(int)[run]
    return np.where(gpus > 0, fits.to_numpy(object)[choice], NO_MODEL).astype(object)


def _batch(job: Filling) -> Floats:
    """Draw batch sizes around the models' defaults, at most what fits the largest GPU."""
    drawn = np.exp(BATCH_SPREAD * job.stream("gpu_memory_gib").standard_normal(job.rows))
    wanted = np.maximum(np.rint(profile(job, "default_batch_per_gpu") * drawn), profile(job, "min_batch"))
    each = profile(job, "mem_per_sample_MiB")
    room = job.largest_gpu_gib * 1024 - profile(job, "mem_fixed_MiB")
    most = np.where(each > 0, np.floor(room / np.where(each > 0, each, 1)), wanted)
    return np.maximum(np.minimum(wanted, most), 1)


def _gpu_memory(job: Filling) -> Floats:
    peak = (profile(job, "mem_fixed_MiB") + profile(job, "mem_per_sample_MiB") * _batch(job)) / 1024
    return np.minimum(peak, job.largest_gpu_gib)


def _cpu_cores(job: Filling) -> npt.NDArray[np.int64]:
    gpus = job.table["num_gpus"]
    wanted = np.ceil(profile(job, "input_cores_at_default_V100"))
    each = np.clip(wanted, 1, job.cores_per_gpu).astype(np.int64)
    return np.where(gpus > 0, each * gpus, job.cores_per_gpu)


def _iteration(job: Filling) -> tuple[Floats, Floats]:
    """Return the ms of one iteration on a V100, alpha + beta * batch, with the GPU busy and idle."""
    whole = 1e3 * (profile(job, "alpha_s") + profile(job, "beta_s_per_sample_V100_fp32") * _batch(job))
    busy = profile(job, "gpu_util_default_pct") / 100
    return whole * busy, whole * (1 - busy)


def _predictable_from(job: Filling) -> Floats:
    return np.where(job.stream("predictable_from").random(job.rows) < PREDICTABLE_SHARE, 0.0, 1.0)


def _profiled_duration(job: Filling) -> Floats:
    error = np.where(job.table["predictable_from"] < 1, *ERRORS)
    noise = np.exp(error * job.stream("profiled_duration_s").standard_normal(job.rows))
    profiled: Floats = np.maximum(job.table["duration_s"] * noise, 1.0)
    return profiled


def _bandwidth(job: Filling) -> Floats:
    """Return GPUs x samples per second x GB per sample; with few cores an iteration waits for its input."""
    gpus, cells = job.table["num_gpus"], job.table
    cores = np.maximum(cells["cpu_cores"] / np.maximum(gpus, 1), 1e-9)
    iteration_s = np.maximum((cells["active_ms"] + cells["idle_ms"]) / 1000, cells["input_core_s"] / cores)
    none = np.zeros(job.rows)
    samples: Floats = np.divide(gpus * _batch(job), iteration_s, out=none, where=iteration_s > 0)
    return samples * profile(job, "host_mem_bw_MB_per_sample_est") / 1000


def _scaling_loss(job: Filling) -> Floats:
    """Return alpha / (alpha + beta * batch * GPUs): the part of an iteration that more workers do not shorten."""
    alpha = profile(job, "alpha_s")
    whole = alpha + profile(job, "beta_s_per_sample_V100_fp32") * _batch(job) * job.table["num_gpus"]
    loss: Floats = np.minimum(np.divide(alpha, whole, out=np.zeros(job.rows), where=whole > 0), MAX_LOSS)
    return loss


def _cpu_slowdown(job: Filling) -> Floats:
    """Return the time of an iteration on five cores over that on a V100; 0 where it was not measured."""
    gpu_s = (job.table["active_ms"] + job.table["idle_ms"]) / 1000
    cpu_s = profile(job, "cpu_only_core_s_per_sample") * _batch(job) / WORKER_CORES
    known = np.isfinite(cpu_s) & (gpu_s > 0) & (job.table["num_gpus"] > 0)
    slowdown: Floats = np.divide(cpu_s, gpu_s, out=np.zeros(job.rows), where=known)
    return slowdown


def _predicted_duration(job: Filling) -> Floats:
    """Return the profiled duration, or the truth with the smaller error where a job becomes predictable later."""
    noise = np.exp(ERRORS[0] * job.stream("predicted_duration_s").standard_normal(job.rows))
    later = (job.table["predictable_from"] > 0) & (job.table["predictable_from"] < 1)
    better = np.maximum(job.table["duration_s"] * noise, 1.0)
    predicted: Floats = np.where(later, better, job.table["profiled_duration_s"])
    return predicted


def _crash_at(job: Filling) -> Floats:
    where = (
        job.stream("crash_at").random(job.rows) / CRASH_SHARE
    )  # uniform over the run, beyond it for the other jobs
    long = (job.table["duration_s"] >= CRASH_MIN_S) & (job.table["num_gpus"] > 0)
    return np.where((where > 0) & (where < 1) & long, where, 1.0)


def _profiled_memory(job: Filling) -> Floats:
    error = job.choices.get("memory_error", 0.0)
    noise = np.exp(error * job.stream("profiled_memory_gib").standard_normal(job.rows)) if error else 1.0
    profiled: Floats = np.minimum(job.table["gpu_memory_gib"] * noise, job.largest_gpu_gib)
    return profiled


def _profiled_iteration(job: Filling) -> tuple[Floats, Floats]:
    """Return ms of an iteration with the GPU busy and idle: exact in total, the busy share with an error."""
    active, idle = (np.array(job.table[name], float) for name in ("active_ms", "idle_ms"))
    if not (error := job.choices.get("duty_error", 0.0)):
        return active, idle
    noise = np.exp(error * job.stream("profiled_active_ms").standard_normal(job.rows))
    both = active * noise + idle
    busy = np.divide(active * noise, both, out=np.zeros(job.rows), where=both > 0)
    return (active + idle) * busy, (active + idle) * (1 - busy)


def _deadline(job: Filling) -> Floats:
    """Return submission + (1 + slack) x estimated run time, which hides the true one; 0 unless requested."""
    if not (mean := job.choices.get("deadline_slack", 0.0)):
        return np.zeros(job.rows)
    slack = 2 * mean * job.stream("deadline_s").random(job.rows)
    due: Floats = job.table["submit_s"] + (1 + slack) * job.table["profiled_duration_s"]
    return due


def _startup(job: Filling) -> Floats:
    """Draw the seconds of a start from scratch: a load without its checkpoint, never longer than a load."""
    start = _start(job)[0] * (job.table["num_gpus"] > 0)
    seconds: Floats = np.minimum(start, job.table["load_s"])
    return seconds


def _restart(job: Filling) -> tuple[Floats, Floats]:
    """Draw the seconds of a pause and of a load, as measured, or as in Sia where `restart_cost` is high.

    As measured, the load is the start-up and the checkpoint's read, the pause its write and a teardown.
    """
    if job.choices.get("restart_cost") == "high":
        return _high_restart(job)
    start, noise = _start(job)
    transfer = np.rint(_write(job) * noise)
    return transfer + TEARDOWN_S, start + transfer


def _start(job: Filling) -> tuple[Floats, Floats]:
    """Draw the seconds from a process to its first iteration, without a checkpoint, and their noise factor.

    (start-up + a tenth of the data's reopening) x (1 + 0.15 log2 GPUs) x lognormal noise of mean 1
    """
    spread = _default(_SPREAD)
    noise = np.exp(spread * job.stream("pause_s").standard_normal(job.rows) - spread**2 / 2) * _wider(job)
    once = profile(job, "startup_s") + _default(_REOPENED) * profile(job, "data_reopen_s")
    most = (RESTART_S[1] - TEARDOWN_S) / (once + 2 * _write(job))
    return np.rint(once * np.minimum(noise, most)), np.minimum(noise, most)


def _high_restart(job: Filling) -> tuple[Floats, Floats]:
    """Draw the seconds of a pause and of a load where a start reopens all its data, as in Sia's constants.

    Together (start-up + checkpoint write + checkpoint read + data reopening) x (1 + 0.15 log2 GPUs) x lognormal noise
    of median 1. The pause is the write plus a teardown, which is taken from the rest.
    """
    write = _write(job)
    once = 2 * write + profile(job, "startup_s") + profile(job, "data_reopen_s")
    noise = np.exp(_default(_NOISE) * job.stream("pause_s").standard_normal(job.rows))
    whole = np.rint(np.clip(once * _wider(job) * noise, *RESTART_S))
    pause = np.minimum(np.rint(whole * write / once + TEARDOWN_S), whole)
    return pause, whole - pause


def _write(job: Filling) -> Floats:
    """Return the seconds to write a checkpoint to shared storage, or to read it."""
    seconds: Floats = job.table["checkpoint_gib"] * 2**30 / (_default(_STORAGE) * 1e9)
    return seconds


def _wider(job: Filling) -> Floats:
    """Return the restart time of a job over that of a job with one GPU."""
    longer: Floats = 1 + 0.15 * np.log2(np.maximum(job.table["num_gpus"], 1))
    return longer


_DRAWS: dict[str, Callable[[Filling], npt.NDArray[Any]]] = {
    "kind": lambda job: np.where(job.table["num_gpus"] > 0, "gpu", "cpu").astype(object),
    "model": _model,
    "gpu_memory_gib": _gpu_memory,
    "cpu_cores": _cpu_cores,
    "checkpoint_gib": lambda job: profile(job, "checkpoint_MB") * 1e6 / 2**30,
    "pause_s": lambda job: _restart(job)[0],
    "load_s": lambda job: _restart(job)[1],
    "startup_s": _startup,
    "predictable_from": _predictable_from,
    "profiled_duration_s": _profiled_duration,
    "profiled_memory_gib": _profiled_memory,
    "active_ms": lambda job: _iteration(job)[0],
    "idle_ms": lambda job: _iteration(job)[1],
    "profiled_active_ms": lambda job: _profiled_iteration(job)[0],
    "profiled_idle_ms": lambda job: _profiled_iteration(job)[1],
    "input_core_s": lambda job: profile(job, "input_core_s_per_sample") * _batch(job),
    "sync_gb": lambda job: profile(job, "sync_factor_kappa") * profile(job, "sync_MB") / 1000,
    "bandwidth_gbs": _bandwidth,
    "servers": lambda job: np.zeros(job.rows, np.int64),
    "min_workers": lambda job: np.minimum(job.table["num_gpus"], 1).astype(np.int64),
    "max_workers": lambda job: (GROWTH * job.table["num_gpus"]).astype(np.int64),
    "scaling_loss": _scaling_loss,
    "cpu_slowdown": _cpu_slowdown,
    "predicted_duration_s": _predicted_duration,
    "crash_at": _crash_at,
    "deadline_s": _deadline,
}
"""Functions by column, in the order of their dependencies; `COLUMNS` describes each in words."""
