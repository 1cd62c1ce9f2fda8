"""CODA's moves, one after another: what fits starts, then cores are divided, then CPU jobs are throttled.

CPU jobs start beside the reserves of others, jobs with GPUs with a core for each, and get what else they want once they
run.
"""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.decided import (
    START,
    WAIT,
    Fields,
    carry_out_next,
    dtype_of,
    propose,
)
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, NOBODY, RUNNING, Tier
from gpu_cluster_gym.simulator.kernel.cluster.legality import list_queued, note_wait
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers
from gpu_cluster_gym.simulator.kernel.cores.core_memory import CORE_FIELDS, OWN_FIELDS
from gpu_cluster_gym.simulator.kernel.cores.core_sharing import (
    read,
    share_anew,
    start_first_on_cores,
    watch_on,
)
from gpu_cluster_gym.simulator.kernel.cores.cores import LEAST_SHARE
from gpu_cluster_gym.simulator.kernel.cores.throttling import throttle_one
from gpu_cluster_gym.simulator.kernel.rankings.granting import place_first

FIRST_CORES = 1.0  # for each GPU, beside those of servers
NARROW, MIDDLING = 1, 4  # GPUs of the widest job of an array; from memory, not checked against the paper
ARRAYS = 3  # of widths

MOVES_FIELDS: Fields = (
    # the policy
    ("tunes", "i1"),  # whether cores are found by trying
    ("throttles", "i1"),  # whether CPU jobs are throttled
    ("arrays", "i1"),  # whether CPU jobs and jobs with GPUs queue apart
    ("by_width", "i1"),  # whether jobs of different widths take turns
    ("wait_s", "f8"),  # s to wait; nan for the next event
    ("queued", "i8", ("jobs",)),  # scratch
)


@cache
def moves_dtype(size: Tier) -> np.dtype:
    """Return the record type of what the policy keeps, at one tier."""
    return dtype_of((*OWN_FIELDS, *CORE_FIELDS, *MOVES_FIELDS), size)


@compiled
def array_of(jobs, job):
    """Return the number of the array of widths that a job belongs to."""
    return (jobs[job].num_gpus > NARROW) + (jobs[job].num_gpus > MIDDLING)


@allocating
def sort_by_service(s, jobs, order):
    """Sort queued jobs by the share of its GPUs that their array of widths holds, the least first, then in order."""
    held = np.zeros(ARRAYS)
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == RUNNING or s.phase[job] == LOADING:
            held[array_of(jobs, job)] += jobs[job].num_gpus
    asked = held.copy()
    for job in order:
        asked[array_of(jobs, job)] += jobs[job].num_gpus
    served = np.empty(len(order))
    for k in range(len(order)):
        array = array_of(jobs, order[k])
        served[k] = held[array] / asked[array] if asked[array] > 0 else 1.0
    order[:] = order[np.argsort(served, kind="mergesort")]


@compiled
def with_gpus(jobs, order):
    """Leave jobs without GPUs out of an order; return how many are left."""
    count = 0
    for job in order:
        if jobs[job].num_gpus > 0:
            order[count] = job
            count += 1
    return count


@compiled
def propose_placed(s, jobs, m, job, cores):
    """Propose the start of a job where it has just been placed; cores: see `find_start`."""
    m.num_gpus, m.node = jobs[job].num_gpus, NOBODY
    for k in range(m.num_gpus):
        m.gpus[k] = s.gpus[k]
    if m.num_gpus == 0:
        m.node = s.chosen_node[0]
    elif cores > 0:
        cores += cores_of_servers(jobs[job].servers, m.num_gpus, m.num_gpus)
    propose(m, START, job, cores if m.num_gpus > 0 else 0.0)


@compiled
def find_start(s, jobs, m, cores):
    """Propose the start of the first queued job that fits, after what must shrink for it; tell whether there is one.

    cores: for each GPU, beside those of servers; 0 where cores are not allocated.
    """
    if s.num_queued == 0:
        return False
    count = list_queued(s, m.queued)
    if cores > 0 and m.arrays:
        if start_first_on_cores(s, jobs, m, m.queued[:count]):
            return True
        count = with_gpus(jobs, m.queued[:count])
    if cores > 0 and m.by_width:
        sort_by_service(s, jobs, m.queued[:count])
    job = place_first(s, jobs, m.queued[:count], cores)
    if job == NOBODY:
        return False
    propose_placed(s, jobs, m, job, cores)
    return True


@compiled
def find_moves(s, jobs, m):
    """Put the next moves on the list; tell whether there are any."""
    m.num_moves = m.next_move = 0
    if not s.cpu_limited:
        return find_start(s, jobs, m, 0.0)
    read(s, jobs, m, m.tunes > 0)
    if find_start(s, jobs, m, FIRST_CORES):
        return True
    share_anew(s, jobs, m, LEAST_SHARE)
    return m.num_moves > 0 or (m.throttles > 0 and throttle_one(s, jobs, m))


@compiled
def decide(s, jobs, m):
    """Return the kind of the next move, whose place on the list is `next_move - 1`; WAIT, with `wait_s`, at the end.

    The list is carried out before another is made.
    """
    if m.next_move < m.num_moves or find_moves(s, jobs, m):
        m.next_move += 1
        return np.int64(m.move_kind[m.next_move - 1])
    m.wait_s = np.nan
    if s.cpu_limited and watch_on(s, jobs, m, m.tunes > 0):
        m.wait_s = m.window_s
    return np.int64(WAIT)


@entry
def next_move(states, e, memory, k, jobs):
    """Return the kind of the next move; see `decide`."""
    return decide(states[e], jobs, memory[k])


@entry
def run(states, e, memory, k, jobs):
    """Carry all moves out to the end; jobs are left then where time cannot go on."""
    s, m = states[e], memory[k]
    while s.num_done < s.num_jobs and events.advance(s, jobs):
        kind = decide(s, jobs, m)
        while kind != WAIT:
            carry_out_next(s, jobs, m, kind)
            kind = decide(s, jobs, m)
        if not note_wait(s, jobs, m.wait_s):
            return
