"""Instants at which no queued job can be picked, told without a look at each."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import node_bounds
from gpu_cluster_gym.simulator.kernel.cluster.events import next_event, next_tick
from gpu_cluster_gym.simulator.kernel.cluster.layout import QUEUED, ROUNDING, RUNNING, WEIGHTED
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold, largest_node
from gpu_cluster_gym.simulator.kernel.cluster.queues import MIN_REMAINING_S, MIN_REMAINING_SHARE, attained_now
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
from gpu_cluster_gym.simulator.kernel.slots.displacing import clear_best_listed, fits, gang_may_find
from gpu_cluster_gym.simulator.kernel.slots.sight import (
    FITS,
    LACKS_CORES,
    UNKNOWN,
    forget,
    list_holders,
    sort_ends,
)
from gpu_cluster_gym.simulator.kernel.slots.standing import effort_of

CLOSE = 1e-3  # s; times nearer than this may change their order by rounding


@compiled
def surely_no_choice(s, jobs, sight):
    """Tell, looking at the first of each request class alone, that no queued job can be picked.

    It needs no more than those behind it under a rule by weighted time, but for rounding. `note_room` has been called;
    where it cannot be told, `forget` has been too.
    """
    if s.num_queued == 0:
        return True
    widest, longest = widest_running(s), longest_left(s)
    if s.key == WEIGHTED and still_no_choice(s, jobs, sight, widest, longest):
        return True
    forget(s, sight)
    sight.checked = -1
    return s.key == WEIGHTED and no_first_can_be_picked(s, jobs, sight, widest, longest)


@compiled
def longest_left(s):
    """Seconds of run time that any running job has left at most."""
    longest = 0.0
    for node in range(s.num_nodes):
        longest = max(longest, node_bounds.max_remaining(s, node))
    return longest


@compiled
def still_no_choice(s, jobs, sight, widest, longest):
    """Tell that no job can be picked since none could be, by those that have joined the queue meanwhile.

    Nowhere is more free since then, and no running job has enough left for its pause to pay.
    """
    if sight.checked < 0 or widest > sight.widest or s.num_joins - sight.checked > len(s.joined):
        return False
    for at in range(sight.checked, s.num_joins):
        job = s.joined[at % len(s.joined)]
        if s.phase[job] == QUEUED:
            sight.enough_left = min(sight.enough_left, enough_left(s, jobs, sight, job, widest))
    sight.checked = s.num_joins
    return longest <= sight.enough_left


@compiled
def enough_left(s, jobs, sight, job, widest):
    """Return the seconds of which some running job must have more left for a pause for a queued job to pay.

    Minus infinity where it can be picked without one; 0 where that is not all, since it lacks cores alone. Of n victims
    the longest has more left than n times what the job needs; `widest` bounds n. That is noted among the least that any
    job needs.
    """
    effort = effort_of(s, jobs, sight, job) * (1.0 - ROUNDING)
    sight.least_effort = min(sight.least_effort, effort)
    fit = sight.fit[jobs[job].request_class]
    if fit <= FITS or jobs[job].num_gpus == 0 or s.last_action_instant[job] == s.instant:
        return -np.inf
    if fit == LACKS_CORES:
        return 0.0
    return min_victims_of(s, jobs[job].num_gpus, widest) * effort


@compiled
def no_first_can_be_picked(s, jobs, sight, widest, longest):
    """Tell that of no request class the first job can be picked, and note it where that rests on bounds alone."""
    enough = np.inf
    sight.least_effort = np.inf
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] == 0:
            continue
        job = s.queue[s.queue_start[request_class]]
        if sight.fit[request_class] == UNKNOWN:
            fits(s, jobs, sight, job)
        needed = enough_left(s, jobs, sight, job, widest)
        if needed < 0.0:
            return False
        enough = min(enough, needed)
    if longest > enough and any_first_may_displace(s, jobs, sight, widest, longest):
        return all_hopeless(s, jobs, sight)
    sight.checked, sight.enough_left, sight.widest = s.num_joins, enough, widest
    return True


@compiled
def any_first_may_displace(s, jobs, sight, widest, longest):
    """Tell whether the first job of some request class, none of which fits, may displace others."""
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] == 0:
            continue
        job = s.queue[s.queue_start[request_class]]
        if longest <= enough_left(s, jobs, sight, job, widest):
            continue
        if may_displace_any(s, jobs, sight, job, effort_of(s, jobs, sight, job) * (1.0 - ROUNDING)):
            return True
    return False


@compiled
def may_displace_any(s, jobs, sight, job, effort):
    """Tell whether a job that does not fit, or one behind it, may displace others: by bounds, then on node by node.

    Of a gang, and where servers need cores, bounds alone are asked.
    """
    wanted = jobs[job].num_gpus
    if wanted > largest_node(s, jobs, job) or jobs[job].servers > 0:
        return may_pay(s, jobs, job, effort, 0.0)
    for node in range(s.num_nodes):
        widest = s.widest[node]
        if widest == 0 or s.node_gpus[node] < wanted or not can_hold(s, jobs, job, node):
            continue
        fewest = (wanted - s.free[node] + widest - 1) // widest
        least = fewest * effort
        if node_bounds.max_remaining(s, node) > least and pays_on(s, jobs, sight, job, node, effort, least):
            return True
    return False


@compiled
def pays_on(s, jobs, sight, job, node, effort, least):
    """Tell whether displacing jobs on a node for one that needs `effort` seconds would pay if pauses were free.

    It does not where none has `least` seconds left, or all together have too few GPUs.
    """
    most, gpus = note_who_may_be_displaced(s, jobs, node, effort)
    wanted = jobs[job].num_gpus
    end = clear(s, node, wanted, 0) if most >= least and s.free[node] + gpus >= wanted else -1
    if end >= 0:
        unmark(s, 0, end)
        if worth(s, jobs, effort, 0.0, 0, end) > 1.0:
            return True
    if sight.tight_at[node] != s.node_stamp[node]:
        node_bounds.recompute_bounds(s, jobs, node)
        sight.tight_at[node] = s.node_stamp[node]
    return False


@compiled
def all_hopeless(s, jobs, sight):
    """Tell that of no request class, of whose first all is known and none fits, a job displaces anybody."""
    sort_ends(s, jobs, sight)
    for request_class in range(s.num_classes):
        first = s.queue[s.queue_start[request_class]]
        if s.queue_size[request_class] > 0 and not is_hopeless(s, jobs, sight, first):
            return False
    for node in range(s.num_nodes):
        if sight.tight_at[node] == s.node_stamp[node]:
            continue
        if node_bounds.max_remaining(s, node) > longest_holder(s, sight, node) + node_bounds.TIME_MARGIN_S:
            node_bounds.recompute_bounds(s, jobs, node)
            sight.tight_at[node] = s.node_stamp[node]
    return True


@compiled
def is_hopeless(s, jobs, sight, job):
    """Tell whether neither the first of a request class, which does not fit, nor one behind it displaces anybody."""
    wanted = jobs[job].num_gpus
    effort = sight.effort[job] * (1.0 - ROUNDING)
    if wanted == 0 or sight.max_remaining <= effort:
        return True
    if not sight.are_listed:
        list_holders(s, sight)
    if wanted > largest_node(s, jobs, job):
        return not gang_may_find(s, jobs, sight, job, effort)
    if jobs[job].servers > 0:
        return False
    clear_best_listed(s, jobs, sight, job, effort)
    return sight.hopeless[jobs[job].request_class] <= effort


@compiled
def longest_holder(s, sight, node):
    """Most seconds that a job on a node has left that may be displaced by a queued one."""
    if not sight.are_listed:
        return sight.max_remaining
    return sight.holder_left[s.node_first[node]] if sight.num_holders[node] > 0 else 0.0


@compiled
def quiet_until(s, jobs, sight):
    """Return until when time alone makes no job pickable where `surely_no_choice` has just found that none is.

    That holds while nothing ends or arrives, no further job has run for MIN_RUN_S, and what remains of those that count
    falls alike, so that their order stays: all run at speed 1, and none is at the floor of `queues.remaining_now`,
    from which that rises again. Those count of which more remains than any queued job needs. Then victims are those of
    now or fewer, and worth less. Minus infinity where that is not so, or where no tick comes before the next event.
    """
    until = min(next_event(s, jobs), s.next_closing)
    if s.num_queued == 0 or s.tick == 0 or s.num_changes > 0 or until <= next_tick(s):
        return -np.inf
    before = np.inf
    sort_ends(s, jobs, sight)
    for k in range(sight.num_ends - 1, -1, -1):
        job = sight.ends[k]
        if s.phase[job] != RUNNING or s.width[job] == 0:
            continue
        left, attained = sight.left[k], attained_now(s, job)
        if s.rate[job] != 1.0:
            return -np.inf
        if left <= sight.least_effort:
            until = min(until, s.clock + sight.least_effort / MIN_REMAINING_SHARE - attained)
            continue
        if before - left < CLOSE:
            return -np.inf
        before = left
        to_floor = min(
            (left - MIN_REMAINING_SHARE * attained) / (1.0 + MIN_REMAINING_SHARE), left - MIN_REMAINING_S
        )
        until = min(until, s.clock + to_floor)
        if s.clock - s.phase_began[job] < MIN_RUN_S:
            until = min(until, s.phase_began[job] + MIN_RUN_S)
    return until - CLOSE
