"""Observation vector of the slots: the first queued jobs, their victims if started, and the longest running jobs."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import node_bounds, queues
from gpu_cluster_gym.simulator.kernel.cluster.actions import start
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    LOADING,
    MAX_SHARE,
    NOBODY,
    PAUSING,
    QUEUED,
    RESERVED,
    ROUNDING,
    RUNNING,
    SUBMIT,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_free
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import overhead_of
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import (
    can_hold,
    choose_nodes,
    largest_node,
    place,
    surely_no_room,
)
from gpu_cluster_gym.simulator.kernel.cluster.queues import (
    attained_now,
    cost_to_finish,
    estimate_now,
    first_open,
    open_all,
    remaining_now,
)
from gpu_cluster_gym.simulator.kernel.cluster.readings import as_time, largest_memory
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_begin
from gpu_cluster_gym.simulator.kernel.rankings.cost_aware import (
    displace,
    find_victims,
    leaves_cores,
    list_gpus,
    max_gain,
    min_victims,
    pays,
    unmark,
    worth,
)
from gpu_cluster_gym.simulator.kernel.rankings.room import is_coming
from gpu_cluster_gym.simulator.kernel.slots.claims import pending_claim, wait_of_claim
from gpu_cluster_gym.simulator.kernel.slots.feature_cache import (
    HAS_ROOM,
    LACKS_CORES,
    LACKS_GPUS,
    NUM_STATIC,
    UNKNOWN,
    cache_all_queued,
    invalidate,
    invalidate_all,
    list_holders,
    sort_ends,
    wait_for,
)
from gpu_cluster_gym.simulator.kernel.slots.features import (
    A_RANK,
    AGE,
    ALL_LOADING,
    ALL_QUEUED,
    ALL_RUNNING,
    ALL_UNSEEN,
    ARRIVALS,
    BINS,
    CLAIM,
    CLAIMED,
    FIRST_WAIT,
    FITS,
    FREE_ON_NODE,
    FREE_SHARE,
    FREE_SOON,
    HAS_VICTIMS,
    HIGHEST,
    IS_LOADING,
    IS_PAUSING,
    IS_RESERVED,
    LEFT_ON_NODE,
    LOAD,
    LOWEST,
    MAY_PAUSE,
    NODES_BY_FREE,
    NUM_FEATURES,
    NUM_RUNNING,
    NUM_TOTALS,
    OWN_CHOICE,
    PAUSE,
    PAUSING_GPUS,
    QUEUED_AREA,
    RANK,
    RUNNING_AREA,
    RUNNING_ATTAINED,
    RUNNING_CORES,
    RUNNING_ESTIMATE,
    RUNNING_FOR,
    RUNNING_GPUS,
    RUNNING_MEMORY,
    RUNNING_PREDICTABLE,
    RUNNING_PREEMPTIONS,
    RUNNING_PRESENT,
    RUNNING_REMAINING,
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
from gpu_cluster_gym.simulator.kernel.slots.running_jobs import claimed_share, list_running

IMPOSSIBLE, NO_VICTIMS = -1, 0  # start options of a queued job; n > 0 is a start with n victims


@compiled
def fits(s, jobs, cache, job):
    """Return whether a job fits, searching nodes only for the first job of each request class."""
    if jobs[job].num_gpus == 0:
        return place(s, jobs, job)
    if not may_begin(s, jobs, job):  # the cache is of GPUs alone
        return False
    request_class = jobs[job].request_class
    if cache.fit[request_class] == UNKNOWN:
        cache.fit[request_class] = find_fit(s, jobs, cache, job)
    return cache.fit[request_class] == HAS_ROOM


@compiled
def find_fit(s, jobs, cache, job):
    """Return HAS_ROOM or the missing resource for a job with GPUs; store the free GPUs of the last node after it."""
    if surely_no_room(s, jobs, job):
        return LACKS_GPUS
    if not choose_nodes(s, jobs, job, s.free, s.unreserved_cores):
        return LACKS_GPUS if jobs[job].num_gpus > largest_node(s, jobs, job) else LACKS_CORES
    node = s.chosen_node[s.num_chosen - 1]
    left = s.free[node] - s.chosen_gpus[s.num_chosen - 1]
    cache.left_on_node[jobs[job].request_class] = left / s.node_gpus[node]
    return HAS_ROOM


@compiled
def update_min_effort(s, cache, listed, count):
    """Store the smallest effort among the listed jobs and the first job of each request class."""
    least = np.inf
    for k in range(count):
        least = min(least, cache.effort[listed[k]])
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] > 0:
            least = min(least, cache.effort[s.queue[s.queue_start[request_class]]])
    cache.min_effort = least


@compiled
def victims_on_node(s, cache, node, wanted, effort):
    """List victims on a node until `wanted` GPUs are available; return their number, or -1 if there are too few.

    Jobs with most time remaining come first; a victim whose GPUs are not needed is dropped again.
    """
    have = s.free[node]
    at = s.node_first[node]
    last = at + cache.num_holders[node]
    count = 0
    while have < wanted:
        if at == last or cache.holder_left[at] <= effort:
            return -1
        s.victims[count] = at
        have += cache.holder_gpus[at]
        count += 1
        at += 1
    # Second pass: a victim is spared if the others free enough GPUs, beginning with the longest remaining time.
    kept = 0
    for k in range(count):
        at = s.victims[k]
        if have - cache.holder_gpus[at] >= wanted:
            have -= cache.holder_gpus[at]
        else:
            s.victims[kept] = cache.holder[at]
            s.left[cache.holder[at]] = cache.holder_left[at]
            kept += 1
    return kept


@compiled
def best_victims(s, jobs, cache, job, effort):
    """List the victims on the node where displacing them is worth most; return their number, 0 if there are none.

    The node is then the first entry of `chosen_node`. Where displacing pays on no node even if pausing were free, it
    pays for no job of the request class that needs as much time or more: such a job has no other victims, and they are
    worth no more to it.
    """
    wanted = jobs[job].num_gpus
    serves = jobs[job].servers > 0
    best = NOBODY
    best_worth = 0.0
    most_free = 0.0
    for node in range(s.num_nodes):
        if cache.reach[node] < wanted or not can_hold(s, jobs, job, node):
            continue
        count = victims_on_node(s, cache, node, wanted, effort)
        if count < 0 or (serves and not leaves_cores(s, jobs, job, node, wanted, 0, count)):
            continue
        # Nodes are compared with each pause counted once, and rejected only if pausing pays nowhere even for free.
        value = worth(s, jobs, effort, 1.0, 0, count)
        most_free = max(most_free, worth(s, jobs, effort, 0.0, 0, count))
        if best == NOBODY or value > best_worth:
            best = node
            best_worth = value
    if most_free <= 1.0 and not serves:
        cache.hopeless[jobs[job].request_class] = effort
    s.chosen_node[0] = best
    return 0 if best == NOBODY or most_free <= 1.0 else victims_on_node(s, cache, best, wanted, effort)


@compiled
def reach_with(s, cache, node, effort):
    """Return the GPUs of a node that are free or could be freed for a job that needs `effort` seconds."""
    reach = s.free[node]
    at = s.node_first[node]
    for k in range(at, at + cache.num_holders[node]):
        if cache.holder_left[k] <= effort:
            break
        reach += cache.holder_gpus[k]
    return reach


@compiled
def gang_may_find(s, jobs, cache, job, effort):
    """Return whether a gang larger than any node may find victims whose pauses would pay if they were free.

    A gang takes whole nodes and a part of one more. The mean remaining time of n victims is at most the longest one,
    and each victim has to outweigh the gang's effort.
    """
    wanted = jobs[job].num_gpus
    if cache.max_remaining <= min_victims(s, jobs, job) * effort * (1.0 - ROUNDING):
        return False
    whole = 0
    part = 0
    for node in range(s.num_nodes):
        if can_hold(s, jobs, job, node):
            reach = reach_with(s, cache, node, effort)
            if reach == s.node_gpus[node]:  # the whole node can be cleared
                whole += reach
            else:
                part = max(part, reach)
    return whole + part >= wanted


@compiled
def victims_for(s, jobs, cache, job, effort):
    """Find the jobs to pause for a job that does not fit, as `cost_aware.find_victims` does; return their number.

    The number may be 0 where pausing them would not pay even if pausing were free.
    """
    wanted = jobs[job].num_gpus
    # No victim has more time left than the job needs, or a job of its class that needs no more found none.
    if wanted == 0 or cache.max_remaining <= effort or effort >= cache.hopeless[jobs[job].request_class]:
        return 0
    if s.num_tenants > 0:
        return find_victims(s, jobs, job)
    if not cache.are_listed:
        list_holders(s, cache)
    if wanted <= largest_node(s, jobs, job):
        return best_victims(s, jobs, cache, job, effort)
    return find_victims(s, jobs, job) if gang_may_find(s, jobs, cache, job, effort) else 0


@compiled
def start_option(s, jobs, cache, job):
    """Return how a queued job can start now: NO_VICTIMS, the number of victims it needs, or IMPOSSIBLE."""
    if s.last_action_instant[job] == s.instant:
        return IMPOSSIBLE
    if fits(s, jobs, cache, job):
        return NO_VICTIMS
    effort = cache.effort[job]
    count = victims_for(s, jobs, cache, job, effort)
    return count if count > 0 and worth(s, jobs, effort, 0.0, 0, count) > 1.0 else IMPOSSIBLE


@compiled
def gains(s, jobs, effort, num_victims):
    """Return whether some running job has more time left, less its overhead, than the new job needs.

    `cost_aware.look_for_pick` searches only in this case. The victims just found are checked first, since a victim
    often settles it.
    """
    for k in range(num_victims):
        victim = s.victims[k]
        if effort < s.left[victim] - s.margin * node_bounds.overhead_of(jobs, victim):
            return True
    return effort < max_gain(s, jobs)


@compiled
def rule_would_start(s, jobs, effort, option):
    """Return whether the active ranking would start a job with this option; its victims have just been found."""
    if option <= NO_VICTIMS:
        return option == NO_VICTIMS
    if s.margin == np.inf or worth(s, jobs, effort, s.margin, 0, option) <= 1.0:
        return False
    return gains(s, jobs, effort, option)


@compiled
def pick(s, jobs, cache, job):
    """Start a queued job where it fits, else displace its victims; return success, as `cost_aware.pick` does."""
    if s.phase[job] != QUEUED or s.last_action_instant[job] == s.instant:
        return False
    if start(s, jobs, job):
        return True
    # The job does not fit: find its victims, with holders listed for an effort of at most its own.
    invalidate(s, cache)
    effort = cost_to_finish(s, jobs, job)
    sort_ends(s, jobs, cache)
    if not cache.are_listed or effort < cache.min_effort:
        cache.min_effort = effort
        cache.are_listed = 0
    count = victims_for(s, jobs, cache, job, effort)
    if not pays(s, jobs, job, 0.0, count):
        return False
    if jobs[job].num_gpus <= largest_node(s, jobs, job):
        # On one node: reserve free GPUs first, then those of the victims, which are marked for `list_gpus`.
        for k in range(count):
            s.marked[s.victims[k]] = 1
        list_gpus(s, s.chosen_node[0], jobs[job].num_gpus, 0)
        unmark(s, 0, count)
    displace(s, jobs, job, count)
    return True


@compiled
def log_worth(value):
    """Map a worth, which pays above 1, to [-1, 1] on a log scale."""
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
def describe_queued(s, jobs, cache, job, out, k):
    """Write the features of a queued job except those of its start option; static features come from the cache."""
    for column in range(NUM_STATIC):
        out[k, column] = cache.queued_features[job, column]
    out[k, AGE] = as_time(s.clock - jobs[job].submit_s)
    out[k, RANK] = k / len(out)
    request_class = jobs[job].request_class
    if cache.wait[request_class] < 0:
        cache.wait[request_class] = as_time(wait_for(s, cache, jobs[job].num_gpus))
    out[k, WAIT] = cache.wait[request_class]


@compiled
def describe_option(s, jobs, cache, job, option, out, k):
    """Write the features of the way in which a queued job can start."""
    if option == NO_VICTIMS:
        out[k, FITS] = 1.0
        if jobs[job].num_gpus > 0:
            out[k, LEFT_ON_NODE] = cache.left_on_node[jobs[job].request_class]
    elif option != IMPOSSIBLE:
        describe_victims(s, jobs, job, cache.effort[job], option, out, k)


@compiled
def compute_running_features(s, jobs, cache, job):
    """Compute the features of a running job that do not change while its estimate does not."""
    row = jobs[job]
    out = cache.running_features
    out[job, RUNNING_PRESENT] = 1.0
    out[job, RUNNING_GPUS] = np.log2(1.0 + row.num_gpus) / 7.0
    out[job, RUNNING_ESTIMATE] = as_time(estimate_now(s, jobs, job))
    out[job, PAUSE] = as_time(row.pause_s)
    out[job, LOAD] = as_time(row.load_s)
    out[job, RUNNING_PREDICTABLE] = s.predictable[job]
    out[job, RUNNING_MEMORY] = row.profiled_memory_gib / largest_memory(s)
    out[job, RUNNING_CORES] = row.cores_each / 8.0


@compiled
def describe_running(s, jobs, cache, job, min_run_s, out):
    """Write the features of a running job, which may be paused once it has run for `min_run_s`."""
    if cache.running_key[job] != 1 + s.predictable[job]:
        cache.running_key[job] = 1 + s.predictable[job]
        compute_running_features(s, jobs, cache, job)
    for column in range(NUM_RUNNING):
        out[column] = cache.running_features[job, column]
    attained, running_for = attained_now(s, job), s.clock - s.phase_began[job]
    out[RUNNING_REMAINING] = as_time(remaining_now(s, jobs, job))
    out[RUNNING_FOR] = as_time(running_for)
    out[RUNNING_ATTAINED] = out[RUNNING_FOR] if attained == running_for else as_time(attained)
    out[RUNNING_PREEMPTIONS] = min(s.preemptions[job] / 5.0, 1.0)
    out[MAY_PAUSE] = may_pause(s, job) and running_for >= min_run_s
    out[CLAIMED] = claimed_share(s, job)
    for k in range(cache.num_victims):
        if cache.victims[k] == job:
            out[CLAIMED] = 1.0
    out[FREE_ON_NODE] = free_beside(s, job)
    out[IS_LOADING] = s.phase[job] == LOADING
    out[IS_PAUSING] = s.phase[job] == PAUSING
    out[IS_RESERVED] = s.phase[job] == RESERVED


@compiled
def free_beside(s, job):
    """Return the share of the GPUs of a job's first node that are free or held by a pausing job, and not reserved."""
    if s.first_slot[job] == NOBODY:
        return 0.0
    node = s.gpu_node[s.first_slot[job] // MAX_SHARE]
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        count += is_free(s, gpu) or is_coming(s, gpu)
    return count / s.node_gpus[node]


@compiled
def arrivals_last_hour(s, jobs, cache):
    """Return the number of jobs submitted within the last hour."""
    begin = s.clock - 3600.0
    count = min(cache.submitted_hour_ago, s.num_arrived)
    while count > 0 and jobs[count - 1].submit_s > begin:
        count -= 1
    while count < s.num_arrived and jobs[count].submit_s <= begin:
        count += 1
    cache.submitted_hour_ago = count
    return s.num_arrived - count


@compiled
def describe_totals(s, jobs, cache, slots, out):
    """Write the totals, and cache the GPUs that are free after each end; requires `sort_ends`."""
    area = 0.0
    soon = s.num_free
    free = s.num_free
    running = 0.0
    loading = 0.0
    pausing_gpus = 0.0
    for k in range(cache.num_ends):
        job = cache.ends[k]  # in an order that no true duration decides
        gpus = s.width[job]
        free += gpus
        cache.free_after[k] = free
        running += s.phase[job] == RUNNING
        loading += s.phase[job] == LOADING
        pausing_gpus += gpus * (s.phase[job] == PAUSING)
        area += cache.left[k] * gpus
        if cache.left[k] <= 300.0:
            soon += gpus
    out[FREE_SHARE] = s.num_free / s.num_gpus
    for node in range(s.num_nodes):
        out[NODES_BY_FREE + min(s.free[node], BINS - 1)] += 1.0 / s.num_nodes
    out[ALL_QUEUED] = np.log1p(s.num_queued) / 6.0
    out[ALL_UNSEEN] = np.log1p(max(s.num_queued - slots, 0)) / 6.0
    out[ALL_RUNNING] = running / s.num_gpus
    out[ALL_LOADING] = loading / s.num_gpus
    out[PAUSING_GPUS] = pausing_gpus / s.num_gpus
    out[QUEUED_AREA] = as_time(cache.queued_area / s.num_gpus)
    out[RUNNING_AREA] = as_time(area / s.num_gpus)
    out[FREE_SOON] = soon / s.num_gpus
    for k in range(len(WAITS)):
        out[FIRST_WAIT + k] = as_time(wait_for(s, cache, WAITS[k]))
    out[ARRIVALS] = np.log1p(arrivals_last_hour(s, jobs, cache)) / 6.0
    describe_claim(s, jobs, cache.starter - 1 if cache.starter else pending_claim(s), out[CLAIM:])


@compiled
def describe_claim(s, jobs, job, out):
    """Write the features of the job whose claim is pending; they are 0 without one."""
    if job != NOBODY:
        out[0] = np.log2(1.0 + jobs[job].num_gpus) / 7.0
        out[1] = as_time(remaining_now(s, jobs, job))
        out[2] = as_time(s.clock - jobs[job].submit_s)
        out[3] = as_time(wait_of_claim(s, jobs, job))


@compiled
def write_base_logits(own, listed, count, slots, out):
    """Write the logits of the active ranking; return the slot of its choice, or the number of slots for waiting.

    Its choice has the highest logit; the other slots follow by rank.
    """
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
def describe(s, jobs, cache, count, own, listed, observation):
    """Write the observation of what `look` has found; return the slot of the ranking's own choice.

    observation: float32, [K x queue features, totals, K + 1 base logits, ...]; the rest is left unchanged.
    """
    slots = len(listed)
    size = slots * NUM_FEATURES
    features = observation[:size].reshape(slots, NUM_FEATURES)
    totals = observation[size : size + NUM_TOTALS]
    totals[:] = 0.0
    describe_totals(s, jobs, cache, slots, totals)
    for k in range(count):
        describe_queued(s, jobs, cache, listed[k], features, k)
    for k in range(size + NUM_TOTALS):
        observation[k] = min(max(observation[k], LOWEST), HIGHEST)
    return write_base_logits(
        own, listed, count, slots, observation[size + NUM_TOTALS : size + NUM_TOTALS + slots + 1]
    )


@compiled
def insert(s, listed, count, most, job):
    """Insert a job by its key into a sorted list of at most `most` jobs; return the new length."""
    k = count
    while k > 0 and queues.before(s.order, job, listed[k - 1]):
        if k < most:
            listed[k] = listed[k - 1]
        k -= 1
    if k == most:
        return count
    listed[k] = job
    return min(count + 1, most)


@compiled
def insert_late(s, listed, count, job):
    """Insert a job by its key into a sorted list of the last jobs, at its end; return the new length."""
    most = len(listed)
    k = most - count
    while k < most and queues.before(s.order, listed[k], job):
        if k > 0:
            listed[k - 1] = listed[k]
        k += 1
    if k == 0:
        return count
    listed[k - 1] = job
    return min(count + 1, most)


@compiled
def list_last_queued(s, cache, out):
    """List the last queued jobs in the order of the active ranking, as many as there is space for.

    Requires at least as many queued jobs. The jobs of the previous look are inserted first.
    """
    most = len(out)
    count = 0
    cache.num_looks += 1
    for k in range(most - 1, -1, -1):
        job = out[k]
        if job != NOBODY and s.phase[job] == QUEUED and cache.last_seen[job] != cache.num_looks:
            cache.last_seen[job] = cache.num_looks
            count = insert_late(s, out, count, job)
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            job = s.queue[at]
            comes_earlier = 0 < most == count and s.order[job] < s.order[out[0]]
            if not comes_earlier and cache.last_seen[job] != cache.num_looks:
                count = insert_late(s, out, count, job)


@compiled
def list_queued(s, jobs, cache, out):
    """List the queued jobs of a look in the order of the active ranking; return how many are listed.

    Where they are too many, the first ones; in the order of submission, half of them first and half of them last ones,
    so that a job that arrives behind a long queue is seen.
    """
    most = len(out)
    if s.key != SUBMIT or s.num_queued <= most:
        return list_first_queued(s, jobs, cache, out)
    late = most // 2
    list_first_queued(s, jobs, cache, out[: most - late])
    if late > 0:
        list_last_queued(s, cache, out[most - late :])
    return most


@compiled
def list_first_queued(s, jobs, cache, out):
    """List the first queued jobs in the order of the active ranking; return how many are listed.

    The jobs of the previous look, which `out` still holds, are inserted first: the order has hardly changed, so most
    other jobs are then skipped by one comparison.
    """
    cache_all_queued(s, jobs, cache)
    most = len(out)
    count = 0
    area = 0.0
    cache.num_looks += 1
    for k in range(most):
        job = out[k]
        if job != NOBODY and s.phase[job] == QUEUED and cache.last_seen[job] != cache.num_looks:
            cache.last_seen[job] = cache.num_looks
            count = insert(s, out, count, most, job)
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            job = s.queue[at]
            area += cache.area[job]
            comes_later = 0 < most == count and s.order[job] > s.order[out[most - 1]]
            if not comes_later and cache.last_seen[job] != cache.num_looks:
                count = insert(s, out, count, most, job)
    cache.queued_area = area
    out[count:] = NOBODY
    return count


@compiled
def put_in_last_slot(s, listed, count, job):
    """Put a job into the last slot unless it is listed or there is none; return whether it was put there."""
    if job == NOBODY or count < len(listed):
        return False
    for k in range(count):
        if listed[k] == job:
            return False
    listed[count - 1] = job
    return True


@compiled
def describe_options(s, jobs, cache, listed, count, features, mask):
    """Find and describe how each slot's job can start; return the ranking's own choice among them, or NOBODY."""
    own = NOBODY
    for k in range(count):
        job = listed[k]
        option = start_option(s, jobs, cache, job)
        mask[k] = option != IMPOSSIBLE
        describe_option(s, jobs, cache, job, option, features, k)
        # If the ranking would not start the first job of a request class, it starts none of that class.
        if own == NOBODY and not s.exhausted[jobs[job].request_class]:
            if rule_would_start(s, jobs, cache.effort[job], option):
                own = job
            else:
                s.exhausted[jobs[job].request_class] = 1
    return own


@compiled
def choice_beyond_slots(s, jobs, cache):
    """Return the ranking's own choice among request classes without a tried job, or NOBODY."""
    job = first_open(s)
    while job != NOBODY:
        if rule_would_start(s, jobs, cache.effort[job], start_option(s, jobs, cache, job)):
            return job
        s.exhausted[jobs[job].request_class] = 1
        job = first_open(s)
    return NOBODY


@compiled
def look(s, jobs, cache, listed, features, mask):
    """List queued jobs in order, with their start options; return their number and the ranking's own choice.

    Requires `invalidate`. listed: the jobs of the previous look, any other jobs, or NOBODY.
    """
    features[:] = 0.0
    mask[:] = 0
    open_all(s)
    count = list_queued(s, jobs, cache, listed)
    sort_ends(s, jobs, cache)
    if not cache.are_listed:
        update_min_effort(s, cache, listed, count)
    own = describe_options(s, jobs, cache, listed, count, features, mask)
    if own == NOBODY and s.num_queued > count:
        own = choice_beyond_slots(s, jobs, cache)
        if put_in_last_slot(s, listed, count, own):
            option = start_option(s, jobs, cache, own)
            features[count - 1, :] = 0.0
            mask[count - 1] = 1
            describe_option(s, jobs, cache, own, option, features, count - 1)
    return count, own


@entry
def observe_queue(states, e, jobs, caches, listed, observation, mask):
    """Describe the first queued jobs in the order of the active ranking; return the number of slots used.

    The ranking's own choice is always listed: in the last slot, if it comes later in the order.

    listed: int64 (K,), the jobs, -1 where a slot is empty. observation: float32, see `describe`; features are clipped
    to [LOWEST, HIGHEST]. mask: int8 (K + 1,), 1 where the slot's job can start; the last entry is left unchanged.
    """
    s = states[e]
    cache = caches[0]
    slots = len(listed)
    features = observation[: slots * NUM_FEATURES].reshape(slots, NUM_FEATURES)
    invalidate_all(s, cache)
    count, own = look(s, jobs, cache, listed, features, mask)
    describe(s, jobs, cache, count, own, listed, observation)
    return count


@compiled
def describe_free(s, out):
    """Write the share of free memory of each GPU, then the share of free cores of each node."""
    for gpu in range(s.num_gpus):
        share = s.free_memory[gpu] / s.node_memory[s.gpu_node[gpu]]
        out[gpu] = min(max(share, 0.0), 1.0)
    for node in range(s.num_nodes):
        share = s.free_cores[node] / max(s.node_cores[node], 1.0)
        out[s.num_gpus + node] = min(max(share, 0.0), 1.0)


@compiled
def describe_running_slots(s, jobs, cache, listed, min_run_s, observation):
    """Describe the running jobs that `list_running` lists, and the free machines; requires `look`."""
    size = len(listed) * NUM_RUNNING
    features = observation[:size].reshape(len(listed), NUM_RUNNING)
    listed[:] = NOBODY
    features[:] = 0.0
    for k in range(list_running(s, cache, listed)):
        describe_running(s, jobs, cache, listed[k], min_run_s, features[k])
    for k in range(size):
        observation[k] = min(max(observation[k], LOWEST), HIGHEST)
    describe_free(s, observation[size:])


@entry
def observe_running(states, e, jobs, caches, listed, min_run_s, observation, mask):
    """Describe the running jobs that `list_running` lists, and the free machines.

    Requires `observe_queue` with the same caches.

    listed: int64 (R,), -1 where a slot is empty. min_run_s: time since its last start after which a job may be paused.
    observation: float32, R x RUNNING_FEATURES clipped to [LOWEST, HIGHEST], then the free share of the memory of each
    GPU and of the cores of each node. mask: int8 (R,), 1 where the job may be paused.
    """
    describe_running_slots(states[e], jobs, caches[0], listed, min_run_s, observation)
    for k in range(len(listed)):
        mask[k] = observation[k * NUM_RUNNING + MAY_PAUSE] > 0
