"""Preempt only when it pays: the threshold family, and the search for victims that it shares with agents.

A queued job that does not fit may displace victims whose mean remaining time exceeds the sum, over them, of the
newcomer's time and `margin` times the victim's overhead. Margin 0 asks only whether it would pay if pausing were
free; an infinite margin never preempts.
"""

import numpy as np

from simulator.kernel._compile import compiled
from simulator.kernel.actions import start, start_on
from simulator.kernel.layout import NOBODY, QUEUED, ROUNDING, RUNNING
from simulator.kernel.machines import is_alone
from simulator.kernel.pausing import may_pause, pause
from simulator.kernel.placement import can_hold, largest_node, place
from simulator.kernel.queues import cost_to_finish, first_open, open_all, remaining_now
from simulator.kernel.speed import cores_of_servers

LEAST_RUN = 60.0  # s a job has run before it may be displaced, against thrashing


@compiled
def overhead_of(jobs, job):
    """Seconds of GPUs held without progress that a preemption of the job costs."""
    return jobs[job].pause_s + jobs[job].load_s


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
def clear_best_node(s, jobs, job, wanted, whole, effort, first):
    """Clear the node where that is worth most; with `whole`, an entire node of at most `wanted` GPUs."""
    best = NOBODY
    best_size = 0
    best_worth = 0.0
    for node in range(s.num_nodes):
        size = s.node_gpus[node]
        if s.taken[node] or not can_hold(s, jobs, job, node) or size == 0:
            continue
        if (whole and (size > wanted or size < best_size)) or (not whole and size < wanted):
            continue
        count = size if whole else wanted
        end = clear(s, node, count, first)
        if end < 0:
            continue
        if not leaves_cores(s, jobs, job, node, count, first, end):
            unmark(s, first, end)
            continue
        value = worth(s, jobs, effort, 1.0, first, end)
        if best == NOBODY or (whole and size > best_size) or value > best_worth:
            best = node
            best_size = size
            best_worth = value
        unmark(s, first, end)
    return best


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


@compiled
def note_who_may_be_displaced(s, jobs, effort):
    """Write down what remains of the active jobs that may be victims of one that needs `effort` seconds."""
    for k in range(s.num_active):
        job = s.events[k]
        s.left[job] = remaining_now(s, jobs, job) if may_displace(s, jobs, job, effort) else -1.0


@compiled
def find_victims(s, jobs, job):
    """Find the jobs to pause for one that does not fit; return their number in `victims`, 0 if there is no way.

    `gpus` then names the GPUs the job would get. A gang that fits one node looks at each node; a larger one
    takes whole nodes, the largest first, and a part of one more. No job is paused for a CPU job.
    """
    if jobs[job].num_gpus == 0:
        return 0
    effort = cost_to_finish(s, jobs, job)
    note_who_may_be_displaced(s, jobs, effort)
    largest = largest_node(s, jobs, job)
    missing = jobs[job].num_gpus
    s.num_chosen = 0
    end = 0
    given = 0
    while missing > 0:
        whole = missing >= largest and jobs[job].num_gpus > largest
        node = clear_best_node(s, jobs, job, missing, whole, effort, end)
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
def most_gain(s, jobs):
    """Largest remaining time less `margin` x overhead of a running job.

    If displacing pays, it pays for the victim with most time remaining alone, so a newcomer that needs as much as
    this or more cannot displace any, and the search is spared.
    """
    most = -np.inf
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == RUNNING and s.width[job] > 0:
            most = max(most, remaining_now(s, jobs, job) - s.margin * overhead_of(jobs, job))
    return most


@compiled
def next_pick(s, jobs):
    """Return the job that the rule in force would pick next at this instant, or NOBODY to wait.

    One attempt a request class: if the first of it finds no place, or was paused at this very instant, those behind
    it are passed over.
    """
    open_all(s)
    most = most_gain(s, jobs) if s.margin < np.inf else -np.inf
    job = first_open(s)
    while job != NOBODY:
        if s.last_action_instant[job] != s.instant:
            if place(s, jobs, job):
                return job
            worthwhile = cost_to_finish(s, jobs, job) < most
            if worthwhile and pays(s, jobs, job, s.margin, find_victims(s, jobs, job)):
                return job
        s.exhausted[jobs[job].request_class] = 1
        job = first_open(s)
    return NOBODY


@compiled
def walk_paying(s, jobs):
    """Carry out the threshold rule at this instant, pick by pick."""
    job = next_pick(s, jobs)
    while job != NOBODY:
        pick(s, jobs, job)
        job = next_pick(s, jobs)
