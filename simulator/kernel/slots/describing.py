"""The features of what has been looked at, written down."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, NOBODY, PAUSING, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import overhead_of
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.queues import attained_now, estimate_now, remaining_now
from gpu_cluster_gym.simulator.kernel.cluster.readings import as_time, largest_memory
from gpu_cluster_gym.simulator.kernel.rankings.cost_aware import MIN_RUN_S, worth
from gpu_cluster_gym.simulator.kernel.slots.displacing import AS_IT_IS, CANNOT
from gpu_cluster_gym.simulator.kernel.slots.features import (
    A_RANK,
    AGE,
    BINS,
    FITS,
    HAS_VICTIMS,
    HIGHEST,
    LEFT_ON_NODE,
    LOWEST,
    MAY_PAUSE,
    NUM_FEATURES,
    NUM_RUNNING,
    NUM_TOTALS,
    OWN_CHOICE,
    RANK,
    VICTIMS,
    VICTIMS_LEAST_REMAINING,
    VICTIMS_MOST_PREEMPTED,
    VICTIMS_OVERHEAD,
    VICTIMS_SURPLUS,
    VICTIMS_UNPREDICTABLE,
    VICTIMS_WORTH,
    VICTIMS_WORTH_FREE,
    WAIT,
    WAIT_LOGIT,
    WAITS,
)
from gpu_cluster_gym.simulator.kernel.slots.sight import STANDING, wait_for


@compiled
def log_worth(value):
    """Bring a worth, which pays above 1, into [-1, 1]."""
    return min(max(np.log(max(value, 1e-9)) / 4.0, -1.0), 1.0)


@compiled
def describe_victims(s, jobs, job, effort, num_victims, out, k):
    """Write the features of the victims just found for a job that needs `effort` seconds."""
    overhead = 0.0
    least = np.inf
    most_preempted = 0
    unpredictable = 0.0
    gpus = 0
    for each in range(num_victims):
        victim = s.victims[each]
        overhead += overhead_of(jobs, victim)
        least = min(least, s.left[victim])
        most_preempted = max(most_preempted, s.preemptions[victim])
        unpredictable += not s.predictable[victim]
        gpus += s.width[victim]
    margin = s.margin if s.margin < np.inf else 1.0
    out[k, HAS_VICTIMS] = 1.0
    out[k, VICTIMS] = num_victims / 4.0
    out[k, VICTIMS_OVERHEAD] = as_time(overhead)
    out[k, VICTIMS_LEAST_REMAINING] = as_time(least)
    out[k, VICTIMS_WORTH] = log_worth(worth(s, jobs, effort, margin, 0, num_victims))
    out[k, VICTIMS_WORTH_FREE] = log_worth(worth(s, jobs, effort, 0.0, 0, num_victims))
    out[k, VICTIMS_MOST_PREEMPTED] = min(most_preempted / 5.0, 1.0)
    out[k, VICTIMS_UNPREDICTABLE] = unpredictable / num_victims
    out[k, VICTIMS_SURPLUS] = min(max(gpus - jobs[job].num_gpus, 0) / jobs[job].num_gpus, 1.0)


@compiled
def describe_queued(s, jobs, sight, job, out, k):
    """Write a queued job's features but for those of how it can be picked; what stands of it is known."""
    for column in range(STANDING):
        out[k, column] = sight.figures[job, column]
    out[k, AGE] = as_time(s.clock - jobs[job].submit_s)
    out[k, RANK] = k / len(out)
    request_class = jobs[job].request_class
    if sight.wait[request_class] < 0:
        sight.wait[request_class] = as_time(wait_for(s, sight, jobs[job].num_gpus))
    out[k, WAIT] = sight.wait[request_class]


@compiled
def describe_way(s, jobs, sight, job, way, out, k):
    """Write the features of how a queued job can be picked."""
    if way == AS_IT_IS:
        out[k, FITS] = 1.0
        if jobs[job].num_gpus > 0:
            out[k, LEFT_ON_NODE] = sight.left_on_node[jobs[job].request_class]
    elif way != CANNOT:
        describe_victims(s, jobs, job, sight.effort[job], way, out, k)


@compiled
def write_lasting(s, jobs, sight, job):
    """Write what stands of a running job as long as its estimate does."""
    row = jobs[job]
    out = sight.lasting
    out[job, 0] = 1.0
    out[job, 1] = np.log2(1.0 + row.num_gpus) / 7.0
    out[job, 2] = as_time(estimate_now(s, jobs, job))
    out[job, 5] = as_time(row.pause_s)
    out[job, 6] = as_time(row.load_s)
    out[job, 7] = s.predictable[job]
    out[job, 9] = row.profiled_memory_gib / largest_memory(s)
    out[job, 10] = row.cores_each / 8.0


@compiled
def describe_running(s, jobs, sight, job, out):
    """Write a running job's features."""
    if sight.lasting_for[job] != 1 + s.predictable[job]:
        sight.lasting_for[job] = 1 + s.predictable[job]
        write_lasting(s, jobs, sight, job)
    for column in range(NUM_RUNNING):
        out[column] = sight.lasting[job, column]
    attained, running_for = attained_now(s, job), s.clock - s.phase_began[job]
    out[3] = as_time(remaining_now(s, jobs, job))
    out[11] = as_time(running_for)
    out[4] = out[11] if attained == running_for else as_time(attained)
    out[8] = min(s.preemptions[job] / 5.0, 1.0)
    out[MAY_PAUSE] = may_pause(s, job) and running_for >= MIN_RUN_S


@compiled
def arrivals_last_hour(s, jobs, sight):
    """Count the jobs that were submitted within the last hour."""
    begin = s.clock - 3600.0
    count = min(sight.an_hour_ago, s.num_arrived)
    while count > 0 and jobs[count - 1].submit_s > begin:
        count -= 1
    while count < s.num_arrived and jobs[count].submit_s <= begin:
        count += 1
    sight.an_hour_ago = count
    return s.num_arrived - count


@compiled
def describe_totals(s, jobs, sight, slots, out):
    """Write the totals, and note what is free after each end; `sort_ends` has been called."""
    area = 0.0
    soon = s.num_free
    free = s.num_free
    running = 0.0
    loading = 0.0
    pausing_gpus = 0.0
    for k in range(sight.num_ends):
        job = sight.ends[k]  # in an order that no true duration decides
        gpus = s.width[job]
        free += gpus
        sight.free_after[k] = free
        running += s.phase[job] == RUNNING
        loading += s.phase[job] == LOADING
        pausing_gpus += gpus * (s.phase[job] == PAUSING)
        area += sight.left[k] * gpus
        if sight.left[k] <= 300.0:
            soon += gpus
    out[0] = s.num_free / s.num_gpus
    for node in range(s.num_nodes):
        out[1 + min(s.free[node], BINS - 1)] += 1.0 / s.num_nodes
    at = 1 + BINS
    out[at] = np.log1p(s.num_queued) / 6.0
    out[at + 1] = np.log1p(max(s.num_queued - slots, 0)) / 6.0
    out[at + 2] = running / s.num_gpus
    out[at + 3] = loading / s.num_gpus
    out[at + 4] = pausing_gpus / s.num_gpus
    out[at + 5] = as_time(sight.queued_area / s.num_gpus)
    out[at + 6] = as_time(area / s.num_gpus)
    out[at + 7] = soon / s.num_gpus
    for k in range(len(WAITS)):
        out[at + 8 + k] = as_time(wait_for(s, sight, WAITS[k]))
    out[at + 8 + len(WAITS)] = np.log1p(arrivals_last_hour(s, jobs, sight)) / 6.0


@compiled
def write_base_logits(own, listed, count, slots, out):
    """Write the logits of the active ranking: its own choice highest, then the slots by rank; return its number."""
    out[:] = 0.0
    out[slots] = OWN_CHOICE if own == NOBODY else WAIT_LOGIT
    choice = slots
    for k in range(count):
        out[k] = A_RANK * k
        if listed[k] == own:
            out[k] = OWN_CHOICE
            choice = k
    return choice


@compiled
def describe(s, jobs, sight, count, own, listed, seen):
    """Describe what has been looked at, in a flat vector; return the number of the rule's own choice.

    seen: float32, [K x queue features, totals, K + 1 logits of the rule, and more, which is left alone].
    """
    slots = len(listed)
    size = slots * NUM_FEATURES
    features = seen[:size].reshape(slots, NUM_FEATURES)
    totals = seen[size : size + NUM_TOTALS]
    totals[:] = 0.0
    describe_totals(s, jobs, sight, slots, totals)
    for k in range(count):
        describe_queued(s, jobs, sight, listed[k], features, k)
    for k in range(size + NUM_TOTALS):
        seen[k] = min(max(seen[k], LOWEST), HIGHEST)
    return write_base_logits(
        own, listed, count, slots, seen[size + NUM_TOTALS : size + NUM_TOTALS + slots + 1]
    )
