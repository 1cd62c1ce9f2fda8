"""What a monitor reads of running jobs, each reading with its error: busy GPUs, bandwidth drawn from host memory."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.noise import (
    BANDWIDTH_ERROR,
    BUSY,
    BUSY_ERROR_S,
    DRAWN,
    LARGEST_ERROR,
    error_of,
)
from gpu_cluster_gym.simulator.kernel.cluster.speed import demand_on, drawn_by_each


@compiled
def busy_read(s, job):
    """Seconds that a running job's GPUs were busy with it so far, as a monitor reads it."""
    busy = s.busy_s[job] + s.efficiency[job] * (s.clock - s.banked[job])
    return busy + BUSY_ERROR_S * error_of(s, BUSY, job) if busy > 0 else busy


@compiled
def error_drawn(s, m, job):
    """Return the standard normal error of what is read of a job's bandwidth at this instant; found once for each."""
    if m.error_seed != s.seed:
        m.error_seed = s.seed
        m.error_at[:] = -1
    if m.error_at[job] != s.instant:
        m.error_at[job] = s.instant
        m.error_drawn[job] = error_of(s, DRAWN, job)
    return m.error_drawn[job]


@compiled
def drawn_read(s, jobs, m, job):
    """GB/s of host memory that a running job draws on each of its GPUs' behalf, as a whole if it has none."""
    drawn = jobs[job].gbs_each
    if jobs[job].num_gpus == 0:
        drawn = drawn * (s.core_count[job] / max(jobs[job].cores_each, 1e-9)) * s.throttle[job]
    elif s.width[job] > 0:
        drawn = drawn_by_each(s, jobs, job)
    else:
        return 0.0
    return drawn * (1.0 + BANDWIDTH_ERROR * error_drawn(s, m, job))


@compiled
def is_surely_enough(s, jobs, m):
    """Tell whether no error could make a node's memory seem to give too little, and no CPU job is throttled.

    What is drawn is written without errors: as it was found for the speeds, where nothing has changed since.
    """
    for at in range(m.num_running):
        if s.throttle[m.running[at]] < 1.0:
            return False
    for node in range(s.num_nodes):
        m.drawn[node] = s.demanded_gbs[node]
        if s.changed[node] or not s.varying:
            m.drawn[node] = demand_on(s, jobs, node)
        if m.drawn[node] * (1.0 + BANDWIDTH_ERROR * LARGEST_ERROR) > s.node_gbs:
            return False
    return True


@compiled
def read_bandwidth(s, jobs, m):
    """Write what running jobs, which have been listed, draw from each node's memory, with errors if they matter."""
    if is_surely_enough(s, jobs, m):
        return
    m.drawn[: s.num_nodes] = 0.0
    for at in range(m.num_running):
        job = m.running[at]
        if s.node_of[job] != NOBODY:
            m.drawn[s.node_of[job]] += drawn_read(s, jobs, m, job)
    for slot in range(MAX_SHARE * s.num_gpus):
        job = s.job_in[slot]
        if job != NOBODY and s.phase[job] == RUNNING:
            m.drawn[s.gpu_node[slot // MAX_SHARE]] += drawn_read(s, jobs, m, job)


@compiled
def is_short_of_bandwidth(s, m, job):
    """Tell whether the memory of one of a job's nodes gives less than is drawn from it; that has been read."""
    if not s.bandwidth_binds:
        return False
    slot = s.first_slot[job]
    while slot != NOBODY:
        if m.drawn[s.gpu_node[slot // MAX_SHARE]] > s.node_gbs:
            return True
        slot = s.next_slot[slot]
    return False
