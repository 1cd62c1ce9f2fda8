"""Preempt only when it pays: the threshold family, and the search for victims that it shares with agents.

A queued job that does not fit may displace victims whose mean remaining time exceeds the sum, over them, of the
newcomer's time and `margin` times the victim's overhead. Margin 0 asks only whether it would pay if pausing were
free; an infinite margin never preempts.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.actions import start, start_on, start_placed
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, QUEUED, ROUNDING, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import most_left, overhead_of, tighten
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause, pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold, largest_node, place
from gpu_cluster_gym.simulator.kernel.cluster.queues import (
    cost_to_finish,
    first_open,
    open_all,
    remaining_now,
)
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers

SHUT, IN_VAIN = (
    1,
    2,
)  # why a request class is exhausted: no room and no gain to be had; victims sought in vain


@compiled
def worth(s, jobs, effort, margin, first, end):
    """Mean remaining time of the listed victims over the cost of displacing them; it pays above 1."""
    if end == first:
        return np.inf
    left = 0.0
    cost = 0.0
    for k in range(first, end):
        left += s.left[s.victims[k]]
        cost += effort
        if margin > 0:
            cost += margin * overhead_of(jobs, s.victims[k])
    return left / (end - first) / cost


@compiled
def leaves_cores(s, jobs, job, node, count, first, end):
    """Tell whether a node has cores for the servers beside `count` GPUs of the job once the victims are gone."""
    servers = cores_of_servers(jobs[job].servers, jobs[job].num_gpus, jobs[job].num_gpus)
    cores = s.unreserved_cores[node]
    for k in range(first, end):
        cores += gpus_on(s, s.victims[k], node) * (s.core_count[s.victims[k]] - 1.0)
    return servers == 0 or cores + ROUNDING >= servers * count


@compiled
def clearing_pays(s, jobs, job, node, count, effort, first):
    """Return what clearing `count` GPUs of a node is worth, -1 if that cannot be done; no victim stays marked."""
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
def most_worth(s, node, count, effort, first):
    """Return what clearing `count` GPUs of a node is worth at most; infinite where no victim may be needed.

    Of n victims it is at most the n-th part of what the best is worth alone: their mean remaining time is no more than
    the longest, and their cost is the sum.
    """
    missing = count - s.free[node]
    for k in range(first):
        if s.span[s.victims[k]] > 1:  # it may leave GPUs of this node too
            return np.inf
    if missing <= 0:
        return np.inf
    if s.widest[node] == 0:
        return 0.0
    alone = most_left(s, node) / (effort + s.least_overhead[node])
    return alone / ((missing + s.widest[node] - 1) // s.widest[node])


@compiled
def is_candidate(s, jobs, job, node, wanted, whole):
    """Tell whether a gang may take `wanted` GPUs of a node, or with `whole` an entire node of at most so many."""
    size = s.node_gpus[node]
    if s.taken[node] or not can_hold(s, jobs, job, node) or size == 0:
        return False
    return size <= wanted if whole else size >= wanted


@compiled
def most_promising(s, jobs, job, wanted, whole, effort, first):
    """Return the candidate of which clearing may be worth most, a larger one first with `whole`, or NOBODY."""
    best = NOBODY
    best_size = 0
    best_bound = 0.0
    for node in range(s.num_nodes):
        size = s.node_gpus[node] if whole else wanted
        if size < best_size or not is_candidate(s, jobs, job, node, wanted, whole):
            continue
        bound = most_worth(s, node, size, effort, first)
        if size > best_size or bound > best_bound:
            best = node
            best_size = size
            best_bound = bound
    return best


@compiled
def clear_best_node(s, jobs, job, wanted, whole, effort, first, least):
    """Return the node whose clearing is worth most, the lowest of equal ones, or NOBODY.

    With `whole`, an entire node of at most `wanted` GPUs, the largest. The most promising node is looked at first, so
    that most of the others need no look; nor do nodes that cannot be worth more than `least`.
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
        bound = most_worth(s, node, size, effort, first)
        beaten = bound < best_worth or (bound == best_worth and node > best)
        if bound <= least or (size == best_size and beaten):
            continue
        value = clearing_pays(s, jobs, job, node, size, effort, first)
        tighten(s, jobs, node)
        if value < 0:
            continue
        if size > best_size or value > best_worth or (value == best_worth and node < best):
            best = node
            best_size = size
            best_worth = value
    return best


@compiled
def find_victims(s, jobs, job):
    """Find the jobs to pause for one that does not fit; return their number in `victims`, 0 if there is no way.

    `gpus` then names the GPUs the job would get. A gang that fits one node looks at each node; a larger one
    takes whole nodes, the largest first, and a part of one more. No job is paused for a CPU job.
    """
    return find_victims_worth(s, jobs, job, -1.0)


@compiled
def find_victims_worth(s, jobs, job, least):
    """Find victims as `find_victims` does, but those of a gang on one node only if they are worth more than `least`."""
    if jobs[job].num_gpus == 0:
        return 0
    effort = cost_to_finish(s, jobs, job)
    largest = largest_node(s, jobs, job)
    missing = jobs[job].num_gpus
    many = missing > largest
    s.num_chosen = 0
    end = 0
    given = 0
    while missing > 0:
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
    """Tell whether displacing the victims just found for a job pays at this margin."""
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
    """Start a queued job where it fits, else displace the victims the search finds; tell whether it could."""
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
def most_gain_on(s, jobs, node):
    """Largest remaining time less `margin` x overhead of a job that runs on a node."""
    most = -np.inf
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        job = s.first_owner[gpu]
        if job != NOBODY and s.phase[job] == RUNNING:
            most = max(most, remaining_now(s, jobs, job) - s.margin * overhead_of(jobs, job))
    return most


@compiled
def most_gain(s, jobs):
    """Largest remaining time less `margin` x overhead of a running job.

    Displacing n victims pays only if this is more than n times what the newcomer needs: so it is worth no search where
    it is not. Of jobs that share a GPU, which are no victims, one counts.
    """
    most = -np.inf
    for node in range(s.num_nodes):
        if s.margin < 0 or most_left(s, node) - s.margin * s.least_overhead[node] > most:
            most = max(most, most_gain_on(s, jobs, node))
            tighten(s, jobs, node)
    return most


@compiled
def widest_running(s):
    """Return the GPUs of the widest running job at most, 1 at least."""
    widest = 1
    for node in range(s.num_nodes):
        widest = max(widest, s.widest[node])
    return widest


@compiled
def fewest_of(s, wanted, widest):
    """Return how many victims, none wider than `widest`, one that needs so many GPUs and does not fit has at least."""
    return max((wanted - s.num_free + widest - 1) // widest, 1)


@compiled
def fewest_victims(s, jobs, job):
    """Return how many victims a job that does not fit has at least."""
    return fewest_of(s, jobs[job].num_gpus, widest_running(s))


@compiled
def may_pay(s, jobs, job, effort, margin):
    """Tell, by the bounds of each node alone, whether displacing victims for a job that does not fit may pay.

    That of n victims needs one with more time left than n times the effort and `margin` times its own overhead; on one
    node each of them has at least the least overhead there.
    """
    wanted = jobs[job].num_gpus
    one_node = wanted <= largest_node(s, jobs, job)
    fewest = fewest_victims(s, jobs, job)
    for node in range(s.num_nodes):
        if s.widest[node] == 0 or not can_hold(s, jobs, job, node):
            continue
        overhead = max(margin, 0.0) * s.least_overhead[node]
        cost = fewest * effort + overhead
        if one_node:
            if s.node_gpus[node] < wanted:
                continue
            cost = ((wanted - s.free[node] + s.widest[node] - 1) // s.widest[node]) * (effort + overhead)
        if most_left(s, node) > cost:
            return True
    return False


@compiled
def look_for_pick(s, jobs, most):
    """Return the job to be picked next, or NOBODY, and the number of victims it displaces, 0 where it fits.

    One attempt a request class: if the first of it finds no place, or was paused at this very instant, those behind
    it are passed over. Where it starts, and whom it displaces, is written down as `place` and `find_victims` do.
    """
    job = first_open(s)
    while job != NOBODY:
        why = SHUT
        if s.last_action_instant[job] != s.instant:
            if place(s, jobs, job):
                return job, 0
            effort = cost_to_finish(s, jobs, job)
            if effort * fewest_victims(s, jobs, job) < most:
                # What pays with this margin is worth more than 1 with the margin 1 of the search, if this is no less.
                why = IN_VAIN
                if may_pay(s, jobs, job, effort, s.margin):
                    num_victims = find_victims_worth(s, jobs, job, 1.0 if s.margin >= 1.0 else -1.0)
                    if pays(s, jobs, job, s.margin, num_victims):
                        return job, num_victims
        s.exhausted[jobs[job].request_class] = why
        job = first_open(s)
    return NOBODY, 0


@compiled
def most_that_may_gain(s, jobs):
    """Return `most_gain`, or less than anything where the margin forbids every pause."""
    return most_gain(s, jobs) if s.margin < np.inf else -np.inf


@compiled
def next_pick(s, jobs):
    """Return the job that the rule in force would pick next at this instant, or NOBODY to wait."""
    open_all(s)
    return look_for_pick(s, jobs, most_that_may_gain(s, jobs))[0]


@compiled
def open_again(s, all_classes):
    """Look at request classes again after a pick: all, or those for which other victims may now be found."""
    for request_class in range(s.num_classes):
        if all_classes or s.exhausted[request_class] == IN_VAIN:
            s.exhausted[request_class] = 0


@compiled
def walk_paying(s, jobs):
    """Carry out the threshold rule at this instant, pick by pick.

    What a running job may gain does not rise within an instant. Where jobs have their GPUs alone and cores do not
    count, a class that has found no place finds none until a job is displaced.
    """
    open_all(s)
    most = most_that_may_gain(s, jobs)
    job, num_victims = look_for_pick(s, jobs, most)
    while job != NOBODY:
        if num_victims == 0:
            start_placed(s, jobs, job)
        else:
            displace(s, jobs, job, num_victims)
        open_again(s, num_victims > 0 or s.max_share > 1 or s.cpu_limited)
        job, num_victims = look_for_pick(s, jobs, most)


# FROM simulator/kernel/rankings/clearing.py
# Clear GPUs of a node: mark the jobs on it that would have to be paused.


LEAST_RUN = 60.0  # s a job has run before it may be displaced, against thrashing


@compiled
def may_displace(s, jobs, victim, effort):
    """Tell whether a running job may be a victim of one that needs `effort` seconds."""
    return (
        may_pause(s, victim)
        and s.width[victim] > 0
        and is_alone(s, victim)
        and s.clock - s.phase_began[victim] >= LEAST_RUN
        and remaining_now(s, jobs, victim) > effort
    )


@compiled
def note_who_may_be_displaced(s, jobs, node, effort):
    """Write down what remains of the jobs on a node that may be victims of one that needs `effort` seconds.

    Return the most that remains of any, 0 where there is none, and how many GPUs they could leave to it.
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
    """Count the GPUs of a node that are free or already to be freed by marked victims."""
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        holder = s.first_owner[gpu]
        if s.reserved_for[gpu] == NOBODY and (holder == NOBODY or s.marked[holder]):
            count += 1
    return count


@compiled
def gpus_on(s, job, node):
    """Count the GPUs that a job holds on a node and that are not reserved for another."""
    count = 0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        if s.first_owner[gpu] == job and s.reserved_for[gpu] == NOBODY:
            count += 1
    return count


@compiled
def longest_on(s, node):
    """Return the unmarked job on a node with most time remaining that may be displaced, or NOBODY."""
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
    """Mark victims on a node until `wanted` GPUs are to be had, longest remaining first, none in vain.

    They are listed in `victims[first:]`; returns the end of the list, or -1 (and marks nothing) if that fails.
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
    """Forget the victims listed in `victims[first:end]`."""
    for k in range(first, end):
        s.marked[s.victims[k]] = 0


@compiled
def list_gpus(s, node, count, given):
    """List the lowest `count` GPUs of a node that are free or held by marked victims in `gpus[given:]`."""
    gpu = s.node_first[node]
    end = given + count
    while given < end:
        holder = s.first_owner[gpu]
        if s.reserved_for[gpu] == NOBODY and (holder == NOBODY or s.marked[holder]):
            s.gpus[given] = gpu
            given += 1
        gpu += 1
    return end
