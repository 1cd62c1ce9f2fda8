"""What an observation looks up beside the record: an environment's own, never needed to simulate on."""

from functools import cache

import numpy as np

from simulator.kernel._compile import compiled
from simulator.kernel.clearing import LEAST_RUN
from simulator.kernel.layout import LOADING, MAX_SHARE, NOBODY, PAUSING, RESTARTING
from simulator.kernel.machines import is_alone
from simulator.kernel.pausing import may_pause
from simulator.kernel.queues import remaining_now

STANDING = 13  # features of a queued job that come first, of which only its age changes while it waits
UNKNOWN, FITS, FITS_NOT = range(3)

SIGHT: tuple[tuple[str, str] | tuple[str, str, tuple[str | int, ...]], ...] = (
    # the active jobs by when they should free their GPUs
    ("looks", "i8"),  # so far
    ("seen", "i8", ("jobs",)),  # the look at which it was last active
    ("num_ends", "i8"),
    ("most_left", "f8"),  # s; the most that remains of a job that may be displaced, 0 where there is none
    ("ends", "i4", ("jobs",)),
    ("left", "f8", ("jobs",)),  # s until then
    # the jobs that may be displaced, node by node from `node_first` on, that with most time remaining first
    ("are_listed", "i8"),
    ("least_effort", "f8"),  # s; of the jobs for which they are listed
    ("holder", "i4", ("gpus",)),
    ("holder_left", "f8", ("gpus",)),  # s
    ("held", "i4", ("gpus",)),  # GPUs that it has there
    ("num_holders", "i4", ("nodes",)),
    ("reach", "i4", ("nodes",)),  # GPUs of a node that are free or theirs
    # of each request class
    ("fit", "i1", ("jobs",)),  # UNKNOWN, FITS or FITS_NOT
    ("left_on_node", "f4", ("jobs",)),
    ("hopeless", "f8", ("jobs",)),  # s; one that needs so much or more displaces nobody
    ("wait", "f4", ("jobs",)),  # feature; -1 where it is not known
    # what was written of a queued job, and for what progress
    ("known", "i1", ("jobs",)),
    ("known_attained", "f8", ("jobs",)),
    ("known_predictable", "i1", ("jobs",)),
    ("known_preemptions", "i4", ("jobs",)),
    ("figures", "f4", ("jobs", STANDING)),
    ("an_hour_ago", "i8"),  # jobs submitted by then
)


@cache
def sight_dtype(state: np.dtype) -> np.dtype:
    """Return the record type that goes with the type of an episode's state."""
    fields = state.fields
    assert fields is not None
    jobs, nodes, gpus = (fields[name][0].shape[0] for name in ("phase", "node_gpus", "first_owner"))
    sizes: dict[str | int, int] = {"jobs": jobs, "nodes": nodes, "gpus": gpus}
    shaped = [
        (
            name,
            kind,
            tuple(sizes[side] if isinstance(side, str) else side for side in shape[0]) if shape else (),
        )
        for name, kind, *shape in SIGHT
    ]
    return np.dtype((np.record, np.dtype(shaped, align=True)))


@compiled
def forget(s, sight):
    """Begin a look at the record: nothing is known of the present instant."""
    sight.are_listed = 0
    for request_class in range(s.num_classes):
        sight.fit[request_class] = UNKNOWN
        sight.hopeless[request_class] = np.inf
        sight.wait[request_class] = -1.0


@compiled
def time_left(s, jobs, job):
    """Seconds until an active job should free its GPUs."""
    if s.phase[job] == PAUSING:
        return s.event_at[job] - s.clock
    left = remaining_now(s, jobs, job)
    if s.phase[job] == LOADING:
        left += s.event_at[job] - s.clock
    return left


@compiled
def is_displaceable(s, job):
    """Tell whether an active job may be displaced by one that needs less time than it."""
    return (
        may_pause(s, job)
        and s.width[job] > 0
        and s.clock - s.phase_began[job] >= LEAST_RUN
        and is_alone(s, job)
    )


@compiled
def most_left(s, sight):
    """Most seconds remaining of a job that may be displaced; 0 where there is none."""
    for k in range(sight.num_ends - 1, -1, -1):
        if is_displaceable(s, sight.ends[k]):
            return max(sight.left[k], 0.0)
    return 0.0


@compiled
def insert_end(sight, count, job, left):
    """Insert an active job among the first `count` ends."""
    at = count
    while at > 0 and (left < sight.left[at - 1] or (left == sight.left[at - 1] and job < sight.ends[at - 1])):
        sight.left[at] = sight.left[at - 1]
        sight.ends[at] = sight.ends[at - 1]
        at -= 1
    sight.left[at] = left
    sight.ends[at] = job


@compiled
def sort_ends(s, jobs, sight):
    """Sort the active jobs by when they should free their GPUs.

    Those that were there at the last look are taken in the order of then, which is nearly that of now.
    """
    sight.looks += 1
    before = min(sight.num_ends, s.num_jobs)
    count = 0
    for k in range(before):
        job = sight.ends[k]
        if s.place_in_events[job] != NOBODY and s.phase[job] != RESTARTING and sight.seen[job] != sight.looks:
            insert_end(sight, count, job, time_left(s, jobs, job))
            sight.seen[job] = sight.looks
            count += 1
    if count < s.num_active:
        for k in range(s.num_active):
            job = s.events[k]
            if sight.seen[job] != sight.looks and s.phase[job] != RESTARTING:
                insert_end(sight, count, job, time_left(s, jobs, job))
                count += 1
    sight.num_ends = count
    sight.most_left = most_left(s, sight)


@compiled
def wait_for(s, sight, gpus):
    """Estimate the seconds until so many GPUs are free anywhere, by the first ends."""
    free = s.num_free
    for k in range(sight.num_ends):
        if free >= gpus:
            return sight.left[k - 1] if k > 0 else 0.0
        free += s.width[sight.ends[k]]
    return sight.left[sight.num_ends - 1] if sight.num_ends > 0 else 0.0


@compiled
def list_holders(s, sight):
    """List on each node the jobs that may be displaced by one that needs `least_effort` or more.

    That with most time remaining comes first, equal ones by job.
    """
    for node in range(s.num_nodes):
        sight.num_holders[node] = 0
        sight.reach[node] = s.free[node]
    end = sight.num_ends
    while end > 0 and sight.left[end - 1] > max(sight.least_effort, 0.0):
        first = end - 1
        while first > 0 and sight.left[first - 1] == sight.left[end - 1]:
            first -= 1
        for k in range(first, end):
            if is_displaceable(s, sight.ends[k]):
                list_holder(s, sight, sight.ends[k], sight.left[k])
        end = first
    sight.are_listed = 1


@compiled
def list_holder(s, sight, job, left):
    """List a job last on each node where it holds GPUs that are not reserved."""
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        slot = s.next_slot[slot]
        if s.reserved_for[gpu] != NOBODY:
            continue
        node = s.gpu_node[gpu]
        last = s.node_first[node] + sight.num_holders[node] - 1
        if sight.num_holders[node] == 0 or sight.holder[last] != job:
            last += 1
            sight.num_holders[node] += 1
            sight.holder[last] = job
            sight.holder_left[last] = left
            sight.held[last] = 0
        sight.held[last] += 1
        sight.reach[node] += 1
