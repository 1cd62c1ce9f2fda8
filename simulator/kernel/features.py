"""What an agent sees, as numbers: slots of queued and running jobs, and totals.

Every time goes through log1p(x / 60) / 4 and every count into about [0, 1], so nothing needs to be normalised by
running statistics. No number depends on a true duration, the length of the window, or the jobs still to come.
"""

import numpy as np

from simulator.kernel import heaps
from simulator.kernel._compile import allocating, compiled, entry
from simulator.kernel.bounds import overhead_of
from simulator.kernel.clearing import LEAST_RUN
from simulator.kernel.cost_aware import find_victims, next_pick, pays, worth
from simulator.kernel.layout import LOADING, NOBODY, PAUSING, RESTARTING, RUNNING
from simulator.kernel.pausing import may_pause
from simulator.kernel.placement import place
from simulator.kernel.queues import attained_now, cost_to_finish, estimate_now, remaining_now

QUEUE_FEATURES = (
    "present",
    "gpus",  # log2(1 + GPUs) / 7
    "estimate",  # time
    "remaining",  # time
    "remaining_area",  # time x GPUs
    "attained",  # time
    "progress",  # attained / estimate, at most 2
    "restart",  # pause + load, time
    "age",  # since submission, time
    "predictable",
    "preemptions",  # / 5, at most 1
    "memory",  # GiB a GPU / the largest GPU's
    "cores",  # a GPU / 8
    "rank",  # position in the order / slots
    "wait_without_preemption",  # estimated, time
    "fits",
    "left_on_node",  # free GPUs that stay on the last node used / its GPUs
    "has_victims",
    "victims",  # / 4
    "victims_overhead",  # time
    "victims_least_remaining",  # time
    "victims_worth",  # log of what the threshold rule compares with 1, in [-1, 1]
    "victims_worth_free",  # the same were pausing free
    "victims_most_preempted",  # / 5, at most 1
    "victims_unpredictable",  # share
    "victims_surplus",  # GPUs freed beyond need / need, at most 1
)
RUNNING_FEATURES = (
    "present",
    "gpus",
    "estimate",
    "remaining",
    "attained",
    "pause",
    "load",
    "predictable",
    "preemptions",
    "memory",
    "cores",
    "running_for",
    "may_pause",
)
WAITS = (1, 2, 4, 8, 16)  # GPUs for which the estimated wait is shown
BINS = 9  # nodes with 0, 1, ... 8 and more free GPUs
TOTALS = (
    "free_share",
    *(f"nodes_with_{k}_free" for k in range(BINS)),
    "queued",
    "unseen",
    "running",
    "loading",
    "pausing_gpus",
    "queued_gpu_time",
    "running_gpu_time",
    "gpus_free_in_5_min",
    *(f"wait_for_{g}" for g in WAITS),
    "arrivals_last_hour",
)
OWN_CHOICE, A_RANK, WAIT_LOGIT = 3.0, -1.2, -1.2  # the base policy's logits, before they are scaled


@compiled
def as_time(seconds):
    """Bring a time onto the scale of the other features."""
    return np.log1p(max(seconds, 0.0) / 60.0) / 4.0


@compiled
def insert(s, listed, count, most, job):
    """Insert a job by its key into a sorted list of at most `most`; return the new length."""
    k = count
    while k > 0 and heaps.before(s.order, job, listed[k - 1]):
        if k < most:
            listed[k] = listed[k - 1]
        k -= 1
    if k == most:
        return count
    listed[k] = job
    return min(count + 1, most)


@compiled
def first_in_order(s, slots, out):
    """List the first `slots` queued jobs in the order of the active ranking; return how many there are."""
    count = 0
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            count = insert(s, out, count, slots, s.queue[at])
    return count


@compiled
def most_remaining(s, jobs, slots, out):
    """List the `slots` running jobs with most time remaining, longest first; return how many there are."""
    count = 0
    for at in range(s.num_active):
        job = s.events[at]
        if s.phase[job] != RUNNING:
            continue
        s.order[job] = -remaining_now(s, jobs, job)
        count = insert(s, out, count, slots, job)
    return count


@compiled
def sort_ends(s, jobs):
    """Sort the active jobs by when they should free their GPUs, into `candidates`; return their number."""
    count = 0
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == RESTARTING:
            continue
        left = s.event_at[job] - s.clock if s.phase[job] == PAUSING else remaining_now(s, jobs, job)
        if s.phase[job] == LOADING:
            left += s.event_at[job] - s.clock
        s.order[job] = left
        count = insert(s, s.candidates, count, s.num_active, job)
    return count


@compiled
def wait_for(s, jobs, num_ends, gpus):
    """Estimate the seconds until so many GPUs are free anywhere, by the first ends that `sort_ends` found."""
    free = s.num_free
    for k in range(num_ends):
        if free >= gpus:
            return s.order[s.candidates[k - 1]] if k > 0 else 0.0
        free += s.width[s.candidates[k]]
    return s.order[s.candidates[num_ends - 1]] if num_ends > 0 else 0.0


@compiled
def largest_memory(s):
    """Memory of the largest GPU, GiB."""
    return s.level_memory[s.num_levels - 1]


@compiled
def log_worth(value):
    """Bring a worth, which pays above 1, into [-1, 1]."""
    return min(max(np.log(max(value, 1e-9)) / 4.0, -1.0), 1.0)


@compiled
def describe_victims(s, jobs, job, num_victims, out):
    """Write the features of the victims just found for a job."""
    effort = cost_to_finish(s, jobs, job)
    overhead = 0.0
    least = np.inf
    most_preempted = 0
    unpredictable = 0.0
    gpus = 0
    for k in range(num_victims):
        victim = s.victims[k]
        overhead += overhead_of(jobs, victim)
        least = min(least, remaining_now(s, jobs, victim))
        most_preempted = max(most_preempted, s.preemptions[victim])
        unpredictable += not s.predictable[victim]
        gpus += s.width[victim]
    margin = s.margin if s.margin < np.inf else 1.0
    out[0] = 1.0
    out[1] = num_victims / 4.0
    out[2] = as_time(overhead)
    out[3] = as_time(least)
    out[4] = log_worth(worth(s, jobs, effort, margin, 0, num_victims))
    out[5] = log_worth(worth(s, jobs, effort, 0.0, 0, num_victims))
    out[6] = min(most_preempted / 5.0, 1.0)
    out[7] = unpredictable / num_victims
    out[8] = min(max(gpus - jobs[job].num_gpus, 0) / jobs[job].num_gpus, 1.0)


@compiled
def describe_queued(s, jobs, num_ends, job, rank, out):
    """Write a queued job's features; tell whether it could be picked now."""
    row = jobs[job]
    attained = attained_now(s, job)
    remaining = remaining_now(s, jobs, job)
    out[0] = 1.0
    out[1] = np.log2(1.0 + row.num_gpus) / 7.0
    out[2] = as_time(estimate_now(s, jobs, job))
    out[3] = as_time(remaining)
    out[4] = as_time(remaining * row.num_gpus)
    out[5] = as_time(attained)
    out[6] = min(attained / estimate_now(s, jobs, job), 2.0)
    out[7] = as_time(overhead_of(jobs, job))
    out[8] = as_time(s.clock - row.submit_s)
    out[9] = s.predictable[job]
    out[10] = min(s.preemptions[job] / 5.0, 1.0)
    out[11] = row.profiled_memory_gib / largest_memory(s)
    out[12] = row.cores_each / 8.0
    out[13] = rank
    out[14] = as_time(wait_for(s, jobs, num_ends, row.num_gpus))
    if s.last_action_instant[job] == s.instant:
        return False
    if place(s, jobs, job):
        out[15] = 1.0
        if s.num_chosen == 0:
            return True
        node = s.chosen_node[s.num_chosen - 1]
        out[16] = (s.free[node] - s.chosen_gpus[s.num_chosen - 1]) / s.node_gpus[node]
        return True
    num_victims = find_victims(s, jobs, job)
    if not pays(s, jobs, job, 0.0, num_victims):
        return False
    describe_victims(s, jobs, job, num_victims, out[17:])
    return True


@compiled
def describe_running(s, jobs, job, out):
    """Write a running job's features; tell whether it may be paused."""
    row = jobs[job]
    out[0] = 1.0
    out[1] = np.log2(1.0 + row.num_gpus) / 7.0
    out[2] = as_time(estimate_now(s, jobs, job))
    out[3] = as_time(remaining_now(s, jobs, job))
    out[4] = as_time(attained_now(s, job))
    out[5] = as_time(row.pause_s)
    out[6] = as_time(row.load_s)
    out[7] = s.predictable[job]
    out[8] = min(s.preemptions[job] / 5.0, 1.0)
    out[9] = row.profiled_memory_gib / largest_memory(s)
    out[10] = row.cores_each / 8.0
    out[11] = as_time(s.clock - s.phase_began[job])
    out[12] = may_pause(s, job) and s.clock - s.phase_began[job] >= LEAST_RUN
    return out[12] > 0


@allocating
def describe_totals(s, jobs, num_ends, slots, out):
    """Write the totals; `sort_ends` has been called."""
    queued_area = 0.0
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            job = s.queue[at]
            queued_area += remaining_now(s, jobs, job) * jobs[job].num_gpus
    area = 0.0
    soon = s.num_free
    counts = np.zeros(3)
    for k in range(num_ends):
        job = s.candidates[k]  # in an order that no true duration decides
        gpus = s.width[job]
        counts[0] += s.phase[job] == RUNNING
        counts[1] += s.phase[job] == LOADING
        counts[2] += gpus * (s.phase[job] == PAUSING)
        area += s.order[job] * gpus
        if s.order[job] <= 300.0:
            soon += gpus
    out[0] = s.num_free / s.num_gpus
    for node in range(s.num_nodes):
        out[1 + min(s.free[node], BINS - 1)] += 1.0 / s.num_nodes
    at = 1 + BINS
    out[at] = np.log1p(s.num_queued) / 6.0
    out[at + 1] = np.log1p(max(s.num_queued - slots, 0)) / 6.0
    out[at + 2] = counts[0] / s.num_gpus
    out[at + 3] = counts[1] / s.num_gpus
    out[at + 4] = counts[2] / s.num_gpus
    out[at + 5] = as_time(queued_area / s.num_gpus)
    out[at + 6] = as_time(area / s.num_gpus)
    out[at + 7] = soon / s.num_gpus
    for k in range(len(WAITS)):
        out[at + 8 + k] = as_time(wait_for(s, jobs, num_ends, WAITS[k]))
    recent = s.num_arrived
    while recent > 0 and jobs[recent - 1].submit_s > s.clock - 3600.0:
        recent -= 1
    out[at + 8 + len(WAITS)] = np.log1p(s.num_arrived - recent) / 6.0


@compiled
def show(s, listed, count, job):
    """Put a job into the last slot, unless it is listed or there is none."""
    if job == NOBODY or count < len(listed):
        return
    for k in range(count):
        if listed[k] == job:
            return
    listed[count - 1] = job


@compiled
def write_base_logits(own, listed, count, slots, out):
    """Write the logits of the active ranking: its own choice highest, then the slots by rank."""
    out[slots] = OWN_CHOICE if own == NOBODY else WAIT_LOGIT
    for k in range(count):
        out[k] = OWN_CHOICE if listed[k] == own else A_RANK * k


@entry
def observe_queue(states, e, jobs, listed, features, totals, mask, base_logits):
    """Describe the first queued jobs in order; `mask[k]` tells which could be picked, the last is left alone.

    The rule's own choice is always among them: in the last slot, if it comes later in the order.

    listed: int64 (K,), the jobs, -1 beyond the queue. features: float32 (K, len(QUEUE_FEATURES)). totals: float32
    (len(TOTALS),). mask: int8 (K + 1,). base_logits: float32 (K + 1,). Returns how many slots are used.
    """
    s = states[e]
    slots = len(listed)
    listed[:] = NOBODY
    features[:] = 0.0
    totals[:] = 0.0
    mask[:] = 0
    base_logits[:] = 0.0
    num_ends = sort_ends(s, jobs)
    describe_totals(s, jobs, num_ends, slots, totals)
    count = first_in_order(s, slots, listed)
    own = next_pick(s, jobs)
    show(s, listed, count, own)
    for k in range(count):
        mask[k] = describe_queued(s, jobs, num_ends, listed[k], k / slots, features[k])
    write_base_logits(own, listed, count, slots, base_logits)
    return count


@entry
def observe_running(states, e, jobs, listed, features, mask):
    """Describe the running jobs with most time remaining; `mask[k]` tells which may be paused.

    listed: int64 (R,), -1 beyond. features: float32 (R, len(RUNNING_FEATURES)). mask: int8 (R,).
    """
    s = states[e]
    listed[:] = NOBODY
    features[:] = 0.0
    mask[:] = 0
    count = most_remaining(s, jobs, len(listed), listed)
    for k in range(count):
        mask[k] = describe_running(s, jobs, listed[k], features[k])
    return count
