"""Bounds by which instants without a choice are skipped: no queued job can start, and waiting is forced."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import node_bounds
from gpu_cluster_gym.simulator.kernel.cluster.events import next_event, next_tick
from gpu_cluster_gym.simulator.kernel.cluster.layout import QUEUED, ROUNDING, RUNNING, WEIGHTED
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold, largest_node
from gpu_cluster_gym.simulator.kernel.cluster.queues import MIN_REMAINING_S, MIN_REMAINING_SHARE, attained_now
from gpu_cluster_gym.simulator.kernel.cluster.tenants import begin_search
from gpu_cluster_gym.simulator.kernel.rankings.cost_aware import (
    MIN_RUN_S,
    clear,
    may_pay,
    min_victims_of,
    note_who_may_be_displaced,
    unmark,
    widest_running,
    worth,
)
from gpu_cluster_gym.simulator.kernel.slots.feature_cache import (
    HAS_ROOM,
    LACKS_CORES,
    UNKNOWN,
    effort_of,
    invalidate,
    list_holders,
    sort_ends,
)
from gpu_cluster_gym.simulator.kernel.slots.slot_features import best_victims, fits, gang_may_find

CLOSE = 1e-3  # s; remaining times closer than this may swap their order by rounding


@compiled
def certainly_no_choice(s, jobs, cache):
    """Return whether provably no queued job can start, looking only at the first job of each request class.

    Under a ranking by weighted time, the first job needs no more than those behind it, except for rounding. Requires
    `update_free`; where the result is False, `invalidate` has been called.
    """
    if s.num_queued == 0:
        return True
    widest, longest = widest_running(s), longest_left(s)
    if s.key == WEIGHTED and still_no_choice(s, jobs, cache, widest, longest):
        return True
    invalidate(s, cache)
    cache.checked_joins = -1
    return s.key == WEIGHTED and no_first_can_start(s, jobs, cache, widest, longest)


@compiled
def longest_left(s):
    """Return an upper bound on the remaining run time of any running job, s."""
    longest = 0.0
    for node in range(s.num_nodes):
        longest = max(longest, node_bounds.max_remaining(s, node))
    return longest


@compiled
def still_no_choice(s, jobs, cache, widest, longest):
    """Return whether no job can start, given that none could at the last check, by the jobs that joined since.

    Nowhere is more free since then, and no running job has enough time left for its pause to pay.
    """
    if cache.checked_joins < 0 or widest > cache.widest or s.num_joins - cache.checked_joins > len(s.joined):
        return False
    for at in range(cache.checked_joins, s.num_joins):
        job = s.joined[at % len(s.joined)]
        if s.phase[job] == QUEUED:
            cache.required_left = min(cache.required_left, required_left(s, jobs, cache, job, widest))
    cache.checked_joins = s.num_joins
    return longest <= cache.required_left


@compiled
def required_left(s, jobs, cache, job, widest):
    """Return the remaining time, s, that a running job must exceed so that a pause for a queued job can pay.

    Minus infinity where the queued job can start without a pause; 0 where it only lacks cores, since then remaining
    time is not all that matters. Of n victims the longest has more left than n times what the job needs, and `widest`
    bounds n from below. Also updates the smallest effort of any job.
    """
    effort = effort_of(s, jobs, cache, job) * (1.0 - ROUNDING)
    cache.min_effort = min(cache.min_effort, effort)
    fit = cache.fit[jobs[job].request_class]
    if fit <= HAS_ROOM or jobs[job].num_gpus == 0 or s.last_action_instant[job] == s.instant:
        return -np.inf
    if fit == LACKS_CORES:
        return 0.0
    return min_victims_of(s, jobs[job].num_gpus, widest) * effort


@compiled
def no_first_can_start(s, jobs, cache, widest, longest):
    """Return whether no request class has a startable first job; cache the result if it rests on bounds alone."""
    required = np.inf
    cache.min_effort = np.inf
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] == 0:
            continue
        job = s.queue[s.queue_start[request_class]]
        if cache.fit[request_class] == UNKNOWN:
            fits(s, jobs, cache, job)
        needed = required_left(s, jobs, cache, job, widest)
        if needed < 0.0:
            return False
        required = min(required, needed)
    if longest > required and any_first_may_displace(s, jobs, cache, widest, longest):
        return all_hopeless(s, jobs, cache)
    cache.checked_joins, cache.required_left, cache.widest = s.num_joins, required, widest
    return True


@compiled
def any_first_may_displace(s, jobs, cache, widest, longest):
    """Return whether the first job of some request class may displace others; none of these jobs fits."""
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] == 0:
            continue
        job = s.queue[s.queue_start[request_class]]
        if longest <= required_left(s, jobs, cache, job, widest):
            continue
        if may_displace_any(s, jobs, cache, job, effort_of(s, jobs, cache, job) * (1.0 - ROUNDING)):
            return True
    return False


@compiled
def may_displace_any(s, jobs, cache, job, effort):
    """Return whether a job that does not fit, or one behind it, may displace others: by bounds, then node by node.

    For gangs, and for jobs with servers that need cores, only the bounds are checked.
    """
    wanted = jobs[job].num_gpus
    if wanted > largest_node(s, jobs, job) or jobs[job].servers > 0:
        return may_pay(s, jobs, job, effort, 0.0)
    for node in range(s.num_nodes):
        widest = s.widest[node]
        if widest == 0 or s.node_gpus[node] < wanted or not can_hold(s, jobs, job, node):
            continue
        # At least ceil(missing GPUs / widest job) victims, and the longest of n victims has more left than n x effort.
        fewest = (wanted - s.free[node] + widest - 1) // widest
        least = fewest * effort
        if node_bounds.max_remaining(s, node) > least and pays_on(s, jobs, cache, job, node, effort, least):
            return True
    return False


@compiled
def pays_on(s, jobs, cache, job, node, effort, least):
    """Return whether displacing jobs on a node for a job that needs `effort` seconds would pay if pauses were free.

    It does not where no job has `least` seconds left, or where all together hold too few GPUs.
    """
    begin_search(s, job)
    most, gpus = note_who_may_be_displaced(s, jobs, node, effort)
    wanted = jobs[job].num_gpus
    end = clear(s, node, wanted, 0) if most >= least and s.free[node] + gpus >= wanted else -1
    if end >= 0:
        unmark(s, 0, end)
        if worth(s, jobs, effort, 0.0, 0, end) > 1.0:
            return True
    if cache.tightened_at[node] != s.node_stamp[node]:
        node_bounds.recompute_bounds(s, jobs, node)
        cache.tightened_at[node] = s.node_stamp[node]
    return False


@compiled
def all_hopeless(s, jobs, cache):
    """Return whether no request class has a job that displaces others; all first jobs are cached, and none fits."""
    if s.num_tenants > 0:
        return False  # what is cached knows no tenants
    sort_ends(s, jobs, cache)
    for request_class in range(s.num_classes):
        first = s.queue[s.queue_start[request_class]]
        if s.queue_size[request_class] > 0 and not is_hopeless(s, jobs, cache, first):
            return False
    for node in range(s.num_nodes):
        if cache.tightened_at[node] == s.node_stamp[node]:
            continue
        if node_bounds.max_remaining(s, node) > longest_holder(s, cache, node) + node_bounds.TIME_MARGIN_S:
            node_bounds.recompute_bounds(s, jobs, node)
            cache.tightened_at[node] = s.node_stamp[node]
    return True


@compiled
def is_hopeless(s, jobs, cache, job):
    """Return whether a request class, whose first job does not fit, has no job that displaces others."""
    wanted = jobs[job].num_gpus
    effort = cache.effort[job] * (1.0 - ROUNDING)
    if wanted == 0 or cache.max_remaining <= effort:
        return True
    if not cache.are_listed:
        list_holders(s, cache)
    if wanted > largest_node(s, jobs, job):
        return not gang_may_find(s, jobs, cache, job, effort)
    if jobs[job].servers > 0:
        return False
    best_victims(s, jobs, cache, job, effort)
    return cache.hopeless[jobs[job].request_class] <= effort


@compiled
def longest_holder(s, cache, node):
    """Return the largest remaining time of a displaceable job on a node, s."""
    if not cache.are_listed:
        return cache.max_remaining
    return cache.holder_left[s.node_first[node]] if cache.num_holders[node] > 0 else 0.0


@compiled
def quiet_until(s, jobs, cache):
    """Return the time until which no job can become startable by the passing of time alone.

    Requires that `certainly_no_choice` has just returned True. The bound holds while nothing ends or arrives, no
    further job reaches MIN_RUN_S, and the remaining times that matter fall at the same rate, so that their order stays:
    all jobs run at speed 1, and none is at the floor of `queues.remaining_now`, from which remaining time rises again.
    Only jobs with more time left than any queued job needs matter. Then the victims are the current ones or fewer, and
    worth less. Returns minus infinity where these conditions fail, or where no tick comes before the next event.
    """
    until = min(next_event(s, jobs), s.next_closing)
    if s.num_queued == 0 or s.tick == 0 or s.num_changes > 0 or until <= next_tick(s):
        return -np.inf
    before = np.inf
    sort_ends(s, jobs, cache)
    for k in range(cache.num_ends - 1, -1, -1):
        job = cache.ends[k]
        if s.phase[job] != RUNNING or s.width[job] == 0:
            continue
        left, attained = cache.left[k], attained_now(s, job)
        if s.rate[job] != 1.0:
            return -np.inf
        if left <= cache.min_effort:
            # Too short to be a victim, until the floor share x attained has risen to the smallest effort.
            until = min(until, s.clock + cache.min_effort / MIN_REMAINING_SHARE - attained)
            continue
        if before - left < CLOSE:
            return -np.inf
        before = left
        # The floor is max(share x attained, least seconds): solve left - dt = share x (attained + dt) for dt.
        to_floor = min(
            (left - MIN_REMAINING_SHARE * attained) / (1.0 + MIN_REMAINING_SHARE), left - MIN_REMAINING_S
        )
        until = min(until, s.clock + to_floor)
        if s.clock - s.phase_began[job] < MIN_RUN_S:
            until = min(until, s.phase_began[job] + MIN_RUN_S)
    return until - CLOSE
