"""What an observation looks up beside the record: an environment's own, never needed to simulate on."""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, MAX_SHARE, NOBODY, PAUSING, RESTARTING
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.queues import attained_now, left_of, total_run_time
from gpu_cluster_gym.simulator.kernel.rankings.cost_aware import MIN_RUN_S
from gpu_cluster_gym.simulator.kernel.slots.features import NUM_RUNNING

MOMENT = 5  # numbers that are others after any change of a record
STANDING = 13  # features of a queued job that come first, of which only its age changes while it waits
UNKNOWN, FITS, LACKS_CORES, LACKS_GPUS = range(4)
SAME, LESS, MORE = range(3)  # what is free, over what was

SIGHT: tuple[tuple[str, str] | tuple[str, str, tuple[str | int, ...]], ...] = (
    # the active jobs by when they should free their GPUs
    ("looks", "i8"),  # so far, at the active jobs or at the queued ones
    ("seen", "i8", ("jobs",)),  # the last that met it
    ("moment", "i8", (MOMENT,)),  # of the record when they were sorted; -1 for none
    ("num_ends", "i8"),
    ("max_remaining", "f8"),  # s; the most that remains of a job that may be displaced, 0 where there is none
    ("ends", "i4", ("jobs",)),
    ("left", "f8", ("jobs",)),  # s until then
    ("free_after", "i4", ("jobs",)),  # GPUs that are free then
    (
        "whole_for",
        "i1",
        ("jobs",),
    ),  # 1 + whether the job was predictable when its time was looked up, 0 before
    ("whole", "f8", ("jobs",)),  # s, see `queues.total_run_time`
    # the jobs that may be displaced, node by node from `node_first` on, that with most time remaining first
    ("are_listed", "i8"),
    ("least_effort", "f8"),  # s; of the jobs for which they are listed
    ("holder", "i4", ("gpus",)),
    ("holder_left", "f8", ("gpus",)),  # s
    ("held", "i4", ("gpus",)),  # GPUs that it has there
    ("num_holders", "i4", ("nodes",)),
    ("reach", "i4", ("nodes",)),  # GPUs of a node that are free or theirs
    ("tight_at", "i8", ("nodes",)),  # the node's stamp when its bounds were last found anew
    # of each request class
    ("fit", "i1", ("jobs",)),  # UNKNOWN, FITS, or what it lacks
    ("left_on_node", "f4", ("jobs",)),
    ("hopeless", "f8", ("jobs",)),  # s; one that needs so much or more displaces nobody
    ("wait", "f4", ("jobs",)),  # feature; -1 where it is not known
    ("room", "i8"),  # SAME, LESS or MORE since it was found which fit
    ("free_then", "i4", ("nodes",)),  # GPUs that were free at the last look
    ("cores_then", "f8", ("nodes",)),  # unreserved cores then
    # of the last look that found that no job can be picked
    ("checked", "i8"),  # jobs that have joined the queue by then; -1 where there was no such look
    ("enough_left", "f8"),  # s; a pause for one of them pays only where a running job has more left
    ("widest", "i8"),  # GPUs of the widest job that ran
    # what was found of a queued job
    ("known_joins", "i8"),  # all are known that have joined the queue by then; -1 for none
    ("known", "i8", ("jobs",)),  # 1 + the number of its last start then, 0 for nothing
    ("effort", "f8", ("jobs",)),  # s, see `queues.cost_to_finish`
    ("area", "f8", ("jobs",)),  # estimated GPU-seconds remaining
    ("figures", "f4", ("jobs", STANDING)),
    ("queued_area", "f8"),  # estimated GPU-seconds remaining of all at the last look
    ("an_hour_ago", "i8"),  # jobs submitted by then
    # of a running job
    ("lasting_for", "i1", ("jobs",)),  # 1 + whether it was predictable when this was found, 0 before
    ("lasting", "f4", ("jobs", NUM_RUNNING)),  # its features that last as long as its estimate does
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
def note_room(s, sight):
    """Note what is free on each node, and whether that is somewhere more than before."""
    for node in range(s.num_nodes):
        free, cores = s.free[node], s.unreserved_cores[node]
        free_then, cores_then = sight.free_then[node], sight.cores_then[node]
        if free == free_then and cores == cores_then:
            continue
        more = free > free_then or cores > cores_then
        sight.room = max(sight.room, MORE if more else LESS)
        sight.free_then[node] = free
        sight.cores_then[node] = cores
    if sight.room == MORE:
        sight.checked = -1


@compiled
def forget(s, sight):
    """Begin a look at the record: nothing is known of its request classes but for what has not changed since.

    With less room than before what did not fit does not: nor does a gang, since where it would take whole nodes and a
    part of one, those are free with more room too, or others as large.
    """
    note_room(s, sight)
    for request_class in range(s.num_classes):
        if sight.room == MORE or (sight.room == LESS and sight.fit[request_class] == FITS):
            sight.fit[request_class] = UNKNOWN
        sight.hopeless[request_class] = np.inf
        sight.wait[request_class] = -1.0
    sight.room = SAME


@compiled
def forget_all(s, sight):
    """Begin a look at a record that may have changed in any way since the last, or gone back in time."""
    if s.instant < sight.moment[0]:
        sight.known[:] = 0
    sight.moment[0] = -1
    sight.tight_at[:] = -1
    sight.checked = -1
    sight.known_joins = -1
    sight.room = MORE
    forget(s, sight)


@compiled
def whole_time_known(s, jobs, sight, job):
    """Return `queues.total_run_time` of a job, which is looked up once, and again when its estimate has become good."""
    key = 1 + s.predictable[job]
    if sight.whole_for[job] != key:
        sight.whole_for[job] = key
        sight.whole[job] = total_run_time(s, jobs, job)
    return sight.whole[job]


@compiled
def time_left(s, jobs, sight, job):
    """Seconds until an active job should free its GPUs."""
    if s.phase[job] == PAUSING:
        return s.event_at[job] - s.clock
    left = left_of(s, whole_time_known(s, jobs, sight, job), attained_now(s, job))
    if s.phase[job] == LOADING:
        left += s.event_at[job] - s.clock
    return left


@compiled
def is_displaceable(s, job):
    """Tell whether an active job may be displaced by one that needs less time than it."""
    return (
        may_pause(s, job)
        and s.width[job] > 0
        and s.clock - s.phase_began[job] >= MIN_RUN_S
        and is_alone(s, job)
    )


@compiled
def max_remaining(s, sight):
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
def note_moment(s, sight):
    """Note the moment of the record; tell whether it is another than the one noted."""
    at = sight.moment
    if (
        at[0] == s.instant
        and at[1] == s.num_starts
        and at[2] == s.num_pauses
        and at[3] == s.num_queued
        and at[4] == s.stamp
    ):
        return False
    at[0], at[1], at[2], at[3], at[4] = s.instant, s.num_starts, s.num_pauses, s.num_queued, s.stamp
    return True


@compiled
def sort_ends(s, jobs, sight):
    """Sort the active jobs by when they should free their GPUs, unless they have been since the last change.

    Those that were there at the last look are taken in the order of then, which is nearly that of now.
    """
    if not note_moment(s, sight):
        return
    sight.are_listed = 0
    sight.looks += 1
    before = min(sight.num_ends, s.num_jobs)
    count = 0
    for k in range(before):
        job = sight.ends[k]
        if LOADING <= s.phase[job] <= PAUSING:
            insert_end(sight, count, job, time_left(s, jobs, sight, job))
            sight.seen[job] = sight.looks
            count += 1
    if count < s.num_active:
        for k in range(s.num_active):
            job = s.events[k]
            if sight.seen[job] != sight.looks and s.phase[job] != RESTARTING:
                insert_end(sight, count, job, time_left(s, jobs, sight, job))
                count += 1
                if count == s.num_active:
                    break
    sight.num_ends = count
    sight.max_remaining = max_remaining(s, sight)


@compiled
def wait_for(s, sight, gpus):
    """Estimate the seconds until so many GPUs are free anywhere, by the first ends and what is free after each."""
    if sight.num_ends == 0 or s.num_free >= gpus:
        return 0.0
    low = 0
    high = sight.num_ends - 1
    while low < high:
        middle = (low + high) // 2
        if sight.free_after[middle] >= gpus:
            high = middle
        else:
            low = middle + 1
    return sight.left[low]


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
    node = NOBODY
    last = 0
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        slot = s.next_slot[slot]
        if s.reserved_for[gpu] != NOBODY:
            continue
        if s.gpu_node[gpu] != node:
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
