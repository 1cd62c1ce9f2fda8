"""Indexed binary heaps of jobs, smallest key first and equal keys by job.

A heap is a stretch of an array: `heap[start : start + size]`. `place[job]` is the job's offset in its heap,
which makes removal from the middle cost as little as from the top. Sizes are kept by the caller.
"""

from gpu_cluster_gym.simulator.kernel._compile import compiled


@compiled
def before(key, a, b):
    """Tell whether job `a` comes before job `b`."""
    return key[a] < key[b] or (key[a] == key[b] and a < b)


@compiled
def rise(heap, start, place, key, at):
    """Move the job at offset `at` up to where it belongs."""
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
    """Move the job at offset `at` down to where it belongs."""
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
    """Put `job` into a heap of `size` jobs."""
    heap[start + size] = job
    rise(heap, start, place, key, size)


@compiled
def remove(heap, start, size, place, key, job):
    """Take `job` out of a heap of `size` jobs, wherever it stands."""
    at = place[job]
    last = heap[start + size - 1]
    if last == job:
        return
    heap[start + at] = last
    rise(heap, start, place, key, at)
    sink(heap, start, size - 1, place, key, place[last])
