"""Tenants: which GPUs each holds, and whether its quota lets a job start.

A tenant's quota is the number of GPUs that are guaranteed to it. It holds the GPUs of its active jobs, each of which
counts a shared GPU in full, and the free GPUs that are reserved for its jobs. A job within the quota may always start.
Beyond it,

    none              no job starts
    idle, reclaim     a job starts on free GPUs for which no other tenant has a claim

where a tenant's claim is the number of GPUs that its queued jobs request, each of which alone fits into the rest of
its quota, up to that rest. With constraints that is counted on the nodes that the job may use, and on those of each
claiming job that may use some of them. `reclaim.py` takes borrowed GPUs back, and keeps the jobs that it pauses from
borrowing again. docs/rules.md has the rules.
"""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    EVICTED,
    MAX_SHARE,
    NO_BORROWING,
    NOBODY,
    PAUSING,
)


@compiled
def rest_of_quota(s, tenant):
    """Return the guaranteed GPUs that a tenant does not hold."""
    return max(s.quota[tenant] - s.tenant_gpus[tenant], 0)


@compiled
def sum_of_claims(s, jobs, but, barred):
    """Return the GPUs that the queued jobs of all tenants except one claim within their quotas.

    Only of jobs that may use a node on which a job with these bars may run.
    """
    for tenant in range(s.num_tenants):
        s.tenant_left[tenant] = 0
    for request_class in range(s.num_classes):
        size = s.queue_size[request_class]
        if size == 0:
            continue
        job = s.queue[s.queue_start[request_class]]
        tenant, wanted = s.tenant[job], jobs[job].num_gpus
        is_claim = tenant != but and wanted <= rest_of_quota(s, tenant)
        if is_claim and (s.binds == 0 or shares_a_node(s, jobs[job].barred, barred)):
            s.tenant_left[tenant] += wanted * size
    total = 0
    for tenant in range(s.num_tenants):
        total += min(s.tenant_left[tenant], rest_of_quota(s, tenant))
    return total


@compiled
def shares_a_node(s, barred, other):
    """Return whether jobs with these bars may use the same node."""
    return ((barred | other) & ((1 << s.num_groups) - 1)) != (1 << s.num_groups) - 1


@compiled
def are_void(s):
    """Return whether claims bar nobody: the policy has left the cluster idle, rather than start one of these jobs."""
    return s.idle == 1


@compiled
def claims_bar(s):
    """Return whether the cluster is idle, and claims bar jobs that may start at the next instant if it stays so."""
    return s.borrowing != NO_BORROWING and s.num_active == 0 and not are_void(s)


@compiled
def not_claimed(s, jobs, but, barred):
    """Return the free GPUs on the nodes that these bars leave, minus what tenants except one claim of these nodes."""
    free = s.num_free
    if s.binds:
        free = 0
        for node in range(s.num_nodes):
            if (barred >> s.node_group[node]) & 1 == 0:
                free += s.free[node]
    return free if are_void(s) else free - sum_of_claims(s, jobs, but, barred)


@compiled
def may_borrow(s, jobs, job):
    """Return the most free GPUs that a job may take beyond the quota of its tenant."""
    but, barred = s.tenant[job], jobs[job].barred
    if s.evicted[job] == EVICTED and not are_void(s):
        return 0
    most = not_claimed(s, jobs, but, barred)
    if s.binds == 0:
        return most
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] == 0:
            continue
        other = s.queue[s.queue_start[request_class]]
        tenant = s.tenant[other]
        if tenant == but or jobs[other].num_gpus > rest_of_quota(s, tenant):
            continue
        if jobs[other].barred != barred and shares_a_node(s, jobs[other].barred, barred):
            most = min(most, not_claimed(s, jobs, but, jobs[other].barred))
    return most


@compiled
def may_take(s, jobs, job, more):
    """Return whether a job's tenant may hold `more` GPUs in addition, for this job."""
    if s.num_tenants == 0 or more <= 0:
        return True
    tenant = s.tenant[job]
    if s.tenant_gpus[tenant] + more <= s.quota[tenant]:
        return True
    if s.borrowing == NO_BORROWING:
        return False
    return may_borrow(s, jobs, job) >= more


@compiled
def most_gpus(s, jobs, job):
    """Return the most GPUs that a job's tenant may hold in addition, for this job; all without tenants."""
    if s.num_tenants == 0:
        return s.num_gpus
    most = rest_of_quota(s, s.tenant[job])
    if s.borrowing == NO_BORROWING:
        return most
    return max(most, may_borrow(s, jobs, job))


@compiled
def may_begin(s, jobs, job):
    """Return whether a queued job may take free GPUs: its quota allows it, and it was not paused at this instant."""
    return s.num_tenants == 0 or (
        s.last_action_instant[job] != s.instant and may_take(s, jobs, job, jobs[job].num_gpus)
    )


@compiled
def added_gpus(s, job, gpus):
    """Return how many of these GPUs neither the job holds nor, by pausing jobs, its tenant."""
    count = 0
    for gpu in gpus:
        holder = s.first_owner[gpu]
        of_tenant = holder != NOBODY and s.phase[holder] == PAUSING and s.tenant[holder] == s.tenant[job]
        count += not of_tenant and holder != job
    return count


@compiled
def note_held(s, tenant):
    """Record the GPUs that a tenant holds before its first pause at this instant."""
    if s.held_instant[tenant] != s.instant:
        s.held_instant[tenant] = s.instant
        s.held_before[tenant] = s.tenant_gpus[tenant]


@compiled
def held_as_many(s, tenant, more):
    """Return whether a tenant held `more` GPUs in addition at this instant, before pauses that took no time."""
    return s.held_instant[tenant] == s.instant and s.tenant_gpus[tenant] + more <= s.held_before[tenant]


@compiled
def may_take_these(s, jobs, job, gpus):
    """Return whether a job's tenant may hold these GPUs; those of its own paused jobs are handed over."""
    if s.num_tenants == 0:
        return True
    more = added_gpus(s, job, gpus)
    return held_as_many(s, s.tenant[job], more) or may_take(s, jobs, job, more)


@compiled
def is_borrower(s, tenant):
    """Return whether a tenant holds more GPUs than are guaranteed to it."""
    return s.tenant_gpus[tenant] > s.quota[tenant]


@compiled
def may_be_displaced_for(s, victim, job):
    """Return whether a running job may be paused for another: no tenant's job is paused for another tenant's."""
    return s.num_tenants == 0 or s.tenant[victim] == s.tenant[job]


@compiled
def begin_search(s, job):
    """Restrict a search for the victims of a job to its tenant's jobs, and the free GPUs to the rest of its quota."""
    if s.num_tenants > 0:
        s.pass_tenant = s.tenant[job]
        s.free_limit = rest_of_quota(s, s.tenant[job])


@compiled
def open_tenant(s, tenant):
    """Begin a pass over the request classes of one tenant; all others are exhausted."""
    s.pass_tenant = tenant
    for request_class in range(s.num_classes):
        s.exhausted[request_class] = s.class_tenant[request_class] != tenant


@compiled
def close_tenant(s, tenant):
    """Exhaust the request classes of a tenant."""
    for request_class in range(s.num_classes):
        if s.class_tenant[request_class] == tenant:
            s.exhausted[request_class] = 1


@compiled
def first_head(s):
    """Return the tenant whose head comes first, and forget that head; NOBODY if no tenant has one."""
    first = NOBODY
    for tenant in range(s.num_tenants):
        head = s.tenant_head[tenant]
        if head == NOBODY:
            continue
        other = s.tenant_head[first] if first != NOBODY else NOBODY
        if other == NOBODY or (s.order[head], head) < (s.order[other], other):
            first = tenant
    if first != NOBODY:
        s.tenant_head[first] = NOBODY
    return first


@compiled
def set_limits(s, jobs):
    """Set what a pass may grant each tenant: its quota, or all it holds if it borrows and no other tenant has a claim.

    `tenant_kept` are the GPUs that it holds, except by pausing jobs.
    """
    for tenant in range(s.num_tenants):
        s.tenant_kept[tenant] = s.tenant_gpus[tenant]
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == PAUSING:
            s.tenant_kept[s.tenant[job]] -= s.width[job]
    for tenant in range(s.num_tenants):
        s.tenant_limit[tenant] = s.quota[tenant]
        borrows = s.borrowing != NO_BORROWING and s.tenant_kept[tenant] > s.quota[tenant]
        if borrows and sum_of_claims(s, jobs, tenant, 0) == 0:
            s.tenant_limit[tenant] = s.tenant_kept[tenant]


@compiled
def wrong_counts(s):
    """Count the tenants whose GPUs are miscounted, or that hold more than their quota without borrowing."""
    for tenant in range(s.num_tenants):
        s.tenant_left[tenant] = s.tenant_gpus[tenant]
    if s.num_tenants > 0:
        for gpu in range(s.num_gpus):
            for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
                if s.job_in[slot] != NOBODY:
                    s.tenant_left[s.tenant[s.job_in[slot]]] -= 1
            if s.num_jobs_on[gpu] == 0 and s.reserved_for[gpu] >= 0:
                s.tenant_left[s.tenant[s.reserved_for[gpu]]] -= 1
    wrong = 0
    for tenant in range(s.num_tenants):
        wrong += s.tenant_left[tenant] != 0
        wrong += s.borrowing == NO_BORROWING and s.tenant_gpus[tenant] > s.quota[tenant]
    return wrong
