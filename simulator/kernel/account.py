"""Recording of an episode: what each job did and held from when to when, and totals over time.

Nothing else in the kernel depends on it. After each instant `look` compares the record with the last seen state
of the jobs that hold resources or reservations, now or before, and appends changes to arrays that the caller
owns.
"""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
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
from gpu_cluster_gym.simulator.kernel.cluster.progress import refresh
from gpu_cluster_gym.simulator.kernel.rankings import rankings


def _row(**fields: str) -> np.dtype:
    """Return the dtype of a row of an account's array."""
    return np.dtype((np.record, np.dtype(list(fields.items()), align=True)))


# Last seen state of a job, and since when.
# began: serial number of its start. holding: its row in `holdings`. cores: per GPU, or in total without GPUs.
# shared: fraction of its GPUs that others also hold, while it runs. watched: 1 for a job in `AccountArrays.watched`.
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

# An interval without changes to a job; holding: its row in `holdings`, NOBODY for none.
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

# Resources that a job held since a start. gpus_end: end of its GPUs in the array `gpus`; they start at the end of the
# previous row. node: node of a job without GPUs, else NOBODY.
HOLDING = _row(job="i8", gpus_end="i8", workers="i8", servers="i8", node="i8")

# Totals from a time on: jobs by state; GPUs held by any job; GPUs of running jobs, of loading or pausing jobs, and of
# running jobs times efficiency, a shared GPU counting once per job; cores held; memory allocated.
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

# Number of rows in use of each array.
COUNTS = _row(watched="i8", segments="i8", holdings="i8", gpus="i8", totals="i8")


class AccountArrays(NamedTuple):
    """Arrays of an account.

    counts: one row of COUNTS.
    seen: (jobs,) of SEEN.
    watched: (jobs,), the jobs that held resources, had a reservation or were restarting at the last look,
    ascending.
    segments, holdings, gpus, totals: rows written so far, followed by unused rows.
    """

    counts: np.ndarray
    seen: np.ndarray
    watched: np.ndarray
    segments: np.ndarray
    holdings: np.ndarray
    gpus: np.ndarray
    totals: np.ndarray


def room_for(num_jobs: int, num_gpus: int) -> AccountArrays:
    """Return empty arrays with capacity for twice what an instant may change.

    An array that is too small for the next instant is therefore at least half full. `seen` is the state before
    all jobs arrive, except `since`, which is 0.
    """
    kept = AccountArrays(
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
"""Arrays of `AccountArrays` that grow."""


def with_more_room(kept: AccountArrays) -> AccountArrays:
    """Return the same account, with arrays doubled that are at least half full."""
    more = {}
    for name in WRITTEN:
        array, count = getattr(kept, name), kept.counts[name][0]
        if 2 * count >= len(array):
            more[name] = np.empty(2 * len(array), array.dtype)
            more[name][:count] = array[:count]
    return kept._replace(**more)


ENDED, STUCK, FULL = range(3)  # results of `run_rule`


@entry
def note(states, e, jobs, kept):
    """Record what this instant has changed; return False, with nothing written, if the arrays are too small."""
    return look(states[e], jobs, kept)


@entry
def run_rule(states, e, jobs, kept):
    """Carry out the active ranking to the end, and record each instant.

    Returns ENDED; STUCK if jobs are left but nothing happens; FULL if the arrays are too small to record this
    instant: call it again with larger arrays.
    """
    s = states[e]
    while look(s, jobs, kept):
        if s.num_done == s.num_jobs:
            return ENDED
        if not events.advance(s, jobs):
            return STUCK
        rankings.walk(s, jobs)
    return FULL


@compiled
def look(s, jobs, kept):
    """Record what this instant has changed, if the arrays are large enough; return whether they were."""
    if not has_room(s, kept):
        return False
    if s.num_changes > 0 and s.num_done < s.num_jobs:
        refresh(s, jobs)  # the next advance would do the same, so that recording changes no result
    look_again(s, kept)
    seen = kept.seen
    for k in range(s.num_active):
        if not seen[s.events[k]].watched:
            watch(s, kept, s.events[k])
    num_reserved = s.num_arrived - s.num_done - s.num_queued - s.num_held - s.num_active
    if num_reserved > 0:
        for gpu in range(s.num_gpus):
            job = s.reserved_for[gpu]
            if job >= 0 and s.phase[job] == RESERVED and not seen[job].watched:
                watch(s, kept, job)
    write_totals(s, jobs, kept, num_reserved)
    return True


@compiled
def has_room(s, kept):
    """Return whether the arrays can hold whatever an instant may change."""
    counts = kept.counts[0]
    changing = min(counts.watched + s.num_active + s.num_gpus, s.num_jobs)
    return (
        counts.segments + changing <= len(kept.segments)
        and counts.holdings + min(s.num_active, s.num_jobs) <= len(kept.holdings)
        and counts.gpus + MAX_SHARE * s.num_gpus <= len(kept.gpus)
        and counts.totals < len(kept.totals)
    )


@compiled
def look_again(s, kept):
    """Record changes of the watched jobs; stop watching jobs that hold nothing and have no reservation."""
    counts, seen, watched = kept.counts[0], kept.seen, kept.watched
    count = 0
    for k in range(counts.watched):
        job = watched[k]
        if not is_as_seen(s, seen[job], job):
            record_change(s, kept, job)
        if s.place_in_events[job] == NOBODY and s.phase[job] != RESERVED:
            seen[job].watched = 0
        else:
            watched[count] = job
            count += 1
    counts.watched = count


@compiled
def watch(s, kept, job):
    """Start watching a job. Jobs are kept in ascending order, so that sums do not depend on the order of arrival."""
    record_change(s, kept, job)
    kept.seen[job].watched = 1
    counts, watched = kept.counts[0], kept.watched
    at = counts.watched
    while at > 0 and watched[at - 1] > job:
        watched[at] = watched[at - 1]
        at -= 1
    watched[at] = job
    counts.watched += 1


@compiled
def holds_something(s, job):
    """Return whether a job holds GPUs or cores."""
    return s.phase[job] in (LOADING, RUNNING, PAUSING)


@compiled
def shared_of(s, job):
    """Return the fraction of its GPUs that a running job shares; 0 in other phases."""
    return s.shared_fraction[job] if s.phase[job] == RUNNING else 0.0


@compiled
def is_as_seen(s, seen, job):
    """Return whether nothing has changed about a job since it was last seen."""
    if seen.phase != s.phase[job] or not holds_something(s, job):
        return seen.phase == s.phase[job]
    return (
        seen.began == s.began[job]
        and seen.cores == s.core_count[job]
        and seen.throttle == s.throttle[job]
        and seen.shared == shared_of(s, job)
    )


@compiled
def record_change(s, kept, job):
    """Close the segment of a changed job and begin another."""
    seen = kept.seen[job]
    holds = holds_something(s, job)
    close(s, kept, job)
    if not holds:
        seen.holding = NOBODY
    elif seen.holding == NOBODY or seen.began != s.began[job]:
        seen.holding = write_holding(s, kept, job)
    seen.phase = s.phase[job]
    seen.since = s.clock
    seen.began = s.began[job]
    seen.cores = s.core_count[job] if holds else 0.0
    seen.throttle = s.throttle[job] if holds else 1.0
    seen.shared = shared_of(s, job)


@compiled
def close(s, kept, job):
    """Write a job's segment up to now, unless its length is 0."""
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
    """Write what a job holds since its last start; return the row."""
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
    """Write the totals from this time on, replacing those of an earlier instant at the same time."""
    counts, watched = kept.counts[0], kept.watched
    if counts.totals == 0 or kept.totals[counts.totals - 1].time_s < s.clock:
        counts.totals += 1
    total = kept.totals[counts.totals - 1]
    total.time_s = s.clock
    total.present = s.num_arrived - s.num_done
    total.queued = s.num_queued + s.num_held
    total.reserved = num_reserved
    restarting, running, idle = 0, 0, 0
    busy, cores, memory = 0.0, 0.0, 0.0
    for k in range(counts.watched):
        job = watched[k]
        if s.phase[job] == RESTARTING or s.phase[job] == RESERVED:
            restarting += s.phase[job] == RESTARTING
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
    """Return the number of GPUs that any job holds."""
    held = 0
    for gpu in range(s.num_gpus):
        held += s.num_jobs_on[gpu] > 0
    return held
