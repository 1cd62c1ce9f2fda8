"""What a monitor reads of running jobs, each reading with its error: busy GPUs, bandwidth drawn from host memory."""

from simulator.kernel._compile import compiled
from simulator.kernel.layout import MAX_SHARE, NOBODY, RUNNING
from simulator.kernel.noise import BANDWIDTH_ERROR, BUSY, BUSY_ERROR_S, DRAWN, LARGEST_ERROR, error_of
from simulator.kernel.speed import drawn_by_each


@compiled
def busy_read(s, job):
    """Seconds that a running job's GPUs were busy with it so far, as a monitor reads it."""
    busy = s.busy_s[job] + s.efficiency[job] * (s.clock - s.banked[job])
    return busy + BUSY_ERROR_S * error_of(s, BUSY, job) if busy > 0 else busy


@compiled
def drawn_now(s, jobs, job):
    """GB/s of host memory that a running job draws on each of its GPUs' behalf, as a whole if it has none."""
    if jobs[job].num_gpus == 0:
        return jobs[job].gbs_each * (s.core_count[job] / max(jobs[job].cores_each, 1e-9)) * s.throttle[job]
    return drawn_by_each(s, jobs, job) if s.width[job] > 0 else 0.0


@compiled
def drawn_read(s, jobs, job):
    """Return `drawn_now` of a running job as a monitor reads it."""
    drawn = drawn_now(s, jobs, job)
    return drawn * (1.0 + BANDWIDTH_ERROR * error_of(s, DRAWN, job)) if drawn > 0 else drawn


@compiled
def is_surely_enough(s, jobs, m):
    """Tell whether no error could make a node's memory seem to give too little, and no CPU job is throttled.

    What is drawn is written without errors.
    """
    m.drawn[: s.num_nodes] = 0.0
    for at in range(m.num_running):
        job = m.running[at]
        if s.node_of[job] != NOBODY:
            if s.throttle[job] < 1.0:
                return False
            m.drawn[s.node_of[job]] += drawn_now(s, jobs, job)
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == RUNNING and s.first_slot[job] != NOBODY:
            drawn, slot = drawn_now(s, jobs, job), s.first_slot[job]
            while slot != NOBODY:
                m.drawn[s.gpu_node[slot // MAX_SHARE]] += drawn
                slot = s.next_slot[slot]
    for node in range(s.num_nodes):
        if m.drawn[node] * (1.0 + BANDWIDTH_ERROR * LARGEST_ERROR) > s.node_gbs:
            return False
    return True


@compiled
def read_bandwidth(s, jobs, m):
    """Write what running jobs draw from the memory of each node, with errors where they could matter.

    Running jobs have been listed.
    """
    if is_surely_enough(s, jobs, m):
        return
    m.drawn[: s.num_nodes] = 0.0
    for at in range(m.num_running):
        job = m.running[at]
        if s.node_of[job] != NOBODY:
            m.drawn[s.node_of[job]] += drawn_read(s, jobs, job)
    for slot in range(MAX_SHARE * s.num_gpus):
        job = s.job_in[slot]
        if job != NOBODY and s.phase[job] == RUNNING:
            m.drawn[s.gpu_node[slot // MAX_SHARE]] += drawn_read(s, jobs, job)


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
