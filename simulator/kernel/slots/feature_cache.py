"""Cache of features and searches between two observations of an episode; the simulation never reads it."""

import functools

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    LOADING,
    MAX_SHARE,
    NOBODY,
    PAUSING,
    QUEUED,
    RESTARTING,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import overhead_of
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.queues import (
    attained_now,
    cost_to_finish,
    estimate_now,
    left_of,
    remaining_now,
    total_run_time,
)
from gpu_cluster_gym.simulator.kernel.cluster.readings import as_time, largest_memory
from gpu_cluster_gym.simulator.kernel.rankings.cost_aware import MIN_RUN_S
from gpu_cluster_gym.simulator.kernel.slots.features import (
    ATTAINED,
    CORES,
    ESTIMATE,
    GPUS,
    MEMORY,
    NUM_RUNNING,
    PREDICTABLE,
    PREEMPTIONS,
    PRESENT,
    PROGRESS,
    REMAINING,
    REMAINING_AREA,
    RESTART,
)

MOMENT = 5  # counters that together change with any change of a record
NUM_STATIC = 13  # leading features of a queued job, of which only its age changes while it waits
UNKNOWN, HAS_ROOM, LACKS_CORES, LACKS_GPUS = range(4)  # fit of a request class
SAME, LESS, MORE = range(3)  # free GPUs and cores, compared with the previous look

CACHE_FIELDS: tuple[tuple[str, str] | tuple[str, str, tuple[str | int, ...]], ...] = (
    # active jobs, sorted by the time at which they release their GPUs
    ("num_looks", "i8"),  # looks at the active or queued jobs so far
    ("last_seen", "i8", ("jobs",)),  # last look that met the job
    ("moment", "i8", (MOMENT,)),  # counters of the record when sorted; -1 for never
    ("num_ends", "i8"),
    ("max_remaining", "f8"),  # s; largest remaining time of a displaceable job, 0 where there is none
    ("ends", "i4", ("jobs",)),
    ("left", "f8", ("jobs",)),  # s until the end
    ("free_after", "i4", ("jobs",)),  # GPUs free after the end
    ("run_time_key", "i1", ("jobs",)),  # 1 + whether the job was predictable when looked up; 0 for never
    ("run_time", "f8", ("jobs",)),  # s, see `queues.total_run_time`
    # displaceable jobs by node, from `node_first` on, most time remaining first
    ("are_listed", "i8"),
    ("min_effort", "f8"),  # s; smallest effort of the jobs for which holders are listed
    ("holder", "i4", ("gpus",)),
    ("holder_left", "f8", ("gpus",)),  # s
    ("holder_gpus", "i4", ("gpus",)),  # GPUs of the node that the holder has
    ("num_holders", "i4", ("nodes",)),
    ("reach", "i4", ("nodes",)),  # GPUs of the node that are free or held by a listed job
    ("tightened_at", "i8", ("nodes",)),  # the node's stamp when its bounds were last computed
    # request classes
    ("fit", "i1", ("jobs",)),  # UNKNOWN, HAS_ROOM, or the missing resource
    ("left_on_node", "f4", ("jobs",)),
    ("hopeless", "f8", ("jobs",)),  # s; a job that needs this much or more displaces no job
    ("wait", "f4", ("jobs",)),  # feature; -1 for unknown
    ("room", "i8"),  # SAME, LESS or MORE since `fit` was computed
    ("last_free", "i4", ("nodes",)),  # free GPUs at the previous look
    ("last_cores", "f8", ("nodes",)),  # unreserved cores at the previous look
    # last look that found no job able to start
    ("checked_joins", "i8"),  # jobs that had joined the queue by then; -1 for no such look
    ("required_left", "f8"),  # s; a pause pays only for a running job with more time left
    ("widest", "i8"),  # GPUs of the widest running job then
    # queued jobs
    ("known_joins", "i8"),  # jobs that had joined the queue when all were cached; -1 for never
    ("known", "i8", ("jobs",)),  # 1 + number of the job's last start when cached; 0 for never
    ("effort", "f8", ("jobs",)),  # s, see `queues.cost_to_finish`
    ("area", "f8", ("jobs",)),  # estimated GPU-seconds remaining
    ("queued_features", "f4", ("jobs", NUM_STATIC)),
    ("queued_area", "f8"),  # estimated GPU-seconds remaining of all queued jobs at the last look
    ("submitted_hour_ago", "i8"),  # jobs submitted more than an hour ago
    # choice of victims by an agent
    ("starter", "i8"),  # 1 + queued job that starts once its victims are chosen; 0 for none
    ("victims_node", "i8"),  # node of the victims, or NOBODY before the first and for a gang
    ("num_victims", "i8"),
    ("victims", "i4", ("gpus",)),
    # running jobs
    ("running_key", "i1", ("jobs",)),  # 1 + whether the job was predictable when cached; 0 for never
    ("running_features", "f4", ("jobs", NUM_RUNNING)),  # valid as long as the estimate is
)


@functools.cache
def cache_dtype(state: np.dtype) -> np.dtype:
    """Return the record type of the cache that matches the type of an episode's state."""
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
        for name, kind, *shape in CACHE_FIELDS
    ]
    return np.dtype((np.record, np.dtype(shaped, align=True)))


@compiled
def update_free(s, cache):
    """Compare free GPUs and cores of each node with the previous look, and note whether any node has more."""
    for node in range(s.num_nodes):
        free, cores = s.free[node], s.unreserved_cores[node]
        last_free, last_cores = cache.last_free[node], cache.last_cores[node]
        if free == last_free and cores == last_cores:
            continue
        more = free > last_free or cores > last_cores
        cache.room = max(cache.room, MORE if more else LESS)
        cache.last_free[node] = free
        cache.last_cores[node] = cores
    if cache.room == MORE:
        cache.checked_joins = -1


@compiled
def invalidate(s, cache):
    """Begin a new look: drop what is cached per request class, except what cannot have changed.

    With less free than before, a job that did not fit still does not. This includes gangs: where a gang would now take
    whole nodes and part of one more, those nodes, or others as large, were also free when more was free.
    """
    update_free(s, cache)
    for request_class in range(s.num_classes):
        if cache.room == MORE or (cache.room == LESS and cache.fit[request_class] == HAS_ROOM):
            cache.fit[request_class] = UNKNOWN
        cache.hopeless[request_class] = np.inf
        cache.wait[request_class] = -1.0
    cache.room = SAME


@compiled
def invalidate_all(s, cache):
    """Begin a look at a record that may have changed arbitrarily since the previous look, or gone back in time."""
    if s.instant < cache.moment[0]:
        cache.known[:] = 0
    cache.moment[0] = -1
    cache.tightened_at[:] = -1
    cache.checked_joins = -1
    cache.known_joins = -1
    cache.room = MORE
    invalidate(s, cache)


@compiled
def cached_run_time(s, jobs, cache, job):
    """Return the total expected run time of a job, s; computed again once its estimate has become reliable."""
    key = 1 + s.predictable[job]
    if cache.run_time_key[job] != key:
        cache.run_time_key[job] = key
        cache.run_time[job] = total_run_time(s, jobs, job)
    return cache.run_time[job]


@compiled
def time_left(s, jobs, cache, job):
    """Return the expected seconds until an active job releases its GPUs."""
    if s.phase[job] == PAUSING:
        return s.event_at[job] - s.clock
    left = left_of(s, cached_run_time(s, jobs, cache, job), attained_now(s, job))
    if s.phase[job] == LOADING:
        left += s.event_at[job] - s.clock
    return left


@compiled
def is_displaceable(s, job):
    """Return whether an active job may be paused for a job that needs less time than it has left."""
    return (
        may_pause(s, job)
        and s.width[job] > 0
        and s.clock - s.phase_began[job] >= MIN_RUN_S
        and is_alone(s, job)
    )


@compiled
def max_remaining(s, cache):
    """Return the largest remaining time of a displaceable job, s; 0 where there is none."""
    for k in range(cache.num_ends - 1, -1, -1):
        if is_displaceable(s, cache.ends[k]):
            return max(cache.left[k], 0.0)
    return 0.0


@compiled
def insert_end(cache, count, job, left):
    """Insert an active job into the first `count` entries of `ends`, sorted by time left, then by job."""
    at = count
    while at > 0 and (left < cache.left[at - 1] or (left == cache.left[at - 1] and job < cache.ends[at - 1])):
        cache.left[at] = cache.left[at - 1]
        cache.ends[at] = cache.ends[at - 1]
        at -= 1
    cache.left[at] = left
    cache.ends[at] = job


@compiled
def update_moment(s, cache):
    """Store the moment of the record; return whether it differs from the stored one."""
    at = cache.moment
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
def sort_ends(s, jobs, cache):
    """Sort the active jobs by the time at which they release their GPUs, unless nothing has changed since.

    The previous order is reused first: it is nearly sorted, so insertion is cheap.
    """
    if not update_moment(s, cache):
        return
    cache.are_listed = 0
    cache.num_looks += 1
    # Insertion sort: first the jobs of the previous order that are still active, then those that have started since.
    before = min(cache.num_ends, s.num_jobs)
    count = 0
    for k in range(before):
        job = cache.ends[k]
        if LOADING <= s.phase[job] <= PAUSING:
            insert_end(cache, count, job, time_left(s, jobs, cache, job))
            cache.last_seen[job] = cache.num_looks
            count += 1
    if count < s.num_active:
        for k in range(s.num_active):
            job = s.events[k]
            if cache.last_seen[job] != cache.num_looks and s.phase[job] != RESTARTING:
                insert_end(cache, count, job, time_left(s, jobs, cache, job))
                count += 1
                if count == s.num_active:
                    break
    cache.num_ends = count
    cache.max_remaining = max_remaining(s, cache)


@compiled
def wait_for(s, cache, gpus):
    """Return the expected seconds until `gpus` GPUs are free anywhere, by binary search in `free_after`."""
    if cache.num_ends == 0 or s.num_free >= gpus:
        return 0.0
    low = 0
    high = cache.num_ends - 1
    while low < high:
        middle = (low + high) // 2
        if cache.free_after[middle] >= gpus:
            high = middle
        else:
            low = middle + 1
    return cache.left[low]


@compiled
def list_holders(s, cache):
    """List on each node the jobs that a job with `min_effort` or more may displace.

    The job with most time remaining comes first; ties are broken by job.
    """
    for node in range(s.num_nodes):
        cache.num_holders[node] = 0
        cache.reach[node] = s.free[node]
    end = cache.num_ends
    while end > 0 and cache.left[end - 1] > max(cache.min_effort, 0.0):
        first = end - 1
        while first > 0 and cache.left[first - 1] == cache.left[end - 1]:
            first -= 1
        for k in range(first, end):
            if is_displaceable(s, cache.ends[k]):
                list_holder(s, cache, cache.ends[k], cache.left[k])
        end = first
    cache.are_listed = 1


@compiled
def list_holder(s, cache, job, left):
    """Append a job to the list of each node on which it holds GPUs that are not reserved."""
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
            last = s.node_first[node] + cache.num_holders[node] - 1
            if cache.num_holders[node] == 0 or cache.holder[last] != job:
                last += 1
                cache.num_holders[node] += 1
                cache.holder[last] = job
                cache.holder_left[last] = left
                cache.holder_gpus[last] = 0
        cache.holder_gpus[last] += 1
        cache.reach[node] += 1


@compiled
def compute_queued_features(s, jobs, cache, job):
    """Compute the features of a queued job that do not change while it waits."""
    row = jobs[job]
    out = cache.queued_features
    attained = attained_now(s, job)
    remaining = remaining_now(s, jobs, job)
    out[job, PRESENT] = 1.0
    out[job, GPUS] = np.log2(1.0 + row.num_gpus) / 7.0
    out[job, ESTIMATE] = as_time(estimate_now(s, jobs, job))
    out[job, REMAINING] = as_time(remaining)
    out[job, REMAINING_AREA] = as_time(remaining * row.num_gpus)
    out[job, ATTAINED] = as_time(attained)
    out[job, PROGRESS] = min(attained / estimate_now(s, jobs, job), 2.0)
    out[job, RESTART] = as_time(overhead_of(jobs, job))
    out[job, PREDICTABLE] = s.predictable[job]
    out[job, PREEMPTIONS] = min(s.preemptions[job] / 5.0, 1.0)
    out[job, MEMORY] = row.profiled_memory_gib / largest_memory(s)
    out[job, CORES] = row.cores_each / 8.0
    cache.effort[job] = cost_to_finish(s, jobs, job)
    cache.area[job] = remaining * row.num_gpus


@compiled
def cache_queued(s, jobs, cache, job):
    """Cache the static features of a queued job, unless they are known since its last start."""
    if cache.known[job] != 1 + s.began[job]:
        cache.known[job] = 1 + s.began[job]
        compute_queued_features(s, jobs, cache, job)


@compiled
def effort_of(s, jobs, cache, job):
    """Return the cost to finish of a queued job, s; see `queues.cost_to_finish`."""
    cache_queued(s, jobs, cache, job)
    return cache.effort[job]


@compiled
def cache_all_queued(s, jobs, cache):
    """Cache the static features of all queued jobs: of those that joined the queue since the previous call."""
    if cache.known_joins < 0 or s.num_joins - cache.known_joins > len(s.joined):
        for request_class in range(s.num_classes):
            begin = s.queue_start[request_class]
            for at in range(begin, begin + s.queue_size[request_class]):
                cache_queued(s, jobs, cache, s.queue[at])
    else:
        for at in range(cache.known_joins, s.num_joins):
            job = s.joined[at % len(s.joined)]
            if s.phase[job] == QUEUED:
                cache_queued(s, jobs, cache, job)
    cache.known_joins = s.num_joins
