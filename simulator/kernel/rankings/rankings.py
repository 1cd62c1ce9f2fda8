"""Rankings: policies that order jobs by a key, carried out in one scheduling pass per instant.

A preemptive pass grants GPUs to queued and running jobs in key order. A running job keeps its GPUs unless one
of them was granted to a job that precedes it; a queued job is placed on free GPUs if it fits there, else also
on GPUs that pauses in flight will free, else on all GPUs that are not granted. Then running jobs that lost a
GPU are paused, and granted jobs whose GPUs are free start. docs/rules.md has the rules in full.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import queues
from gpu_cluster_gym.simulator.kernel.cluster.actions import start, start_on
from gpu_cluster_gym.simulator.kernel.cluster.events import advance, advance_past_ticks, next_event
from gpu_cluster_gym.simulator.kernel.cluster.holding import can_serve
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    BY_ORDER,
    EASY,
    ESTIMATE,
    IDLE,
    IF_IT_PAYS,
    LEVEL,
    MAX_BLOCKED_CLASSES,
    MAX_SHARE,
    NEVER,
    NO_BORROWING,
    NOBODY,
    PAUSING,
    PRIORITY,
    RECLAIM,
    ROUNDING,
    RUNNING,
    STRICT,
    SUBMIT,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone, is_free, is_on_closed
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import (
    TIME_MARGIN_S,
    is_by_time,
    max_remaining,
    recompute_bounds,
)
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause, pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import (
    can_hold,
    choose_for_cpu_job,
    choose_nodes,
    group_holds,
    largest_node,
)
from gpu_cluster_gym.simulator.kernel.cluster.progress import refresh
from gpu_cluster_gym.simulator.kernel.cluster.queues import (
    MIN_REMAINING_SHARE,
    attained_now,
    dequeue,
    enqueue,
    first_open,
    open_all,
    order_of,
    remaining_now,
    reorder,
)
from gpu_cluster_gym.simulator.kernel.cluster.tenants import (
    close_tenant,
    first_head,
    may_take,
    open_tenant,
    set_limits,
    shares_a_node,
)
from gpu_cluster_gym.simulator.kernel.rankings.cost_aware import walk_cost_aware
from gpu_cluster_gym.simulator.kernel.rankings.easy import walk_easy


@compiled
def walk(s, jobs):
    """Carry out the active ranking at this instant."""
    if s.num_queued == 0:
        return
    if s.preempt == IF_IT_PAYS:
        walk_cost_aware(s, jobs)
    elif s.preempt == BY_ORDER:
        if s.num_tenants > 0:
            walk_tenants(s, jobs)
        elif s.pooled:
            walk_pool(s, jobs)
        else:
            walk_all(s, jobs)
    elif s.discipline == EASY:
        walk_easy(s, jobs)
    else:
        walk_queue(s, jobs)


@compiled
def adopt(s, jobs, key, exponent, margin, preempt):
    """Make another ranking the active one."""
    s.key = key
    s.exponent = exponent
    s.margin = margin
    s.preempt = preempt
    reorder(s, jobs)


@compiled
def run_rule(s, jobs):
    """Carry out the active ranking from here to the end; return whether every job finished."""
    quiet = False
    while s.num_done < s.num_jobs:
        if not (advance_past_ticks(s, jobs) if quiet else advance(s, jobs)):
            return False
        before = s.num_starts + s.num_pauses
        walk(s, jobs)
        quiet = ticks_change_nothing(s, s.num_starts + s.num_pauses - before)
    return True


@compiled
def step_until(s, jobs, time):
    """Carry out the active ranking at the next instant with an event if it is before a time; return whether it was.

    Otherwise advance the clock to that time, which is the next instant.
    """
    if s.num_changes > 0:
        refresh(s, jobs)
    if min(next_event(s, jobs), s.next_closing, s.wake) >= time or not advance_past_ticks(s, jobs):
        s.present_seconds += (time - s.clock) * (s.num_arrived - s.num_done)
        s.clock = s.wake = time
        return False
    walk(s, jobs)
    return True


@compiled
def ticks_change_nothing(s, acted):
    """Return whether a pass at a tick would do nothing, if this one has started and paused `acted` jobs.

    Without preemption, a job that does not fit now fits only after an event, except under EASY, whose reservation moves
    with jobs that exceed their estimates. With preemption, keys must be constant between events, and this pass must
    have changed nothing.
    """
    # A tenant takes GPUs back at any instant. A job that a claim kept back may start as soon as the claim is met.
    # Claims are void at the tick after a pass that leaves the cluster idle.
    if s.borrowing == RECLAIM or (s.borrowing == IDLE and (acted > 0 or s.num_active == 0)):
        return False
    if s.preempt == NEVER:
        return s.discipline != EASY
    return s.preempt == BY_ORDER and s.key in (SUBMIT, ESTIMATE, LEVEL, PRIORITY) and acted == 0


# Stages of a grant, each including the previous one: free GPUs, GPUs of pausing jobs, all GPUs that are not granted.
FREE, IN_FLIGHT, DISPLACING = 1, 2, 3
EVERY_GROUP = -1  # all bits
GRANTED = -1  # state of a GPU closed to further grants
LOOK_AHEAD = 300.0  # s for which a blocked head is cached while estimates may be exceeded


@compiled
def walk_queue(s, jobs):
    """Start, in order, the queued jobs that fit.

    Under `strict` a job that does not start blocks its tenant's later jobs that may use a node that it may use.
    """
    open_all(s)
    s.tenant_spared[: max(s.num_tenants, 1)] = EVERY_GROUP
    job = first_open(s)
    while job != NOBODY:
        tenant, barred = s.tenant[job], jobs[job].barred
        if shares_a_node(s, barred, s.tenant_spared[tenant]) or not start(s, jobs, job):
            if s.discipline == STRICT:
                s.tenant_spared[tenant] &= barred
                if s.num_tenants == 0 and s.tenant_spared[tenant] == 0:
                    return
            s.exhausted[jobs[job].request_class] = 1
        job = first_open(s)


@compiled
def offer(s, job, stage):
    """Open the GPUs of an active job to grants from `stage` on."""
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        if s.reserved_for[gpu] == NOBODY and s.num_jobs_on[gpu] == 1:
            s.open[gpu] = stage
            for later in range(stage, DISPLACING + 1):
                s.room[later - 1, s.gpu_node[gpu]] += 1
                # Each GPU keeps one core when its job leaves; see `unreserved_cores`.
                s.core_room[later - 1, s.gpu_node[gpu]] += s.core_count[job] - 1.0
        slot = s.next_slot[slot]


@compiled
def open_gpus(s, num_candidates):
    """Open to grants the GPUs that are free, in flight, or held by preemption candidates."""
    for stage in range(3):
        for group in range(s.num_groups):
            s.refused[stage, group] = s.num_gpus + 1
        for node in range(s.num_nodes):
            s.room[stage, node] = s.free[node]
        for node in range(s.num_nodes):
            s.core_room[stage, node] = s.unreserved_cores[node]
    for gpu in range(s.num_gpus):
        s.open[gpu] = 0
    for k in range(s.num_active):
        if s.phase[s.events[k]] == PAUSING:
            offer(s, s.events[k], IN_FLIGHT)
    for k in range(num_candidates):
        offer(s, s.candidates[k], DISPLACING)


@compiled
def stage_of(s, gpu):
    """Return the first stage at which a GPU may be granted; 0 for none."""
    if s.open[gpu] == 0:
        return FREE if is_free(s, gpu) else 0
    return max(s.open[gpu], 0)


@compiled
def grant_gpu(s, gpu, cores):
    """Close a GPU to further grants, together with its cores."""
    for stage in range(stage_of(s, gpu), DISPLACING + 1):
        s.room[stage - 1, s.gpu_node[gpu]] -= 1
        s.core_room[stage - 1, s.gpu_node[gpu]] -= cores - 1.0
    s.open[gpu] = GRANTED


@compiled
def lost_a_gpu(s, job):
    """Return whether one of a running job's GPUs has been granted to another job."""
    slot = s.first_slot[job]
    while slot != NOBODY:
        if s.open[slot // MAX_SHARE] <= 0:
            return True
        slot = s.next_slot[slot]
    return False


@compiled
def is_to_be_paused(s, job):
    """Return whether a candidate has lost a GPU, or its tenant has been granted all the GPUs that it may have."""
    if lost_a_gpu(s, job):
        return True
    within = s.borrowing != NO_BORROWING or s.pass_gpus + s.width[job] <= s.pass_limit
    return s.num_tenants > 0 and not within


@compiled
def keeps_its_gpus(s, job):
    """Grant a running job the GPUs it holds; return False if any is already granted."""
    if is_to_be_paused(s, job):
        return False
    slot = s.first_slot[job]
    while slot != NOBODY:
        grant_gpu(s, slot // MAX_SHARE, s.core_count[job])
        slot = s.next_slot[slot]
    s.pass_gpus += s.width[job]
    return True


@compiled
def grant_cores(s, jobs, job):
    """Grant unreserved cores to a queued CPU job; return the node, or NOBODY."""
    if not choose_for_cpu_job(s, jobs, job, s.core_room[0]):
        return NOBODY
    node = s.chosen_node[0]
    for stage in range(3):
        s.core_room[stage, node] -= jobs[job].cores_each
    return node


@compiled
def is_refused(s, jobs, job, stage):
    """Return whether every group of nodes that can hold a job has refused a job with as few GPUs, or fewer, at a stage.

    A refusal is valid to the end of the pass, during which resources only shrink.
    """
    if s.cpu_limited or jobs[job].num_gpus > largest_node(s, jobs, job):
        return False
    for group in range(s.num_groups):
        if group_holds(s, jobs, job, group) and jobs[job].num_gpus < s.refused[stage - 1, group]:
            return False
    return True


@compiled
def note_refused(s, jobs, job, stage):
    """Record that a single-node job is refused at a stage: no node of a group that can hold it has enough GPUs."""
    if jobs[job].num_gpus > largest_node(s, jobs, job):
        return
    for group in range(s.num_groups):
        if group_holds(s, jobs, job, group):
            s.refused[stage - 1, group] = min(s.refused[stage - 1, group], jobs[job].num_gpus)


@compiled
def fits_at(s, jobs, job, stage):
    """Choose nodes for a job among the GPUs that may be granted at a stage; return whether it fits."""
    if is_refused(s, jobs, job, stage):
        return False
    if choose_nodes(s, jobs, job, s.room[stage - 1], s.core_room[stage - 1]):
        return True
    note_refused(s, jobs, job, stage)
    return False


@compiled
def grant(s, jobs, job, given):
    """Grant a queued job GPUs at the first stage at which the rule places it, written to `gpus[given:]`.

    Return the index of its first GPU there (the node of a CPU job; NOBODY if nothing was granted), and the index
    after its last one.
    """
    begin = given
    if jobs[job].num_gpus == 0:
        return grant_cores(s, jobs, job), given
    for stage in range(FREE, DISPLACING + 1):
        if not fits_at(s, jobs, job, stage):
            continue
        for k in range(s.num_chosen):
            gpu = s.node_first[s.chosen_node[k]]
            still = s.chosen_gpus[k]
            while still > 0:
                # The lowest GPUs of the chosen node that this stage may grant.
                if 0 < stage_of(s, gpu) <= stage:
                    grant_gpu(s, gpu, jobs[job].cores_each)
                    s.gpus[given] = gpu
                    given += 1
                    still -= 1
                gpu += 1
        return begin, given
    return NOBODY, given


@compiled
def add_victim(s, job, first, num_victims):
    """Insert a victim in key order behind index `first`; return the number of victims."""
    at = num_victims
    while at > first and queues.before(s.order, job, s.victims[at - 1]):
        s.victims[at] = s.victims[at - 1]
        at -= 1
    s.victims[at] = job
    return num_victims + 1


@compiled
def settle_before(s, job, num_candidates, num_victims):
    """Grant the candidates that precede a job what they hold; return the remaining candidates and victims.

    Their order does not matter, since no two hold the same GPU.
    """
    first = num_victims
    left = 0
    for k in range(num_candidates):
        rival = s.candidates[k]
        if not queues.before(s.order, rival, job):
            # Keep the candidates that come after the job, in place.
            s.candidates[left] = rival
            left += 1
        elif not keeps_its_gpus(s, rival):
            num_victims = add_victim(s, rival, first, num_victims)
    return left, num_victims


@compiled
def is_over_limit(s, jobs, job):
    """Return whether a tenant's quota, or a pause at this instant, keeps a queued job from being granted GPUs."""
    if s.num_tenants == 0:
        return False
    return s.pass_gpus + jobs[job].num_gpus > s.pass_limit or s.last_action_instant[job] == s.instant


@compiled
def walk_grants(s, jobs, num_candidates, num_granted, num_victims, given):
    """Grant GPUs in key order; return the numbers of granted queued jobs, of victims, and of granted GPUs.

    Granted jobs move from the queue to the list `granted`; jobs to be paused are listed in `victims`. Once no
    queued job is left, a running job keeps its GPUs unless it has lost one. The lists are continued from the numbers
    passed.
    """
    spared = EVERY_GROUP  # groups of nodes that no job may use which blocks others under `strict`
    job = first_open(s)
    while job != NOBODY:
        before = num_victims
        num_candidates, num_victims = settle_before(s, job, num_candidates, num_victims)
        if s.discipline == STRICT:
            for k in range(before, num_victims):  # running jobs that lose their GPUs block others, too
                spared &= jobs[s.victims[k]].barred
        refused = shares_a_node(s, jobs[job].barred, spared) or is_over_limit(s, jobs, job)
        where, end = (NOBODY, given) if refused else grant(s, jobs, job, given)
        if where != NOBODY:
            dequeue(s, jobs, job)
            s.pass_gpus += jobs[job].num_gpus
            s.granted[num_granted] = job
            s.granted_from[num_granted] = where
            num_granted += 1
            given = end
        else:
            s.exhausted[jobs[job].request_class] = 1
            if s.discipline == STRICT:
                spared &= jobs[job].barred
        job = first_open(s)
    # No queued job is left to ask: the remaining candidates keep their GPUs unless they lost one.
    first = num_victims
    for k in range(num_candidates):
        if is_to_be_paused(s, s.candidates[k]):
            num_victims = add_victim(s, s.candidates[k], first, num_victims)
        else:
            s.pass_gpus += s.width[s.candidates[k]]
    return num_granted, num_victims, given


@compiled
def all_free(s, gpus):
    """Return whether no job holds any of these GPUs."""
    for gpu in gpus:
        if s.first_owner[gpu] != NOBODY:
            return False
    return True


@compiled
def has_its_cores(s, jobs, job, gpus, node):
    """Return whether the cores of a CPU job, or of a job's servers, are still available after other starts."""
    if jobs[job].num_gpus > 0:
        return can_serve(s, gpus, jobs[job].num_gpus, jobs[job].servers)
    return jobs[job].cores_each <= s.unreserved_cores[node] + ROUNDING


@compiled
def may_start_there(s, jobs, job, gpus, node):
    """Return whether a granted job whose GPUs are free may start: it has its cores, and its quota allows it."""
    return has_its_cores(s, jobs, job, gpus, node) and may_take(s, jobs, job, jobs[job].num_gpus)


@compiled
def carry_out(s, jobs, num_granted, num_victims):
    """Pause the victims, then start granted jobs whose GPUs and cores are all free; the others stay queued."""
    # Granted jobs left the queue during the pass; those that cannot start yet stay queued.
    for k in range(num_granted):
        enqueue(s, jobs, s.granted[k])
    for k in range(num_victims):
        pause(s, jobs, s.victims[k])
    for k in range(num_granted):
        job = s.granted[k]
        where = s.granted_from[k]
        gpus = s.gpus[where : where + jobs[job].num_gpus]
        if all_free(s, gpus) and may_start_there(s, jobs, job, gpus, where):
            start_on(s, jobs, job, gpus, jobs[job].cores_each, where)


@compiled
def start_while_fitting(s, jobs):
    """Start queued jobs in order up to the first that finds no free GPUs; return that job, or NOBODY.

    A pass grants free GPUs first, so that running jobs cannot matter before a job finds none.
    """
    job = first_open(s)
    while job != NOBODY and start(s, jobs, job):
        job = first_open(s)
    return job


@compiled
def count_pausing(s):
    """Return the number of pausing jobs."""
    count = 0
    for k in range(s.num_active):
        count += s.phase[s.events[k]] == PAUSING
    return count


@compiled
def walk_all(s, jobs):
    """Carry out one scheduling pass of a preemptive ranking over queued and running jobs."""
    open_all(s)
    head = start_while_fitting(s, jobs)
    while head != NOBODY and is_blocked(s, jobs, head):
        s.exhausted[jobs[head].request_class] = 1
        head = start_while_fitting(s, jobs)
    if head == NOBODY:
        return
    num_candidates = gather_rivals(s, jobs, head)
    # Nothing to displace and nothing in flight: the pass reduces to free GPUs.
    if num_candidates == 0 and count_pausing(s) == 0:
        walk_queue(s, jobs)
        return
    open_gpus(s, num_candidates)
    num_granted, num_victims, _ = walk_grants(s, jobs, num_candidates, 0, 0, 0)
    carry_out(s, jobs, num_granted, num_victims)


@compiled
def start_up_to_heads(s, jobs):
    """Start queued jobs in order, of each tenant up to its head, the first of its jobs that does not start."""
    open_all(s)
    job = first_open(s)
    while job != NOBODY:
        if not start(s, jobs, job):
            s.tenant_head[s.tenant[job]] = job
            close_tenant(s, s.tenant[job])
        job = first_open(s)


@compiled
def gather_own(s, jobs, head):
    """Collect the running jobs of the head's tenant that come after it, in order; return their number and GPUs."""
    count = 0
    gpus = 0
    for k in range(s.num_active):
        job = s.events[k]
        if s.tenant[job] == s.tenant[head] and is_rival(s, jobs, head, job):
            at = count
            while at > 0 and queues.before(s.order, job, s.candidates[at - 1]):
                s.candidates[at] = s.candidates[at - 1]
                at -= 1
            s.candidates[at] = job
            count += 1
            gpus += s.width[job]
    return count, gpus


@compiled
def withdraw(s):
    """Close the GPUs that were open to the jobs of one tenant only, before the next tenant's turn."""
    for gpu in range(s.num_gpus):
        if s.open[gpu] == DISPLACING:
            s.open[gpu] = 0
            s.room[DISPLACING - 1, s.gpu_node[gpu]] -= 1
            s.core_room[DISPLACING - 1, s.gpu_node[gpu]] -= s.core_count[s.first_owner[gpu]] - 1.0
    for group in range(s.num_groups):
        s.refused[DISPLACING - 1, group] = s.num_gpus + 1


@compiled
def walk_tenants(s, jobs):
    """Carry out one scheduling pass of a preemptive ranking in which no tenant's job is paused for another tenant's.

    First, each tenant's queued jobs start in order up to the first that does not fit, its head. Then the tenants take
    turns, in the order of their heads: GPUs are granted as in a pass without tenants, up to the quota, to the tenant's
    queued and running jobs. Last, with borrowing, the queued jobs that may still start do so.
    """
    start_up_to_heads(s, jobs)
    num_granted, num_victims, given = 0, 0, 0
    open_gpus(s, 0)
    set_limits(s, jobs)
    tenant = first_head(s)
    while tenant != NOBODY:
        open_tenant(s, tenant)
        head = first_open(s)
        while head != NOBODY and is_blocked(s, jobs, head):
            s.exhausted[jobs[head].request_class] = 1
            head = first_open(s)
        if head != NOBODY:
            num_candidates, gpus = gather_own(s, jobs, head)
            s.pass_gpus = s.tenant_kept[tenant] - gpus
            s.pass_limit = s.tenant_limit[tenant]
            for k in range(num_candidates):
                offer(s, s.candidates[k], DISPLACING)
            num_granted, num_victims, given = walk_grants(
                s, jobs, num_candidates, num_granted, num_victims, given
            )
            withdraw(s)
        tenant = first_head(s)
    s.pass_tenant = NOBODY
    carry_out(s, jobs, num_granted, num_victims)
    if s.borrowing != NO_BORROWING:
        walk_queue(s, jobs)


@compiled
def is_rival(s, jobs, head, job):
    """Return whether an active job comes after `head` and may be paused for it; sets its key."""
    if not may_pause(s, job) or s.width[job] == 0 or not is_alone(s, job):
        return False
    if s.failing and is_on_closed(s, job):
        return False
    s.order[job] = order_of(s, jobs, job)
    return queues.before(s.order, head, job)


@compiled
def gather_on(s, jobs, head, node, count):
    """Add the rivals whose first GPU is on a node to the candidates; return their number."""
    before = count
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        job = s.first_owner[gpu]
        if job != NOBODY and s.first_slot[job] // MAX_SHARE == gpu and is_rival(s, jobs, head, job):
            s.candidates[count] = job
            count += 1
    if count == before:
        recompute_bounds(s, jobs, node)
    return count


@compiled
def gather_rivals(s, jobs, head):
    """Collect the running jobs that come after `head`, the first job in the queue; return their number.

    Jobs before it keep their GPUs in any case. So do jobs that load, share GPUs, are on a closed node, have no
    GPU, or were started at this instant.
    """
    count = 0
    if is_by_time(s) and not s.pooled:
        for node in range(s.num_nodes):
            if max_remaining(s, node) >= s.order[head]:
                count = gather_on(s, jobs, head, node, count)
        return count
    for k in range(s.num_active):
        if is_rival(s, jobs, head, s.events[k]):
            s.candidates[count] = s.events[k]
            count += 1
    return count


@compiled
def is_remembered(s, jobs, job):
    """Return whether a queued job may be cached as blocked.

    It must request GPUs, in a class with an entry; the ranking must be by remaining time and not strict, and cores must
    not be limited.
    """
    return (
        is_by_time(s)
        and not s.cpu_limited
        and s.discipline != STRICT
        and jobs[job].request_class < MAX_BLOCKED_CLASSES
        and jobs[job].num_gpus > 0
    )


@compiled
def comes_before(s, jobs, job, key):
    """Return whether a running job surely precedes a key, now and for the next LOOK_AHEAD seconds."""
    left = remaining_now(s, jobs, job)
    if not s.exact:
        # The estimate of a job that exceeds it grows with attained time: take its value at the end of the
        # look-ahead.
        left = max(left, MIN_REMAINING_SHARE * (attained_now(s, job) + s.rate[job] * LOOK_AHEAD))
    return left + TIME_MARGIN_S < key


@compiled
def room_on(s, jobs, job, node):
    """Return the maximum GPUs of a node that a queued job may get: all except those of jobs that precede it."""
    count = 0
    if not can_hold(s, jobs, job, node):
        return count
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        holder = s.first_owner[gpu]
        if holder == NOBODY or s.phase[holder] != RUNNING or not comes_before(s, jobs, holder, s.order[job]):
            count += 1
    return count


@compiled
def node_may_have_room(s, jobs, job, since):
    """Return whether a node that changed since a stamp may have enough GPUs for a single-node gang."""
    wanted = jobs[job].num_gpus
    for node in range(s.num_nodes):
        if (
            s.node_stamp[node] > since
            and s.node_gpus[node] >= wanted
            and room_on(s, jobs, job, node) >= wanted
        ):
            return True
    return False


@compiled
def nodes_may_have_room(s, jobs, job):
    """Return whether there may be enough GPUs for a gang that takes whole nodes and a part of one more."""
    whole = 0
    part = 0
    for node in range(s.num_nodes):
        count = room_on(s, jobs, job, node)
        if count == s.node_gpus[node]:
            whole += count
        else:
            part = max(part, count)
    return whole + part >= jobs[job].num_gpus


@compiled
def is_blocked(s, jobs, job):
    """Return whether the first queued job of its class surely gets no GPUs in this pass; cache it if so.

    Under a ranking by remaining time a queued job's key is constant, while the keys of running jobs fall. A job
    that found too few GPUs on every node, excluding those of jobs that precede it, therefore stays blocked
    until a node changes: a job there releases GPUs, begins to pause, or changes speed. Such nodes are stamped
    (`mark_node`), and only nodes with a newer stamp are examined again. Exceeded estimates grow with attained
    time, so that a finding about them is valid for LOOK_AHEAD only.
    """
    if not is_remembered(s, jobs, job):
        return False
    at = jobs[job].request_class
    known = s.blocked_job[at] == job and s.blocked_key[at] == s.order[job] and s.clock <= s.blocked_until[at]
    # Examine only nodes that changed since the last look; all nodes if nothing is cached.
    since = s.blocked_stamp[at] if known else -1
    if since == s.stamp:
        return True
    if jobs[job].num_gpus <= largest_node(s, jobs, job):
        may = node_may_have_room(s, jobs, job, since)
    else:
        may = nodes_may_have_room(s, jobs, job)
    if may:
        s.blocked_job[at] = NOBODY
        return False
    if not known:
        s.blocked_job[at] = job
        s.blocked_key[at] = s.order[job]
        s.blocked_until[at] = np.inf if s.exact else s.clock + LOOK_AHEAD
    s.blocked_stamp[at] = s.stamp
    return True


@compiled
def not_granted_yet(s, jobs, num_rivals):
    """Return the number of GPUs that are free, in flight, or held by preemption candidates."""
    count = s.num_free
    for k in range(s.num_active):
        if s.phase[s.events[k]] == PAUSING:
            count += s.width[s.events[k]]
    for k in range(num_rivals):
        count += s.width[s.candidates[k]]
    return count


@compiled
def next_in_order(s, num_rivals):
    """Return the next job of the pass, queued or a rival, or NOBODY; the rivals form a heap."""
    job = first_open(s)
    if num_rivals > 0 and (job == NOBODY or queues.before(s.order, s.candidates[0], job)):
        return s.candidates[0]
    return job


@compiled
def walk_counts(s, jobs, num_rivals):
    """Grant numbers of GPUs in key order; return the numbers of granted queued jobs and of victims."""
    left = not_granted_yet(s, jobs, num_rivals)
    for k in range(num_rivals):
        queues.push(s.candidates, 0, k, s.place_in_queue, s.order, s.candidates[k])
    num_granted = 0
    num_victims = 0
    closed = False
    job = next_in_order(s, num_rivals)
    while job != NOBODY:
        wanted = s.width[job]
        running = s.phase[job] == RUNNING
        granted = wanted <= left and (running or not closed)
        if granted:
            left -= wanted
        if running:
            queues.remove(s.candidates, 0, num_rivals, s.place_in_queue, s.order, job)
            num_rivals -= 1
            if not granted:
                s.victims[num_victims] = job
                num_victims += 1
        elif granted:
            dequeue(s, jobs, job)
            s.granted[num_granted] = job
            num_granted += 1
        else:
            s.exhausted[jobs[job].request_class] = 1
        if not granted and s.discipline == STRICT:
            closed = True
        job = next_in_order(s, num_rivals)
    return num_granted, num_victims


@compiled
def walk_pool(s, jobs):
    """Carry out one pass of a preemptive ranking over a pool of GPUs without node boundaries."""
    open_all(s)
    head = first_open(s)
    if head == NOBODY:
        return
    num_granted, num_victims = walk_counts(s, jobs, gather_rivals(s, jobs, head))
    for k in range(num_granted):
        enqueue(s, jobs, s.granted[k])
    for k in range(num_victims):
        pause(s, jobs, s.victims[k])
    budget = s.num_free
    for k in range(num_granted):
        job = s.granted[k]
        # The first granted job that must wait keeps what is free, so that those granted after it wait too.
        budget -= jobs[job].num_gpus
        if budget >= 0:
            start(s, jobs, job)
