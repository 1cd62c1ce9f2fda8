"""Which queued jobs could be picked now, looked up for many at once: as `cost_aware.pick` finds for each alone."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import node_bounds
from gpu_cluster_gym.simulator.kernel.cluster.actions import start
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, QUEUED, ROUNDING
from gpu_cluster_gym.simulator.kernel.cluster.placement import (
    can_hold,
    choose_nodes,
    largest_node,
    place,
    surely_no_room,
)
from gpu_cluster_gym.simulator.kernel.cluster.queues import cost_to_finish
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
from gpu_cluster_gym.simulator.kernel.slots.sight import (
    FITS,
    LACKS_CORES,
    LACKS_GPUS,
    UNKNOWN,
    forget,
    list_holders,
    sort_ends,
)

CANNOT, AS_IT_IS = -1, 0  # a job cannot be picked; fits without victims


@compiled
def fits(s, jobs, sight, job):
    """Tell whether a job fits, looking for nodes for the first of each request class alone."""
    if jobs[job].num_gpus == 0:
        return place(s, jobs, job)
    request_class = jobs[job].request_class
    if sight.fit[request_class] == UNKNOWN:
        sight.fit[request_class] = find_fit(s, jobs, sight, job)
    return sight.fit[request_class] == FITS


@compiled
def find_fit(s, jobs, sight, job):
    """Return FITS, or what a job with GPUs lacks; note the GPUs that stay free on the last node it would use."""
    if surely_no_room(s, jobs, job):
        return LACKS_GPUS
    if not choose_nodes(s, jobs, job, s.free, s.unreserved_cores):
        return LACKS_GPUS if jobs[job].num_gpus > largest_node(s, jobs, job) else LACKS_CORES
    node = s.chosen_node[s.num_chosen - 1]
    left = s.free[node] - s.chosen_gpus[s.num_chosen - 1]
    sight.left_on_node[jobs[job].request_class] = left / s.node_gpus[node]
    return FITS


@compiled
def note_least_effort(s, sight, listed, count):
    """Note the least effort of the listed jobs and of the first of each request class, of which all is known."""
    least = np.inf
    for k in range(count):
        least = min(least, sight.effort[listed[k]])
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] > 0:
            least = min(least, sight.effort[s.queue[s.queue_start[request_class]]])
    sight.least_effort = least


@compiled
def clear_listed(s, sight, node, wanted, effort):
    """List victims on a node until `wanted` GPUs are to be had; return their number, or -1 if that fails.

    Those with most time remaining come first, and none is listed in vain.
    """
    have = s.free[node]
    at = s.node_first[node]
    last = at + sight.num_holders[node]
    count = 0
    while have < wanted:
        if at == last or sight.holder_left[at] <= effort:
            return -1
        s.victims[count] = at
        have += sight.held[at]
        count += 1
        at += 1
    kept = 0
    for k in range(count):
        at = s.victims[k]
        if have - sight.held[at] >= wanted:
            have -= sight.held[at]
        else:
            s.victims[kept] = sight.holder[at]
            s.left[sight.holder[at]] = sight.holder_left[at]
            kept += 1
    return kept


@compiled
def clear_best_listed(s, jobs, sight, job, effort):
    """List the victims on the node where displacing them is worth most; return their number, 0 if there is none.

    The node is then the first in `chosen_node`.
    Where it pays on no node although pausing were free, it pays for none of the class that needs as much or more:
    there are no other victims for it, and they are worth no more.
    """
    wanted = jobs[job].num_gpus
    serves = jobs[job].servers > 0
    best = NOBODY
    best_worth = 0.0
    most_free = 0.0
    for node in range(s.num_nodes):
        if sight.reach[node] < wanted or not can_hold(s, jobs, job, node):
            continue
        count = clear_listed(s, sight, node, wanted, effort)
        if count < 0 or (serves and not leaves_cores(s, jobs, job, node, wanted, 0, count)):
            continue
        value = worth(s, jobs, effort, 1.0, 0, count)
        most_free = max(most_free, worth(s, jobs, effort, 0.0, 0, count))
        if best == NOBODY or value > best_worth:
            best = node
            best_worth = value
    if most_free <= 1.0 and not serves:
        sight.hopeless[jobs[job].request_class] = effort
    s.chosen_node[0] = best
    return 0 if best == NOBODY or most_free <= 1.0 else clear_listed(s, sight, best, wanted, effort)


@compiled
def reach_with(s, sight, node, effort):
    """Count the GPUs of a node that are free, or could be for a job that needs `effort` seconds."""
    reach = s.free[node]
    at = s.node_first[node]
    for k in range(at, at + sight.num_holders[node]):
        if sight.holder_left[k] <= effort:
            break
        reach += sight.held[k]
    return reach


@compiled
def gang_may_find(s, jobs, sight, job, effort):
    """Tell whether a gang larger than any node may find victims whose pauses pay if they are free.

    It takes whole nodes and a part of one more. Their mean remaining time is no more than the longest, and each costs
    its effort.
    """
    wanted = jobs[job].num_gpus
    if sight.max_remaining <= min_victims(s, jobs, job) * effort * (1.0 - ROUNDING):
        return False
    whole = 0
    part = 0
    for node in range(s.num_nodes):
        if can_hold(s, jobs, job, node):
            reach = reach_with(s, sight, node, effort)
            if reach == s.node_gpus[node]:
                whole += reach
            else:
                part = max(part, reach)
    return whole + part >= wanted


@compiled
def victims_for(s, jobs, sight, job, effort):
    """Find the jobs to pause for one that does not fit, those of `cost_aware.find_victims`; return their number.

    It may be 0 where pausing them does not pay even if that were free.
    """
    wanted = jobs[job].num_gpus
    if wanted == 0 or sight.max_remaining <= effort or effort >= sight.hopeless[jobs[job].request_class]:
        return 0
    if not sight.are_listed:
        list_holders(s, sight)
    if wanted <= largest_node(s, jobs, job):
        return clear_best_listed(s, jobs, sight, job, effort)
    return find_victims(s, jobs, job) if gang_may_find(s, jobs, sight, job, effort) else 0


@compiled
def ways_to_pick(s, jobs, sight, job):
    """Return how a queued job, known as it stands, can be picked now: AS_IT_IS, with so many victims, or CANNOT."""
    if s.last_action_instant[job] == s.instant:
        return CANNOT
    if fits(s, jobs, sight, job):
        return AS_IT_IS
    effort = sight.effort[job]
    count = victims_for(s, jobs, sight, job, effort)
    return count if count > 0 and worth(s, jobs, effort, 0.0, 0, count) > 1.0 else CANNOT


@compiled
def gains(s, jobs, effort, num_victims):
    """Tell whether what some job that runs has left, less its overhead, exceeds what the newcomer needs.

    `cost_aware.look_for_pick` searches only then. If one of the victims just found does, there is no need to look on.
    """
    for k in range(num_victims):
        victim = s.victims[k]
        if effort < s.left[victim] - s.margin * node_bounds.overhead_of(jobs, victim):
            return True
    return effort < max_gain(s, jobs)


@compiled
def rule_would(s, jobs, effort, way):
    """Tell whether the rule in force would pick a job that can be picked so; its victims have just been found."""
    if way <= AS_IT_IS:
        return way == AS_IT_IS
    if s.margin == np.inf or worth(s, jobs, effort, s.margin, 0, way) <= 1.0:
        return False
    return gains(s, jobs, effort, way)


@compiled
def pick(s, jobs, sight, job):
    """Start a queued job where it fits, else displace its victims; tell whether it could: as `cost_aware.pick`."""
    if s.phase[job] != QUEUED or s.last_action_instant[job] == s.instant:
        return False
    if start(s, jobs, job):
        return True
    forget(s, sight)
    effort = cost_to_finish(s, jobs, job)
    sort_ends(s, jobs, sight)
    if not sight.are_listed or effort < sight.least_effort:
        sight.least_effort = effort
        sight.are_listed = 0
    count = victims_for(s, jobs, sight, job, effort)
    if not pays(s, jobs, job, 0.0, count):
        return False
    if jobs[job].num_gpus <= largest_node(s, jobs, job):
        for k in range(count):
            s.marked[s.victims[k]] = 1
        list_gpus(s, s.chosen_node[0], jobs[job].num_gpus, 0)
        unmark(s, 0, count)
    displace(s, jobs, job, count)
    return True
