"""Cost-aware preemption: the threshold policy, and the search for victims that it shares with agents.

A queued job that does not fit may displace victims if it pays:

    mean remaining time of the victims  >  sum over the victims of (own effort + margin x victim's overhead)

in seconds, where the effort is the time that the job holds GPUs until its end (remaining and loading time), and
the overhead is pause plus load time. Margin 0 decides as if pausing were free; an infinite margin never preempts.
Source: Xion; docs/rules.md, section "Cost-aware preemption and reservations".
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.actions import start, start_on, start_placed
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, QUEUED, ROUNDING, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import max_remaining, overhead_of, recompute_bounds
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause, pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold, largest_node, place
from gpu_cluster_gym.simulator.kernel.cluster.queues import (
    cost_to_finish,
    first_open,
    open_all,
    remaining_now,
)
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers
from gpu_cluster_gym.simulator.kernel.cluster.tenants import begin_search

# Why a request class is exhausted: no place and nothing to gain by preemption; a search for victims failed.
SHUT, IN_VAIN = 1, 2
MIN_RUN_S = 60.0  # s that a job must have run before it may be displaced, against thrashing


@compiled
def worth(s, jobs, effort, margin, first, end):
    """Return the mean remaining time of the listed victims over the cost of displacing them; it pays above 1."""
    if end == first:
        return np.inf
    left = 0.0
    cost = 0.0
    for k in range(first, end):
        left += s.left[s.victims[k]]
        cost += effort
        if margin > 0:
            cost += margin * overhead_of(jobs, s.victims[k])
    # (mean remaining time) / (total cost); a sum of efforts since each victim waits for the newcomer.
    return left / (end - first) / cost


@compiled
def leaves_cores(s, jobs, job, node, count, first, end):
    """Return whether a node has the cores for the servers beside `count` GPUs of the job once the victims are gone."""
    servers = cores_of_servers(jobs[job].servers, jobs[job].num_gpus, jobs[job].num_gpus)
    cores = s.unreserved_cores[node]
    for k in range(first, end):
        cores += gpus_on(s, s.victims[k], node) * (s.core_count[s.victims[k]] - 1.0)
    return servers == 0 or cores + ROUNDING >= servers * count


@compiled
def clearing_pays(s, jobs, job, node, count, effort, first):
    """Return the worth of clearing `count` GPUs of a node, -1 if that is impossible; no victim stays marked."""
    note_who_may_be_displaced(s, jobs, node, effort)
    end = clear(s, node, count, first)
    if end < 0:
        return -1.0
    value = worth(s, jobs, effort, 1.0, first, end)
    if not leaves_cores(s, jobs, job, node, count, first, end):
        value = -1.0
    unmark(s, first, end)
    return value


@compiled
def max_worth(s, node, count, effort, first):
    """Return an upper bound on the worth of clearing `count` GPUs of a node; infinity if no victim may be necessary.

    The worth of n victims is at most 1/n of what the best of them is worth alone: their mean remaining time is
    at most the longest, and their cost is a sum.
    """
    missing = count - s.free[node]
    for k in range(first):
        # A victim already chosen for another part of the gang may release GPUs of this node too.
        if s.span[s.victims[k]] > 1:
            return np.inf
    if missing <= 0 or s.num_tenants > 0:
        return np.inf
    if s.widest[node] == 0:
        return 0.0
    # Each victim releases at most `widest` GPUs, so that at least ceil(missing / widest) victims are needed.
    alone = max_remaining(s, node) / (effort + s.min_overhead_s[node])
    return alone / ((missing + s.widest[node] - 1) // s.widest[node])


@compiled
def is_candidate(s, jobs, job, node, wanted, whole):
    """Return whether a gang may take `wanted` GPUs of a node; with `whole`, an entire node of at most that size."""
    size = s.node_gpus[node]
    if s.taken[node] or not can_hold(s, jobs, job, node) or size == 0:
        return False
    return size <= wanted if whole else size >= wanted


@compiled
def most_promising(s, jobs, job, wanted, whole, effort, first):
    """Return the candidate node with the largest bound, larger nodes first with `whole`, or NOBODY."""
    best = NOBODY
    best_size = 0
    best_bound = 0.0
    for node in range(s.num_nodes):
        size = s.node_gpus[node] if whole else wanted
        if size < best_size or not is_candidate(s, jobs, job, node, wanted, whole):
            continue
        bound = max_worth(s, node, size, effort, first)
        if size > best_size or bound > best_bound:
            best = node
            best_size = size
            best_bound = bound
    return best


@compiled
def clear_best_node(s, jobs, job, wanted, whole, effort, first, least):
    """Return the node whose clearing is worth most, the lowest index among equals, or NOBODY.

    With `whole`, an entire node of at most `wanted` GPUs, the largest. Branch and bound: the most promising
    node is examined first, so that most others need no examination; nor do nodes whose worth cannot exceed
    `least`.
    """
    best = NOBODY
    best_size = 0
    best_worth = -1.0
    promising = most_promising(s, jobs, job, wanted, whole, effort, first)
    for turn in range(-1, s.num_nodes):
        node = promising if turn < 0 else turn
        if node == NOBODY or (turn == promising) or not is_candidate(s, jobs, job, node, wanted, whole):
            continue
        size = s.node_gpus[node] if whole else wanted
        if size < best_size:
            continue
        bound = max_worth(s, node, size, effort, first)
        beaten = bound < best_worth or (bound == best_worth and node > best)
        if bound <= least or (size == best_size and beaten):
            continue
        value = clearing_pays(s, jobs, job, node, size, effort, first)
        recompute_bounds(s, jobs, node)
        if value < 0:
            continue
        if size > best_size or value > best_worth or (value == best_worth and node < best):
            best = node
            best_size = size
            best_worth = value
    return best


@compiled
def find_victims(s, jobs, job):
    """Find the jobs to pause for a job that does not fit; return their number in `victims`, 0 if there is no solution.

    `gpus` then lists the GPUs that the job would get. For a gang that fits one node each node is examined. A
    larger gang takes whole nodes, the largest first, and a part of one more. No job is paused for a CPU job.
    """
    return find_victims_worth(s, jobs, job, -1.0)


@compiled
def find_victims_worth(s, jobs, job, least):
    """Find victims like `find_victims`; those of a single-node gang only if they are worth more than `least`."""
    if jobs[job].num_gpus == 0:
        return 0
    begin_search(s, job)
    effort = cost_to_finish(s, jobs, job)
    largest = largest_node(s, jobs, job)
    missing = jobs[job].num_gpus
    many = missing > largest
    s.num_chosen = 0
    end = 0
    given = 0
    while missing > 0:
        # A gang larger than any node takes entire nodes as long as at least one largest node is missing.
        whole = missing >= largest and jobs[job].num_gpus > largest
        node = clear_best_node(s, jobs, job, missing, whole, effort, end, -1.0 if many else least)
        if node == NOBODY:
            break
        count = s.node_gpus[node] if whole else missing
        end = clear(s, node, count, end)
        given = list_gpus(s, node, count, given)
        s.chosen_node[s.num_chosen] = node
        s.num_chosen += 1
        s.taken[node] = 1
        missing -= count
    for k in range(s.num_chosen):
        s.taken[s.chosen_node[k]] = 0
    unmark(s, 0, end)
    return end if missing == 0 else 0


@compiled
def pays(s, jobs, job, margin, num_victims):
    """Return whether displacing the victims just found for a job pays at this margin."""
    if num_victims == 0:
        return False
    return worth(s, jobs, cost_to_finish(s, jobs, job), margin, 0, num_victims) > 1.0


@compiled
def displace(s, jobs, job, num_victims):
    """Pause the victims just found and give the job their GPUs."""
    for k in range(num_victims):
        pause(s, jobs, s.victims[k])
    start_on(s, jobs, job, s.gpus, jobs[job].cores_each, NOBODY)


@compiled
def pick(s, jobs, job):
    """Start a queued job where it fits, or displace victims if that pays at margin 0; return whether it started."""
    if s.phase[job] != QUEUED or s.last_action_instant[job] == s.instant:
        return False
    if start(s, jobs, job):
        return True
    num_victims = find_victims(s, jobs, job)
    if not pays(s, jobs, job, 0.0, num_victims):
        return False
    displace(s, jobs, job, num_victims)
    return True


@compiled
def max_gain_on(s, jobs, node):
    """Return the maximum of remaining time minus `margin` x overhead over the jobs that run on a node, s."""
    most = -np.inf
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        job = s.first_owner[gpu]
        if job != NOBODY and s.phase[job] == RUNNING:
            most = max(most, remaining_now(s, jobs, job) - s.margin * overhead_of(jobs, job))
    return most


@compiled
def max_gain(s, jobs):
    """Return the maximum of remaining time minus `margin` x overhead over running jobs, s.

    Displacing n victims pays only if this exceeds n times the newcomer's effort: otherwise no search is
    necessary. Of jobs that share a GPU, which cannot be victims, only one counts.
    """
    most = -np.inf
    for node in range(s.num_nodes):
        if s.margin < 0 or max_remaining(s, node) - s.margin * s.min_overhead_s[node] > most:
            most = max(most, max_gain_on(s, jobs, node))
            recompute_bounds(s, jobs, node)
    return most


@compiled
def widest_running(s):
    """Return an upper bound, at least 1, on the GPUs of any running job."""
    widest = 1
    for node in range(s.num_nodes):
        widest = max(widest, s.widest[node])
    return widest


@compiled
def min_victims_of(s, wanted, widest):
    """Return the minimum number of victims for a job of `wanted` GPUs that does not fit, none wider than `widest`."""
    return max((wanted - s.num_free + widest - 1) // widest, 1)


@compiled
def min_victims(s, jobs, job):
    """Return the minimum number of victims for a job that does not fit."""
    return min_victims_of(s, jobs[job].num_gpus, widest_running(s))


@compiled
def may_pay(s, jobs, job, effort, margin):
    """Return whether displacing victims for a job that does not fit may pay, judged by the bounds of each node alone.

    With n victims at least one must have more time left than n times the effort plus `margin` times its own
    overhead. On a single node each victim has at least the node's minimum overhead.
    """
    wanted = jobs[job].num_gpus
    one_node = wanted <= largest_node(s, jobs, job)
    fewest = min_victims(s, jobs, job)
    for node in range(s.num_nodes):
        if s.widest[node] == 0 or not can_hold(s, jobs, job, node):
            continue
        overhead = max(margin, 0.0) * s.min_overhead_s[node]
        cost = fewest * effort + overhead
        if one_node:
            if s.node_gpus[node] < wanted:
                continue
            cost = ((wanted - s.free[node] + s.widest[node] - 1) // s.widest[node]) * (effort + overhead)
        if max_remaining(s, node) > cost:
            return True
    return False


@compiled
def look_for_pick(s, jobs, most):
    """Return the job to start next, or NOBODY, and the number of victims that it displaces, 0 if it fits.

    There is one attempt per request class: if its first job does not fit, or was paused at this instant, the
    class is skipped. The GPUs and victims are in the record, as `place` and `find_victims` leave them.
    """
    job = first_open(s)
    while job != NOBODY:
        why = SHUT
        if s.last_action_instant[job] != s.instant:
            if place(s, jobs, job):
                return job, 0
            effort = cost_to_finish(s, jobs, job)
            if effort * min_victims(s, jobs, job) < most:
                # With margin >= 1, whatever pays has a worth above 1 at the search's own margin of 1: prune at 1.
                why = IN_VAIN
                if may_pay(s, jobs, job, effort, s.margin):
                    num_victims = find_victims_worth(s, jobs, job, 1.0 if s.margin >= 1.0 else -1.0)
                    if pays(s, jobs, job, s.margin, num_victims):
                        return job, num_victims
        s.exhausted[jobs[job].request_class] = why
        job = first_open(s)
    return NOBODY, 0


@compiled
def gain_limit(s, jobs):
    """Return `max_gain`, or minus infinity if the margin forbids all preemption."""
    return max_gain(s, jobs) if s.margin < np.inf else -np.inf


@compiled
def next_pick(s, jobs):
    """Return the job that the active ranking would start next at this instant, or NOBODY to wait."""
    open_all(s)
    return look_for_pick(s, jobs, gain_limit(s, jobs))[0]


@compiled
def open_again(s, all_classes):
    """Examine request classes again after a start: all, or only those whose search for victims failed."""
    for request_class in range(s.num_classes):
        if all_classes or s.exhausted[request_class] == IN_VAIN:
            s.exhausted[request_class] = 0


@compiled
def walk_cost_aware(s, jobs):
    """Carry out the threshold policy at this instant, start by start.

    The gain of a running job does not increase within an instant. With exclusive GPUs and unlimited cores, a
    class that found no place finds none until a job is displaced.
    """
    open_all(s)
    most = gain_limit(s, jobs)
    job, num_victims = look_for_pick(s, jobs, most)
    while job != NOBODY:
        if num_victims == 0:
            start_placed(s, jobs, job)
        else:
            displace(s, jobs, job, num_victims)
        open_again(s, num_victims > 0 or s.max_share > 1 or s.cpu_limited)
        job, num_victims = look_for_pick(s, jobs, most)


@compiled
def may_displace(s, jobs, victim, effort):
    """Return whether a running job may be a victim of a job that needs `effort` seconds."""
    return (
        # A victim must outlast the newcomer, hold its GPUs exclusively, and have run long enough.
        may_pause(s, victim)
        and (s.pass_tenant == NOBODY or s.tenant[victim] == s.pass_tenant)
        and s.width[victim] > 0
        and is_alone(s, victim)
        and s.clock - s.phase_began[victim] >= MIN_RUN_S
        and remaining_now(s, jobs, victim) > effort
    )


@compiled
def note_who_may_be_displaced(s, jobs, node, effort):
    """Record the remaining time of the jobs on a node that may be victims of a job that needs `effort` seconds.

    Returns the maximum remaining time, 0 if there is none, and the number of GPUs that they could release.
    """
    most = 0.0
    gpus = 0
    last = NOBODY
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        job = s.first_owner[gpu]
        if job != NOBODY and job != last:
            s.left[job] = remaining_now(s, jobs, job) if may_displace(s, jobs, job, effort) else -1.0
            most = max(most, s.left[job])
            last = job
        gpus += job != NOBODY and s.left[job] > 0 and s.reserved_for[gpu] == NOBODY
    return most, gpus


@compiled
def free_on(s, node):
    """Return the number of GPUs of a node that are free, up to the limit of the search, or held by marked victims."""
    free, held = 0, 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        holder = s.first_owner[gpu]
        if s.reserved_for[gpu] == NOBODY:
            free += holder == NOBODY
            held += holder != NOBODY and s.marked[holder]
    return min(free, s.free_limit) + held


@compiled
def gpus_on(s, job, node):
    """Return the number of GPUs that a job holds on a node and that are not reserved for another."""
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        if s.first_owner[gpu] == job and s.reserved_for[gpu] == NOBODY:
            count += 1
    return count


@compiled
def longest_on(s, node):
    """Return the unmarked job on a node that may be displaced and has the longest remaining time, or NOBODY."""
    best = NOBODY
    most = 0.0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        job = s.first_owner[gpu]
        if job == NOBODY or s.marked[job] or s.reserved_for[gpu] != NOBODY:
            continue
        left = s.left[job]
        if left > most or (left == most and job < best):
            best = job
            most = left
    return best


@compiled
def clear(s, node, wanted, first):
    """Mark victims on a node until `wanted` GPUs are available, longest remaining time first, none unnecessarily.

    They are listed in `victims[first:]`. Returns the end of the list, or -1 (with nothing marked) if that
    fails.
    """
    end = first
    have = free_on(s, node)
    while have < wanted:
        victim = longest_on(s, node)
        if victim == NOBODY:
            unmark(s, first, end)
            return -1
        s.marked[victim] = 1
        s.victims[end] = victim
        end += 1
        have += gpus_on(s, victim, node)
    # Drop victims, first chosen first, whose GPUs turn out not to be needed.
    k = first
    while k < end:
        spare = gpus_on(s, s.victims[k], node)
        if have - spare >= wanted:
            have -= spare
            s.marked[s.victims[k]] = 0
            for later in range(k, end - 1):
                s.victims[later] = s.victims[later + 1]
            end -= 1
        else:
            k += 1
    return end


@compiled
def unmark(s, first, end):
    """Unmark the victims listed in `victims[first:end]`."""
    for k in range(first, end):
        s.marked[s.victims[k]] = 0


@compiled
def list_gpus(s, node, count, given):
    """List the lowest `count` GPUs of a node that are free or held by marked victims in `gpus[given:]`.

    With tenants the victims' GPUs come first: free ones count against the quota.
    """
    gpu = s.node_first[node]
    end = given + count
    if s.num_tenants > 0:
        return list_held_first(s, node, count, given)
    while given < end:
        holder = s.first_owner[gpu]
        if s.reserved_for[gpu] == NOBODY and (holder == NOBODY or s.marked[holder]):
            s.gpus[given] = gpu
            given += 1
        gpu += 1
    return end


@compiled
def list_held_first(s, node, count, given):
    """List `count` GPUs of a node in ascending order, those of marked victims before free ones; reduce the limit."""
    first, end = s.node_first[node], s.node_first[node] + s.node_gpus[node]
    held = 0
    for gpu in range(first, end):
        holder = s.first_owner[gpu]
        held += s.reserved_for[gpu] == NOBODY and holder != NOBODY and s.marked[holder]
    held = min(held, count)
    free = count - held
    s.free_limit -= free
    for gpu in range(first, end):
        holder = s.first_owner[gpu]
        if s.reserved_for[gpu] != NOBODY or (holder != NOBODY and not s.marked[holder]):
            continue
        if (held if holder != NOBODY else free) > 0:
            held -= holder != NOBODY
            free -= holder == NOBODY
            s.gpus[given] = gpu
            given += 1
    return given
