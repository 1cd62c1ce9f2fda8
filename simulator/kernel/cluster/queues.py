"""Job queues: one heap per request class, in the order of the active ranking, and the time estimates that rank jobs.

A heap is a stretch of an array, `heap[start : start + size]`, smallest key first and equal keys by job.
`place[job]` is the job's offset in its heap, so that removal from the middle costs no more than removal from
the top. Callers keep the sizes.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    ESTIMATE,
    LEVEL,
    LOADING,
    NOBODY,
    PRIORITY,
    REMAINING,
    REMAINING_AREA,
    RUNNING,
    SUBMIT,
    TRUE_REMAINING,
)


@compiled
def before(key, a, b):
    """Return whether job `a` precedes job `b`."""
    return key[a] < key[b] or (key[a] == key[b] and a < b)


@compiled
def rise(heap, start, place, key, at):
    """Move the job at offset `at` up to its position."""
    job = heap[start + at]
    while at > 0:
        parent = (at - 1) // 2
        other = heap[start + parent]
        if not before(key, job, other):
            break
        heap[start + at] = other
        place[other] = at
        at = parent
    heap[start + at] = job
    place[job] = at


@compiled
def sink(heap, start, size, place, key, at):
    """Move the job at offset `at` down to its position."""
    job = heap[start + at]
    child = 2 * at + 1
    while child < size:
        if child + 1 < size and before(key, heap[start + child + 1], heap[start + child]):
            child += 1
        other = heap[start + child]
        if not before(key, other, job):
            break
        heap[start + at] = other
        place[other] = at
        at = child
        child = 2 * at + 1
    heap[start + at] = job
    place[job] = at


@compiled
def push(heap, start, size, place, key, job):
    """Insert `job` into a heap of `size` jobs."""
    heap[start + size] = job
    rise(heap, start, place, key, size)


@compiled
def remove(heap, start, size, place, key, job):
    """Remove `job` from a heap of `size` jobs, wherever it is."""
    at = place[job]
    last = heap[start + size - 1]
    if last == job:
        return
    heap[start + at] = last
    rise(heap, start, place, key, at)
    sink(heap, start, size - 1, place, key, place[last])


# A job is always assumed to need another 20 % of its attained time, and at least 15 s (docs/rules.md).
MIN_REMAINING_SHARE = 0.2
MIN_REMAINING_S = 15.0


@compiled
def attained_now(s, job):
    """Return the seconds of progress so far."""
    if s.phase[job] == RUNNING:
        return s.attained_s[job] + s.rate[job] * (s.clock - s.banked[job])
    return s.attained_s[job]


@compiled
def ran_now(s, job):
    """Return the seconds that a job has run since it last started from zero progress, whatever its speed."""
    since_s = s.clock - s.banked[job] if s.phase[job] == RUNNING else 0.0
    return s.attained_s[job] + s.delay_s[job] + since_s


@compiled
def estimate_now(s, jobs, job):
    """Return the estimated run time that policies see, s: a better one once the job is predictable."""
    return jobs[job].predicted_duration_s if s.predictable[job] else jobs[job].profiled_duration_s


@compiled
def total_run_time(s, jobs, job):
    """Return the total run time from which the remaining time is computed, s."""
    return jobs[job].duration_s if s.exact else estimate_now(s, jobs, job)


@compiled
def left_of(s, whole, attained):
    """Return the remaining seconds of a job with total run time `whole`, by estimate."""
    left = whole - attained
    return left if s.exact else max(left, MIN_REMAINING_SHARE * attained, MIN_REMAINING_S)


@compiled
def remaining_now(s, jobs, job):
    """Return the remaining run time in the requested shape, s, as every policy estimates it."""
    return left_of(s, total_run_time(s, jobs, job), attained_now(s, job))


@compiled
def loading_time(s, jobs, job):
    """Return the seconds that a job holds GPUs without progress when it starts."""
    if s.phase[job] == LOADING:
        return s.loading_s[job]
    if s.saved[job]:
        return jobs[job].load_s
    # A start from zero progress takes `startup_s`; the first start of a GPU job also takes profiling time.
    begins = np.isnan(s.start_s[job]) and jobs[job].num_gpus > 0
    return jobs[job].startup_s + (s.profiling if begins else 0.0)


@compiled
def cost_to_finish(s, jobs, job):
    """Return the seconds of holding GPUs until the end: remaining time plus loading time."""
    load = loading_time(s, jobs, job) if s.phase[job] != RUNNING else 0.0
    return remaining_now(s, jobs, job) + load


@compiled
def order_of(s, jobs, job):
    """Return the job's key under the active ranking. It is constant while the job is queued."""
    if s.key == SUBMIT:
        return 0.0
    if s.key == ESTIMATE:
        return estimate_now(s, jobs, job)
    if s.key == REMAINING:
        return remaining_now(s, jobs, job)
    if s.key == REMAINING_AREA:
        return remaining_now(s, jobs, job) * jobs[job].num_gpus
    if s.key == LEVEL:
        return float(s.level[job])
    if s.key == TRUE_REMAINING:
        return jobs[job].duration_s - attained_now(s, job)
    if s.key == PRIORITY:
        return -jobs[job].priority
    return cost_to_finish(s, jobs, job) * jobs[job].num_gpus ** s.exponent


@compiled
def enqueue(s, jobs, job):
    """Insert a job into the queue of its request class."""
    request_class = jobs[job].request_class
    s.order[job] = order_of(s, jobs, job)
    push(s.queue, s.queue_start[request_class], s.queue_size[request_class], s.place_in_queue, s.order, job)
    s.queue_size[request_class] += 1


@compiled
def dequeue(s, jobs, job):
    """Remove a job from the queue of its request class."""
    request_class = jobs[job].request_class
    remove(s.queue, s.queue_start[request_class], s.queue_size[request_class], s.place_in_queue, s.order, job)
    s.queue_size[request_class] -= 1


@compiled
def reorder(s, jobs):
    """Rebuild all queues after a change of the active ranking."""
    s.blocked_job[:] = NOBODY
    for request_class in range(s.num_classes):
        start = s.queue_start[request_class]
        for size in range(s.queue_size[request_class]):
            job = s.queue[start + size]
            s.order[job] = order_of(s, jobs, job)
            rise(s.queue, start, s.place_in_queue, s.order, size)


@compiled
def open_all(s):
    """Begin a scheduling pass, with no request class exhausted."""
    for request_class in range(s.num_classes):
        s.exhausted[request_class] = 0


@compiled
def first_open(s):
    """Return the first queued job in order among the request classes that are not exhausted, or NOBODY."""
    first = NOBODY
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] > 0 and not s.exhausted[request_class]:
            job = s.queue[s.queue_start[request_class]]
            if first == NOBODY or before(s.order, job, first):
                first = job
    return first
