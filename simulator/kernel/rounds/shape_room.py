"""What an order of jobs can still be given: GPUs by node, the first to be taken first, and cores.

Free GPUs come first, then those that pauses in flight will free, then those of the jobs that come last; only GPUs of
which no other job has a share, and that are kept for none.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, NOBODY, PAUSING, RUNNING
from gpu_cluster_gym.simulator.kernel.rounds.shape_memory import cores_for, cores_now, form_now

ROUNDING = 1e-6  # of sums of cores
NOT_OPEN, FREE, AWAITED, HELD = range(4)


@compiled
def kind_of(s, m, gpu):
    """Return whether a GPU may be granted, and from whom it would come."""
    job = s.first_owner[gpu]
    if s.reserved_for[gpu] != NOBODY or s.num_jobs_on[gpu] > 1:
        return NOT_OPEN
    if job == NOBODY:
        return FREE
    if m.may_move[job]:
        return HELD
    return AWAITED if s.phase[job] == PAUSING else NOT_OPEN


@compiled
def place_of(s, m, gpu):
    """Return the place in the order of the job that would lose a GPU; of others, one behind the last."""
    return m.place[s.first_owner[gpu]] if m.kind[gpu] == HELD else m.num_order


@compiled
def is_taken_before(s, m, a, b):
    """Tell whether one GPU of a node is taken rather than another."""
    if m.kind[a] != m.kind[b]:
        return m.kind[a] < m.kind[b]
    first, second = place_of(s, m, a), place_of(s, m, b)
    return a < b if first == second else first > second


@compiled
def open_node(s, m, node):
    """List the GPUs of a node that may be granted, the first to be taken first."""
    begin, count = s.node_first[node], 0
    m.num_free[node] = 0
    for gpu in range(begin, begin + s.node_gpus[node]):
        m.taken[gpu] = 0
        m.kind[gpu] = kind_of(s, m, gpu)
        if m.kind[gpu] == NOT_OPEN:
            continue
        m.num_free[node] += m.kind[gpu] == FREE
        at = count
        while at > 0 and is_taken_before(s, m, gpu, m.open[begin + at - 1]):
            m.open[begin + at] = m.open[begin + at - 1]
            at -= 1
        m.open[begin + at] = gpu
        count += 1
    m.num_open[node] = count
    m.num_left += count


@compiled
def stays(s, m, job):
    """Tell whether an active job keeps what it has."""
    return (s.phase[job] == LOADING or s.phase[job] == RUNNING) and not m.may_move[job]


@compiled
def count_cores_left(s, jobs, m):
    """Count the cores of each node beyond one for each GPU, and beyond what jobs keep that are not in question."""
    for node in range(s.num_nodes):
        m.cores_left[node] = s.node_cores[node] - s.node_gpus[node] if s.cpu_limited else np.inf
    if not s.cpu_limited:
        return
    for gpu in range(s.num_gpus):
        job = s.first_owner[gpu]
        if job != NOBODY and stays(s, m, job):
            m.cores_left[s.gpu_node[gpu]] -= cores_now(s, job) - 1
    for k in range(m.num_present):
        job = m.present[k]
        if s.node_of[job] != NOBODY and stays(s, m, job):
            m.cores_left[s.node_of[job]] -= cores_now(s, job)
    for gpu in range(s.num_gpus):
        job = s.reserved_for[gpu]
        if job >= 0:
            m.cores_left[s.gpu_node[gpu]] -= cores_for(jobs, job, form_now(s, job)) - 1


@compiled
def open_room(s, jobs, m):
    """Take stock before jobs are given anything in their order."""
    for k in range(m.num_present):
        m.is_granted[m.present[k]] = m.keeps[m.present[k]] = 0
        m.place[m.present[k]] = m.num_order
    for k in range(m.num_order):
        m.place[m.order[k]] = k
    m.num_left = m.num_granted = m.num_refused = 0
    for node in range(s.num_nodes):
        open_node(s, m, node)
    count_cores_left(s, jobs, m)
