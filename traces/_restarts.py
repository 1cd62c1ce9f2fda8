"""What pauses, loads and first starts cost where a trace does not tell."""

from __future__ import annotations

import numpy as np

from gpu_cluster_gym.traces._filling import Filling, profile
from gpu_cluster_gym.traces._profiles import LEAST_START_S, Floats, default

_NOISE = "preemption noise, lognormal sigma"
_SPREAD = "preemption noise of mean 1, lognormal sigma"
_STORAGE = "checkpoint storage bandwidth, shared NFS"
TEARDOWN_S = 2.0  # a pause ends processes as well as writing a checkpoint: our choice
REOPENED = default("share of data_reopen_s in a restart")
RESTART_S = (
    LEAST_START_S,
    600.0,
)  # minimum of a high-cost restart, maximum of any (up to rounding): our choice


def pause(job: Filling) -> Floats:
    """Draw the seconds that a pause takes."""
    return _restart(job)[0]


def load(job: Filling) -> Floats:
    """Draw the seconds that a load takes."""
    return _restart(job)[1]


def startup(job: Filling) -> Floats:
    """Draw the seconds that a start from nothing takes: a load without its checkpoint, and never more than a load."""
    start = _start(job)[0] * (job.table["num_gpus"] > 0)
    seconds: Floats = np.minimum(start, job.table["load_s"])
    return seconds


def _restart(job: Filling) -> tuple[Floats, Floats]:
    """Draw the seconds that a pause and a load take: as measured, or where `restart_cost` is high as by Sia alone.

    As measured the load is the start-up and the checkpoint's read, the pause its write and a teardown.
    """
    if job.choices.get("restart_cost") == "high":
        return _dear_restart(job)
    start, noise = _start(job)
    transfer = np.rint(_write(job) * noise)
    return transfer + TEARDOWN_S, start + transfer


def _start(job: Filling) -> tuple[Floats, Floats]:
    """Draw the seconds from a process to the first iteration, without a checkpoint, and the factor that they have.

    Start-up + a tenth of the data's reopening, times (1 + 0.15 log2 GPUs), times lognormal noise of mean 1.
    """
    spread = default(_SPREAD)
    noise = np.exp(spread * job.stream("pause_s").standard_normal(job.rows) - spread**2 / 2) * _wider(job)
    once = profile(job, "startup_s") + REOPENED * profile(job, "data_reopen_s")
    most = (RESTART_S[1] - TEARDOWN_S) / (once + 2 * _write(job))
    return np.rint(once * np.minimum(noise, most)), np.minimum(noise, most)


def _dear_restart(job: Filling) -> tuple[Floats, Floats]:
    """Draw the seconds that a pause and a load take where a start reopens all its data, as in Sia's constants.

    Together startup + checkpoint written + checkpoint read + data reopened, times (1 + 0.15 log2 GPUs), times
    lognormal noise of median 1. The pause is the write, and a teardown out of the rest.
    """
    write = _write(job)
    once = 2 * write + profile(job, "startup_s") + profile(job, "data_reopen_s")
    noise = np.exp(default(_NOISE) * job.stream("pause_s").standard_normal(job.rows))
    whole = np.rint(np.clip(once * _wider(job) * noise, *RESTART_S))
    pause = np.minimum(np.rint(whole * write / once + TEARDOWN_S), whole)
    return pause, whole - pause


def _write(job: Filling) -> Floats:
    """Return the seconds in which a checkpoint is written to shared storage, or read from it."""
    seconds: Floats = job.table["checkpoint_gib"] * 2**30 / (default(_STORAGE) * 1e9)
    return seconds


def _wider(job: Filling) -> Floats:
    """Return how much longer a job of its GPUs takes to restart than one of one GPU."""
    longer: Floats = 1 + 0.15 * np.log2(np.maximum(job.table["num_gpus"], 1))
    return longer
