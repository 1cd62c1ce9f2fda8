"""Displacing starts: a queued job that does not fit starts once the running jobs that the agent chooses have paused.

The agent first chooses the queued job, then one running job after another, its victims, until their GPUs, those of jobs
that pause already and free ones are enough. All of this happens at one instant, and no job pauses before the last
victim is chosen.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.actions import start_as
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_free
from gpu_cluster_gym.simulator.kernel.cluster.pausing import pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold, choose, largest_node
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_begin
from gpu_cluster_gym.simulator.kernel.rankings.room import is_coming
from gpu_cluster_gym.simulator.kernel.slots.claims import (
    NO,
    UNKNOWN,
    YES,
    forget_choice,
    is_enough,
    next_part,
)
from gpu_cluster_gym.simulator.kernel.slots.features import MAY_PAUSE


@compiled
def is_obtainable(s, gpu):
    """Return whether a GPU is free, or will be once the marked jobs and those that pause already have paused."""
    if is_free(s, gpu) or is_coming(s, gpu):
        return True
    holder = s.first_owner[gpu]
    return (
        s.reserved_for[gpu] == NOBODY
        and holder != NOBODY
        and s.marked[holder] > 0
        and s.num_jobs_on[gpu] == 1
    )


@compiled
def count_room(s, room):
    """Write the number of obtainable GPUs of each node."""
    for node in range(s.num_nodes):
        room[node] = 0
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            room[node] += is_obtainable(s, gpu)


@compiled
def mark_shown(s, running, features, mark):
    """Mark the jobs of the running slots that may be paused, or unmark them."""
    for k in range(len(running)):
        if features[k, MAY_PAUSE] > 0:
            s.marked[running[k]] = mark


@compiled
def mark_victims(s, cache, mark):
    """Mark the victims chosen so far, or unmark them."""
    for k in range(cache.num_victims):
        s.marked[cache.victims[k]] = mark


@allocating
def list_displacing(s, jobs, queue, running, features, out):
    """Write 1 for each job of the queue slots that can start once running jobs of the slots have paused, else 0.

    Jobs with parameter servers and jobs without GPUs only start where they fit. So does a job that has GPUs enough
    without any pause: it lacks other things.
    """
    out[:] = 0
    free, room = np.empty(s.num_nodes, np.int64), np.empty(s.num_nodes, np.int64)
    known = np.zeros(s.num_classes, np.int8)
    for node in range(s.num_nodes):
        free[node] = s.free[node]
    mark_shown(s, running, features, 1)
    count_room(s, room)
    mark_shown(s, running, features, 0)
    for k in range(len(queue)):
        job = queue[k]
        if job == NOBODY or s.last_action_instant[job] == s.instant:
            continue
        request_class = jobs[job].request_class
        if known[request_class] == UNKNOWN:
            able = (
                jobs[job].num_gpus > 0
                and jobs[job].servers == 0
                and may_begin(s, jobs, job)
                and is_enough(s, jobs, job, room)
                and not is_enough(s, jobs, job, free)
            )
            known[request_class] = YES if able else NO
        out[k] = known[request_class] == YES


@allocating
def victims_node(s, jobs, job, victim, running, features, within):
    """Return the first node where a job can start if this victim and others on the node pause, or NOBODY.

    within: the only node to consider, or NOBODY for all. A gang, which needs several nodes, takes its first one.
    """
    room = np.empty(s.num_nodes, np.int64)
    mark_shown(s, running, features, 1)
    count_room(s, room)
    mark_shown(s, running, features, 0)
    wanted = jobs[job].num_gpus if jobs[job].num_gpus <= largest_node(s, jobs, job) else 1
    slot = s.first_slot[victim]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        node = s.gpu_node[gpu]
        if (
            (within == NOBODY or node == within)
            and room[node] >= wanted
            and can_hold(s, jobs, job, node)
            and s.reserved_for[gpu] == NOBODY
            and s.num_jobs_on[gpu] == 1
        ):
            return node
        slot = s.next_slot[slot]
    return NOBODY


@compiled
def list_victims(s, jobs, cache, running, features, out):
    """Write 1 for each running slot whose job may be the next victim, else 0."""
    job = cache.starter - 1
    for k in range(len(running)):
        out[k] = features[k, MAY_PAUSE] > 0 and (
            victims_node(s, jobs, job, running[k], running, features, cache.victims_node) != NOBODY
        )
    for k in range(len(running)):
        for other in range(cache.num_victims):
            if cache.victims[other] == running[k]:
                out[k] = 0


@compiled
def forget_starter(cache):
    """End the choice of victims."""
    cache.starter = 0
    cache.num_victims = 0
    cache.victims_node = NOBODY


@allocating
def add(s, jobs, cache, running, features, job):
    """Choose a queued job to start, or its next victim; return whether it has GPUs enough then, written to `gpus`."""
    if cache.starter == 0:
        forget_starter(cache)
        cache.starter = 1 + job
    else:
        starter = cache.starter - 1
        if cache.num_victims == 0 and jobs[starter].num_gpus <= largest_node(s, jobs, starter):
            cache.victims_node = victims_node(s, jobs, starter, job, running, features, NOBODY)
        cache.victims[cache.num_victims] = job
        cache.num_victims += 1
    mark_victims(s, cache, 1)
    enough = list_obtained(s, jobs, cache.starter - 1)
    mark_victims(s, cache, 0)
    return enough


@allocating
def list_obtained(s, jobs, job):
    """Write obtainable GPUs for a job into `gpus`, in ascending order; return whether they are enough."""
    room = np.empty(s.num_nodes, np.int64)
    count_room(s, room)
    s.num_chosen = 0
    missing, count = jobs[job].num_gpus, 0
    part = next_part(s, jobs, job, missing)
    while part > 0:
        node = 0
        while node < s.num_nodes and (s.taken[node] or room[node] < part or not can_hold(s, jobs, job, node)):
            node += 1
        if node == s.num_nodes:
            break
        end = count + part
        gpu = s.node_first[node]
        while count < end:
            if is_obtainable(s, gpu):
                s.gpus[count] = gpu
                count += 1
            gpu += 1
        choose(s, node, part)
        missing -= part
        part = next_part(s, jobs, job, missing)
    forget_choice(s)
    s.gpus[:count].sort()
    return missing == 0 and count > 0


@allocating
def choose_and_displace(s, jobs, cache, running, features, job):
    """Choose a queued job to start, or its next victim; once there are enough, pause them and start the job."""
    if not add(s, jobs, cache, running, features, job):
        return
    starter = cache.starter - 1
    for k in range(cache.num_victims):
        pause(s, jobs, cache.victims[k])
    forget_starter(cache)
    count = jobs[starter].num_gpus
    start_as(s, jobs, starter, s.gpus[:count], count, 0, jobs[starter].cores_each, NOBODY, False)


@entry
def list_choices(states, e, jobs, caches, queue, running, features, starts, pauses):
    """Write the jobs that may start by displacing others, or the next victims of the one chosen; return that job.

    queue: int64 (K,). running: int64 (R,). Both are -1 where empty. features: float32 (R, n), of the running slots.
    starts: int8 (K,), pauses: int8 (R,), 1 where legal. The job is -1 if none is chosen.
    """
    cache = caches[0]
    starts[:] = 0
    pauses[:] = 0
    if cache.starter == 0:
        list_displacing(states[e], jobs, queue, running, features, starts)
    else:
        list_victims(states[e], jobs, cache, running, features, pauses)
    return cache.starter - 1


@entry
def choose_next(states, e, jobs, caches, running, features, job, victims):
    """Choose a queued job to start, or its next victim; return the number of victims once they are enough, else -1.

    Then the record's `gpus` hold the GPUs of the job, `victims`, int64 (R,), begins with its victims, and the choice is
    over. Nothing is paused or started.
    """
    cache = caches[0]
    if not add(states[e], jobs, cache, running, features, job):
        return -1
    count = cache.num_victims
    for k in range(count):
        victims[k] = cache.victims[k]
    forget_starter(cache)
    return count
