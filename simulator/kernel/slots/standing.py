"""What stands of a queued job as long as it waits: found once, and again when it has run in between."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import QUEUED
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import overhead_of
from gpu_cluster_gym.simulator.kernel.cluster.queues import (
    attained_now,
    cost_to_finish,
    estimate_now,
    remaining_now,
)
from gpu_cluster_gym.simulator.kernel.cluster.readings import as_time, largest_memory
from gpu_cluster_gym.simulator.kernel.slots.features import (
    ATTAINED,
    CORES,
    ESTIMATE,
    GPUS,
    MEMORY,
    PREDICTABLE,
    PREEMPTIONS,
    PRESENT,
    PROGRESS,
    REMAINING,
    REMAINING_AREA,
    RESTART,
)


@compiled
def write_figures(s, jobs, sight, job):
    """Write what stands of a queued job as long as it waits."""
    row = jobs[job]
    out = sight.figures
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
    sight.effort[job] = cost_to_finish(s, jobs, job)
    sight.area[job] = remaining * row.num_gpus


@compiled
def know(s, jobs, sight, job):
    """Write down what stands of a queued job, unless that is known since its last start."""
    if sight.known[job] != 1 + s.began[job]:
        sight.known[job] = 1 + s.began[job]
        write_figures(s, jobs, sight, job)


@compiled
def effort_of(s, jobs, sight, job):
    """Return `queues.cost_to_finish` of a queued job."""
    know(s, jobs, sight, job)
    return sight.effort[job]


@compiled
def know_all(s, jobs, sight):
    """Know all queued jobs: those that have joined the queue since all were known."""
    if sight.known_joins < 0 or s.num_joins - sight.known_joins > len(s.joined):
        for request_class in range(s.num_classes):
            begin = s.queue_start[request_class]
            for at in range(begin, begin + s.queue_size[request_class]):
                know(s, jobs, sight, s.queue[at])
    else:
        for at in range(sight.known_joins, s.num_joins):
            job = s.joined[at % len(s.joined)]
            if s.phase[job] == QUEUED:
                know(s, jobs, sight, job)
    sight.known_joins = s.num_joins
