"""The account of an episode: what each job did from when to when, what it held, and totals over time.

Nothing else in the kernel knows of it. After each instant `look` compares the record with what was last seen of the
jobs that hold something or have GPUs kept for them, now or then, and appends what has changed to arrays that its caller
owns.
"""

from typing import NamedTuple

import numpy as np

from simulator.kernel import events, scheduling
from simulator.kernel._compile import compiled, entry
from simulator.kernel.layout import (
    CHARGED,
    LOADING,
    MAX_SHARE,
    NOBODY,
    PAUSING,
    QUEUED,
    RESERVED,
    RESTARTING,
    RUNNING,
)
from simulator.kernel.progress import refresh

ENDED, STUCK, FULL = range(3)  # how `run_rule` returns

SEEN = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("since", "f8"),  # s; from when on it has been like this
                ("began", "i8"),  # the number of its start, like the next four of a job that holds something
                ("holding", "i8"),  # the row of that start, else NOBODY
                ("cores", "f8"),  # a GPU, or of the whole job without GPUs
                ("throttle", "f8"),
                ("shared", "f8"),  # share of its GPUs that others hold too, while it runs
                ("phase", "i8"),
            ],
            align=True,
        ),
    )
)
"""What was last seen of a job."""

SEGMENT = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("job", "i8"),
                ("phase", "i8"),
                ("from_s", "f8"),
                ("to_s", "f8"),
                ("holding", "i8"),  # row of what it held, NOBODY for nothing
                ("cores", "f8"),
                ("throttle", "f8"),
                ("shared", "f8"),
            ],
            align=True,
        ),
    )
)
"""A time in which nothing changed about a job."""

HOLDING = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("job", "i8"),
                ("gpus_end", "i8"),  # its GPUs are those listed before here, from the end of the row before
                ("workers", "i8"),
                ("servers", "i8"),
                ("node", "i8"),  # of a job without GPUs, else NOBODY
            ],
            align=True,
        ),
    )
)
"""What a job held from a start on."""

TOTALS = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("time_s", "f8"),
                ("present", "i8"),  # jobs submitted and not done
                ("queued", "i8"),
                ("reserved", "i8"),
                ("restarting", "i8"),
                ("held_gpus", "i8"),  # with any job
                ("running_gpus", "i8"),  # of running jobs, one for each job on it, like the next two
                ("idle_gpus", "i8"),  # of jobs that load or pause
                ("busy_gpus", "f8"),  # sum of GPUs x efficiency of running jobs
                ("cores", "f8"),  # held by jobs
                ("memory_gib", "f8"),  # taken on GPUs
            ],
            align=True,
        ),
    )
)
"""Totals from a time on, until that of the next row."""

COUNTS = np.dtype(
    (
        np.record,
        np.dtype(
            [(name, "i8") for name in ("watched", "segments", "holdings", "gpus", "totals")], align=True
        ),
    )
)
"""How much of each array is in use."""


class Kept(NamedTuple):
    """The arrays of an account.

    counts: one row of COUNTS. seen: (jobs,) of SEEN. watched: (jobs,), the jobs that held something, or had GPUs kept
    for them, when last looked at. segments, holdings, gpus, totals: what has been written, and room for more.
    """

    counts: np.ndarray
    seen: np.ndarray
    watched: np.ndarray
    segments: np.ndarray
    holdings: np.ndarray
    gpus: np.ndarray
    totals: np.ndarray


@entry
def note(states, e, jobs, kept):
    """Take down what this instant has changed; tell whether there was room, without which nothing is written."""
    return look(states[e], jobs, kept)


@entry
def run_rule(states, e, jobs, kept):
    """Carry out the active ranking to the end, and take down each instant.

    ENDED; STUCK where jobs are left and nothing happens; FULL where there was no room to take down this instant: to be
    called again when there is.
    """
    s = states[e]
    while look(s, jobs, kept):
        if s.num_done == s.num_jobs:
            return ENDED
        if not events.advance(s, jobs):
            return STUCK
        scheduling.walk(s, jobs)
    return FULL


@compiled
def look(s, jobs, kept):
    """Take down what this instant has changed, if there is room; tell whether there was."""
    if not has_room(s, kept):
        return False
    if s.num_changes > 0 and s.num_done < s.num_jobs:
        refresh(s, jobs)  # as time does before it goes on, so that this changes nothing
    counts = kept.counts[0]
    for k in range(counts.watched):
        if s.place_in_events[kept.watched[k]] == NOBODY:
            look_at(s, kept, kept.watched[k])
    for k in range(s.num_active):
        look_at(s, kept, s.events[k])
        kept.watched[k] = s.events[k]
    counts.watched = s.num_active
    num_reserved = s.num_arrived - s.num_done - s.num_queued - s.num_active
    if num_reserved > 0:
        look_at_reserved(s, kept)
    write_totals(s, jobs, kept, num_reserved)
    return True


@compiled
def has_room(s, kept):
    """Tell whether the arrays hold whatever an instant may change."""
    counts = kept.counts[0]
    changing = min(counts.watched + s.num_active + s.num_gpus, s.num_jobs)
    return (
        counts.segments + changing <= len(kept.segments)
        and counts.holdings + min(s.num_active, s.num_jobs) <= len(kept.holdings)
        and counts.gpus + MAX_SHARE * s.num_gpus <= len(kept.gpus)
        and counts.totals < len(kept.totals)
    )


@compiled
def look_at_reserved(s, kept):
    """Look at the jobs that wait for GPUs which are kept for them."""
    counts = kept.counts[0]
    for gpu in range(s.num_gpus):
        job = s.reserved_for[gpu]
        if job < 0 or s.phase[job] != RESERVED:
            continue
        if counts.watched > 0 and kept.watched[counts.watched - 1] == job:
            continue
        known = False
        for k in range(s.num_active, counts.watched):
            known |= kept.watched[k] == job
        if not known:
            look_at(s, kept, job)
            kept.watched[counts.watched] = job
            counts.watched += 1


@compiled
def look_at(s, kept, job):
    """Close the segment of a job that is no longer as it was, and begin another."""
    seen = kept.seen[job]
    phase = s.phase[job]
    holds = phase in (LOADING, RUNNING, PAUSING)
    shared = s.shared_fraction[job] if phase == RUNNING else 0.0
    if seen.phase == phase and (
        not holds
        or (
            seen.began == s.began[job]
            and seen.cores == s.core_count[job]
            and seen.throttle == s.throttle[job]
            and seen.shared == shared
        )
    ):
        return
    close(s, kept, job)
    if not holds:
        seen.holding = NOBODY
    elif seen.holding == NOBODY or seen.began != s.began[job]:
        seen.holding = write_holding(s, kept, job)
    seen.phase = phase
    seen.since = s.clock
    seen.began = s.began[job]
    seen.cores = s.core_count[job] if holds else 0.0
    seen.throttle = s.throttle[job] if holds else 1.0
    seen.shared = shared


@compiled
def close(s, kept, job):
    """Write how a job has been until now, unless that was no time at all."""
    seen = kept.seen[job]
    if seen.since >= s.clock:
        return
    counts = kept.counts[0]
    segment = kept.segments[counts.segments]
    segment.job = job
    segment.phase = seen.phase
    segment.from_s = seen.since
    segment.to_s = s.clock
    segment.holding = seen.holding
    segment.cores = seen.cores
    segment.throttle = seen.throttle
    segment.shared = seen.shared
    counts.segments += 1


@compiled
def write_holding(s, kept, job):
    """Write what a job has held since its last start; return the row."""
    counts = kept.counts[0]
    slot = s.first_slot[job]
    while slot != NOBODY:
        kept.gpus[counts.gpus] = slot // MAX_SHARE
        counts.gpus += 1
        slot = s.next_slot[slot]
    row = kept.holdings[counts.holdings]
    row.job = job
    row.gpus_end = counts.gpus
    row.workers = s.workers[job]
    row.servers = s.servers[job]
    row.node = s.node_of[job]
    counts.holdings += 1
    return counts.holdings - 1


@compiled
def write_totals(s, jobs, kept, num_reserved):
    """Write the totals from this time on, over those of an earlier instant at the same time."""
    counts = kept.counts[0]
    if counts.totals == 0 or kept.totals[counts.totals - 1].time_s < s.clock:
        counts.totals += 1
    total = kept.totals[counts.totals - 1]
    total.time_s = s.clock
    total.present = s.num_arrived - s.num_done
    total.queued = s.num_queued
    total.reserved = num_reserved
    restarting, running, idle = 0, 0, 0
    busy, cores, memory = 0.0, 0.0, 0.0
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == RESTARTING:
            restarting += 1
            continue
        width = s.width[job]
        cores += s.core_count[job] * max(width, 1)
        if s.charged[job] == CHARGED:
            memory += jobs[job].gpu_memory_gib * width
        if s.phase[job] == RUNNING:
            running += width
            busy += width * s.efficiency[job]
        else:
            idle += width
    total.restarting = restarting
    total.running_gpus = running
    total.idle_gpus = idle
    total.held_gpus = running + idle if s.max_share == 1 else count_held(s)
    total.busy_gpus = busy
    total.cores = cores
    total.memory_gib = memory


@compiled
def count_held(s):
    """Count the GPUs that any job holds."""
    held = 0
    for gpu in range(s.num_gpus):
        held += s.num_jobs_on[gpu] > 0
    return held


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
