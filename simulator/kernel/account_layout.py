"""What an account of an episode is written in: arrays of rows, which grow."""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, QUEUED


def _row(**fields: str) -> np.dtype:
    """Return the type of a row of an account's array: the type of each field."""
    return np.dtype((np.record, np.dtype(list(fields.items()), align=True)))


# What was last seen of a job, and since when it has been like this.
# began: the number of its start. holding: the row of that. cores: a GPU, or of the whole job without GPUs.
# shared: share of its GPUs that others hold too, while it runs. watched: 1 for a job in `Kept.watched`.
SEEN = _row(
    since="f8",
    phase="i8",
    began="i8",
    holding="i8",
    cores="f8",
    throttle="f8",
    shared="f8",
    watched="i8",
)

# A time in which nothing changed about a job; holding: the row of what it held, NOBODY for nothing.
SEGMENT = _row(
    job="i8",
    phase="i8",
    from_s="f8",
    to_s="f8",
    holding="i8",
    cores="f8",
    throttle="f8",
    shared="f8",
)

# What a job held from a start on. gpus_end: its GPUs are those listed before here, from that of the row before on.
# node: of a job without GPUs, else NOBODY.
HOLDING = _row(job="i8", gpus_end="i8", workers="i8", servers="i8", node="i8")

# Totals from a time on: jobs; GPUs that any job holds; GPUs of running jobs, of those that load or pause, and of
# running ones times efficiency, one that is shared once for each job; cores held; memory taken.
TOTALS = _row(
    time_s="f8",
    present="i8",
    queued="i8",
    reserved="i8",
    restarting="i8",
    held_gpus="i8",
    running_gpus="i8",
    idle_gpus="i8",
    busy_gpus="f8",
    cores="f8",
    memory_gib="f8",
)

# How much of each array is in use.
COUNTS = _row(watched="i8", segments="i8", holdings="i8", gpus="i8", totals="i8")


class Kept(NamedTuple):
    """The arrays of an account.

    counts: one row of COUNTS. seen: (jobs,) of SEEN. watched: (jobs,), the jobs that held something, had GPUs kept for
    them or were restarting when last looked at, by job. segments, holdings, gpus, totals: what has been written, and
    room for more.
    """

    counts: np.ndarray
    seen: np.ndarray
    watched: np.ndarray
    segments: np.ndarray
    holdings: np.ndarray
    gpus: np.ndarray
    totals: np.ndarray


def room_for(num_jobs: int, num_gpus: int) -> Kept:
    """Return the arrays of an account of which nothing is written yet, with room for twice what an instant may change.

    So an array that has no room left is at least half full. `seen` is as before all jobs arrive, but for `since`,
    which is left at 0.
    """
    kept = Kept(
        counts=np.zeros(1, COUNTS),
        seen=np.zeros(num_jobs, SEEN),
        watched=np.zeros(num_jobs, np.int64),
        segments=np.empty(2 * num_jobs, SEGMENT),
        holdings=np.empty(2 * num_jobs, HOLDING),
        gpus=np.empty(2 * MAX_SHARE * num_gpus, np.int32),
        totals=np.empty(2 * num_jobs + 2, TOTALS),
    )
    kept.seen["phase"] = QUEUED
    kept.seen["holding"] = NOBODY
    kept.seen["throttle"] = 1.0
    return kept


WRITTEN = ("segments", "holdings", "gpus", "totals")
"""The arrays of `Kept` that grow."""


def with_more_room(kept: Kept) -> Kept:
    """Return the same account with its arrays doubled that are at least half full."""
    more = {}
    for name in WRITTEN:
        array, count = getattr(kept, name), kept.counts[name][0]
        if 2 * count >= len(array):
            more[name] = np.empty(2 * len(array), array.dtype)
            more[name][:count] = array[:count]
    return kept._replace(**more)
