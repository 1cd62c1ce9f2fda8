"""Environments of a batch shared among threads: a compiled call lets the others run meanwhile."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """Return so many threads, which all batches of a process share."""
    return ThreadPoolExecutor(threads, "gpu-cluster-gym")


os.register_at_fork(after_in_child=pool.cache_clear)  # threads are not there in a fork


def in_parts(work: Callable[[slice], object], count: int, threads: int, part: int) -> None:
    """Do what is to be done in so many environments: `part` of them at a time, on so many threads."""
    if threads == 1 or count <= part:
        work(slice(0, count))
        return
    parts = [slice(first, min(first + part, count)) for first in range(0, count, part)]
    list(pool(threads).map(work, parts))  # raises what one of them raised
