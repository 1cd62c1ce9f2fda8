"""EASY backfilling: a later job may start now if it cannot delay the head of the queue (Lifka 1995).

The shadow time is the earliest time at which the head could start if all running jobs ended by their estimates.
A job may be backfilled if it ends by the shadow time, or if the head still fits at the shadow time with it
running. A job that does not fit either, and may use none of the head's nodes, is the head of a queue of its own.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import queues
from gpu_cluster_gym.simulator.kernel.cluster.actions import start, start_placed
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, MAX_SHARE, NO_BORROWING, NOBODY, PAUSING
from gpu_cluster_gym.simulator.kernel.cluster.placement import choose_nodes, place
from gpu_cluster_gym.simulator.kernel.cluster.queues import estimate_now, first_open, open_all
from gpu_cluster_gym.simulator.kernel.cluster.tenants import (
    close_tenant,
    first_head,
    may_begin,
    open_tenant,
    shares_a_node,
)


@compiled
def projected_end(s, jobs, job):
    """Return when an active job frees its GPUs by its estimate, counted from its start; now if that has passed.

    Of a job that has been paused, what is left of the estimate is counted from the time at which it runs again; one
    that is pausing frees them when the pause ends.
    """
    if s.phase[job] == PAUSING:
        return s.event_at[job]
    if s.preemptions[job] == 0:
        return max(s.clock, s.start_s[job] + estimate_now(s, jobs, job))
    resumes = s.phase_began[job] + (s.loading_s[job] if s.phase[job] == LOADING else 0.0)
    return max(s.clock, resumes + estimate_now(s, jobs, job) - s.checkpointed_s[job])


@compiled
def add_holdings(s, room, cores, job):
    """Add the GPUs and cores of an active job to the available ones."""
    if s.node_of[job] != NOBODY:
        cores[s.node_of[job]] += s.core_count[job]
    slot = s.first_slot[job]
    while slot != NOBODY:
        node = s.gpu_node[slot // MAX_SHARE]
        room[node] += 1
        cores[node] += s.core_count[job] - 1.0
        slot = s.next_slot[slot]


@compiled
def has_quota(s, head, more):
    """Return whether the quota of the head's tenant, as far as it binds, has room for GPUs at the shadow time."""
    binds = s.num_tenants > 0 and s.borrowing == NO_BORROWING
    return not binds or s.pass_gpus + more <= s.quota[s.tenant[head]]


@compiled
def find_shadow(s, jobs, head):
    """Return the shadow time of the head, leaving the GPUs available by then in scratch row 1.

    Without borrowing its tenant's quota must have room, too: `pass_gpus` is then what the tenant will hold.
    """
    s.pass_gpus = s.tenant_gpus[s.tenant[head]]
    room = s.room[1]
    cores = s.core_room[1]
    for node in range(s.num_nodes):
        room[node] = s.free[node]
        cores[node] = s.unreserved_cores[node]
    count = s.num_active
    for k in range(count):
        s.candidates[k] = s.events[k]
        # `order` is scratch here: keys of running jobs are set again by each pass that reads them.
        s.order[s.events[k]] = projected_end(s, jobs, s.events[k])
    for k in range(count):
        queues.push(s.candidates, 0, k, s.place_in_queue, s.order, s.candidates[k])
    while count > 0:
        shadow = s.order[s.candidates[0]]
        # All jobs that end at the same time release their resources together.
        while count > 0 and s.order[s.candidates[0]] == shadow:
            job = s.candidates[0]
            queues.remove(s.candidates, 0, count, s.place_in_queue, s.order, job)
            count -= 1
            add_holdings(s, room, cores, job)
            s.pass_gpus -= s.width[job] if s.tenant[job] == s.tenant[head] else 0
        if has_quota(s, head, jobs[head].num_gpus) and choose_nodes(s, jobs, head, room, cores):
            return shadow
    return np.inf


@compiled
def leaves_room_for(s, jobs, head, job):
    """Return whether the head still fits at the shadow time with `job` running where the rule now places it."""
    place(s, jobs, job)
    room = s.room[2]
    cores = s.core_room[2]
    for node in range(s.num_nodes):
        room[node] = s.room[1][node]
        cores[node] = s.core_room[1][node]
    # Subtract what the job takes from the resources available at the shadow time.
    if jobs[job].num_gpus == 0:
        cores[s.chosen_node[0]] -= jobs[job].cores_each
    for k in range(s.num_chosen):
        room[s.chosen_node[k]] -= s.chosen_gpus[k]
        cores[s.chosen_node[k]] -= (jobs[job].cores_each - 1.0) * s.chosen_gpus[k]
    both = jobs[head].num_gpus + jobs[job].num_gpus
    return has_quota(s, head, both) and choose_nodes(s, jobs, head, room, cores)


@compiled
def is_behind(s, jobs, request_class, head):
    """Return whether a class has queued jobs that are behind this head: they may use one of its nodes."""
    if s.queue_size[request_class] == 0 or s.exhausted[request_class]:
        return False
    return shares_a_node(s, jobs[s.queue[s.queue_start[request_class]]].barred, jobs[head].barred)


@compiled
def close_behind(s, jobs, head):
    """Exhaust the classes of jobs behind a head."""
    for request_class in range(s.num_classes):
        if is_behind(s, jobs, request_class, head):
            s.exhausted[request_class] = 1


@compiled
def something_fits(s, jobs, head):
    """Return whether any queued job behind the head fits now."""
    for request_class in range(s.num_classes):
        if is_behind(s, jobs, request_class, head) and first_placed(s, jobs, request_class) != NOBODY:
            return True
    return False


@compiled
def first_placed(s, jobs, request_class):
    """Place the first job of a class that may begin, and return it; NOBODY if it does not fit, as then does none."""
    begin = s.queue_start[request_class]
    for at in range(begin, begin + s.queue_size[request_class]):
        job = s.queue[at]
        if may_begin(s, jobs, job):
            return job if place(s, jobs, job) else NOBODY
    return NOBODY


@compiled
def first_harmless(s, jobs, head, shadow):
    """Return the first queued job behind the head that fits now and cannot delay it, or NOBODY."""
    best = NOBODY
    for request_class in range(s.num_classes):
        size = s.queue_size[request_class]
        begin = s.queue_start[request_class]
        if not is_behind(s, jobs, request_class, head):
            continue
        first = first_placed(s, jobs, request_class)
        if first == NOBODY:
            continue
        spare = leaves_room_for(s, jobs, head, first)
        for at in range(begin, begin + size):
            job = s.queue[at]
            if not may_begin(s, jobs, job):
                continue
            # EASY's two conditions: the job ends by the shadow time, or it leaves the head enough resources
            # then.
            harmless = spare or s.clock + estimate_now(s, jobs, job) <= shadow
            if harmless and (best == NOBODY or queues.before(s.order, job, best)):
                best = job
    return best


@compiled
def next_allowed(s, jobs):
    """Return the first job in order, of the open classes, that fits and cannot delay the head that it is behind.

    A job that does not fit, and is behind no head, is one. There is no reservation for CPU jobs that do not fit.
    """
    best = NOBODY
    job = first_open(s)
    while job != NOBODY:
        if place(s, jobs, job):
            return job if best == NOBODY or queues.before(s.order, job, best) else best
        if jobs[job].num_gpus > 0:
            if something_fits(s, jobs, job):
                behind = first_harmless(s, jobs, job, find_shadow(s, jobs, job))
                if behind != NOBODY and (best == NOBODY or queues.before(s.order, behind, best)):
                    best = behind
            close_behind(s, jobs, job)
        s.exhausted[jobs[job].request_class] = 1
        job = first_open(s)
    return best


@compiled
def walk_easy(s, jobs):
    """Start jobs in order up to the head, the first that does not fit, then backfill jobs that cannot delay it.

    Heads and shadow times are determined again after each start.
    """
    if s.num_tenants > 0:
        walk_easy_of_tenants(s, jobs)
        return
    open_all(s)
    head = start_up_to_head(s, jobs)
    while head != NOBODY and start_allowed(s, jobs):
        open_all(s)


@compiled
def start_allowed(s, jobs):
    """Start the first job that is allowed to; return whether there was one."""
    job = next_allowed(s, jobs)
    if job != NOBODY:
        place(s, jobs, job)
        start_placed(s, jobs, job)
    return job != NOBODY


@compiled
def start_up_to_head(s, jobs):
    """Start jobs in order up to the head and return it, NOBODY if all start; CPU jobs that do not fit are skipped."""
    head = first_open(s)
    while head != NOBODY:
        if not start(s, jobs, head):
            if jobs[head].num_gpus > 0:
                break
            s.exhausted[jobs[head].request_class] = 1
        head = first_open(s)
    return head


@compiled
def walk_easy_of_tenants(s, jobs):
    """Carry out EASY in the queue of each tenant, in the order of their heads; a job may delay other tenants' heads."""
    open_all(s)
    job = first_open(s)
    while job != NOBODY:
        if not start(s, jobs, job):
            s.exhausted[jobs[job].request_class] = 1
            if jobs[job].num_gpus > 0:
                s.tenant_head[s.tenant[job]] = job
                close_tenant(s, s.tenant[job])
        job = first_open(s)
    tenant = first_head(s)
    while tenant != NOBODY:
        goes_on = True
        while goes_on:
            open_tenant(s, tenant)
            goes_on = start_allowed(s, jobs)
        tenant = first_head(s)
    s.pass_tenant = NOBODY
