"""Jobs of the running slots: those that have left the queue and not ended."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    LOADING,
    MAX_SHARE,
    NOBODY,
    PAUSING,
    RESERVED,
    RUNNING,
)
from gpu_cluster_gym.simulator.kernel.slots.claims import holds_up, pending_claim


@compiled
def claimed_share(s, job):
    """Return the share of a running job's GPUs that are reserved for another job."""
    count = 0
    slot = s.first_slot[job]
    while slot != NOBODY:
        count += holds_up(s, slot // MAX_SHARE)
        slot = s.next_slot[slot]
    return count / max(s.width[job], 1)


@compiled
def list_running(s, cache, out):
    """List the jobs that have left the queue and not ended in `out`, as many as it holds; return their number.

    Running jobs come first, those that hold claimed GPUs before the others; then loading and pausing jobs; each of
    these groups by remaining time, longest first, and ties by job. Jobs for which GPUs are reserved come last, by GPU.
    Requires `sort_ends`.
    """
    count = 0
    if pending_claim(s) != NOBODY:
        count = list_longest(s, cache, RUNNING, True, 0, out)
    count = list_longest(s, cache, RUNNING, False, count, out)
    count = list_longest(s, cache, LOADING, False, count, out)
    count = list_longest(s, cache, PAUSING, False, count, out)
    return list_reserved(s, count, out)


@compiled
def list_longest(s, cache, phase, claimed, count, out):
    """Append the active jobs of a phase to the `count` in `out`, longest remaining time first; return the new count.

    claimed: of running jobs, append only those that hold claimed GPUs, or only the others.
    """
    end = cache.num_ends
    while end > 0 and count < len(out):
        first = end - 1
        while first > 0 and cache.left[first - 1] == cache.left[end - 1]:
            first -= 1
        for k in range(first, end):
            job = cache.ends[k]
            if count == len(out) or s.phase[job] != phase:
                continue
            if phase != RUNNING or (claimed_share(s, job) > 0) == claimed:
                out[count] = job
                count += 1
        end = first
    return count


@compiled
def list_reserved(s, count, out):
    """Append the jobs that wait for the release of GPUs reserved for them to `out`; return the new count."""
    first = count
    for gpu in range(s.num_gpus):
        job = s.reserved_for[gpu]
        if count == len(out) or job < 0 or s.phase[job] != RESERVED:
            continue
        known = False
        for k in range(first, count):
            known = known or out[k] == job
        if not known:
            out[count] = job
            count += 1
    return count
