"""Reclaim: tenants below their quotas take back GPUs from those that borrow, by preemption.

At each instant, after arrivals and before the policy is asked, the queued jobs that alone fit into the rest of their
tenant's quota are examined in the order of submission. Where the placement rule finds no place for one on GPUs that are
free or being freed, borrowers' running jobs are paused, the last started first, until it does; those that turn out not
to be needed are spared, the first started first. A job may be paused as long as its tenant holds more than its quota.
The policy starts the jobs; until then their claims keep borrowers from these GPUs (`tenants.py`).

A claim is a number of GPUs. Where the free GPUs are spread, a paused job could begin again on the only node that holds
the job for which it was paused, again and again. So it borrows nothing until an instant at which no other tenant has a
queued job within its quota; and once it has been paused here, it is spared until it has run for `SPARED_S`.
"""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import EVICTED, MAX_SHARE, NOBODY, PAUSING, RETURNED
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone, is_on_closed
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause, preempt
from gpu_cluster_gym.simulator.kernel.cluster.placement import choose_nodes
from gpu_cluster_gym.simulator.kernel.cluster.tenants import is_borrower, rest_of_quota, shares_a_node

SPARED_S = 300.0
"""Time that a job which was paused here runs before it may be paused again, s."""


@compiled
def is_claimed(s, jobs, but, barred):
    """Return whether a tenant except one has a queued job within its quota, for a node that these bars leave."""
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] == 0:
            continue
        job = s.queue[s.queue_start[request_class]]
        tenant = s.tenant[job]
        if tenant == but or jobs[job].num_gpus == 0 or jobs[job].num_gpus > rest_of_quota(s, tenant):
            continue
        if s.binds == 0 or shares_a_node(s, jobs[job].barred, barred):
            return True
    return False


@compiled
def let_return(s, jobs):
    """Let jobs that were paused here borrow again, if no other tenant claims GPUs that they may use."""
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            job = s.queue[at]
            if s.evicted[job] == EVICTED and not is_claimed(s, jobs, s.tenant[job], jobs[job].barred):
                s.evicted[job] = RETURNED
                s.num_evicted -= 1


@compiled
def take_back(s, jobs):
    """Pause the jobs of borrowers whose GPUs other tenants' queued jobs need."""
    if s.num_evicted > 0:
        let_return(s, jobs)
    if s.num_queued == 0 or not any_borrower(s):
        return
    note_room(s)
    for request_class in range(s.num_classes):
        s.exhausted[request_class] = 0
    num_victims = 0
    job = next_claimant(s, jobs, NOBODY)
    while job != NOBODY:
        end = num_victims
        if not choose_nodes(s, jobs, job, s.room[0], s.core_room[0]):
            end = add_victims(s, jobs, job, num_victims)
        if end < 0:
            s.exhausted[jobs[job].request_class] = 1
        else:
            num_victims = end
            use_choice(s, jobs, job)
        job = next_claimant(s, jobs, job)
    for k in range(num_victims):
        s.marked[s.victims[k]] = 0
        s.evicted[s.victims[k]] = EVICTED
        s.num_evicted += 1
        preempt(s, jobs, s.victims[k])


@compiled
def any_borrower(s):
    """Return whether a tenant holds more than its quota."""
    for tenant in range(s.num_tenants):
        if is_borrower(s, tenant):
            return True
    return False


@compiled
def note_room(s):
    """Record each node's free and pausing GPUs and cores, the rest of each quota, and the GPUs each tenant keeps."""
    for node in range(s.num_nodes):
        s.room[0, node] = s.free[node]
        s.core_room[0, node] = s.unreserved_cores[node]
    for tenant in range(s.num_tenants):
        s.tenant_left[tenant] = rest_of_quota(s, tenant)
        s.tenant_kept[tenant] = s.tenant_gpus[tenant]
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == PAUSING:
            s.tenant_kept[s.tenant[job]] -= s.width[job]
            add_room(s, job, 1)


@compiled
def add_room(s, job, sign):
    """Add (sign = 1) or remove (sign = -1) the GPUs and cores of a job, except those reserved or shared."""
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        if s.reserved_for[gpu] == NOBODY and s.num_jobs_on[gpu] == 1:
            s.room[0, s.gpu_node[gpu]] += sign
            # Each GPU keeps one core when its job leaves; see `unreserved_cores`.
            s.core_room[0, s.gpu_node[gpu]] += sign * (s.core_count[job] - 1.0)
        slot = s.next_slot[slot]


@compiled
def next_claimant(s, jobs, after):
    """Return the first queued job after a given one that fits into the rest of its tenant's quota, or NOBODY."""
    first = NOBODY
    for request_class in range(s.num_classes):
        size, begin = s.queue_size[request_class], s.queue_start[request_class]
        if size == 0 or s.exhausted[request_class]:
            continue
        wanted, tenant = jobs[s.queue[begin]].num_gpus, s.class_tenant[request_class]
        if wanted == 0 or wanted > s.tenant_left[tenant]:
            continue
        for at in range(begin, begin + size):
            job = s.queue[at]
            if job > after and (first == NOBODY or job < first) and s.last_action_instant[job] != s.instant:
                first = job
    return first


@compiled
def youngest(s):
    """Return the last started job that may be paused for another tenant's, or NOBODY."""
    found = NOBODY
    for k in range(s.num_active):
        job = s.events[k]
        if s.marked[job] or not may_pause(s, job) or s.width[job] == 0 or not is_alone(s, job):
            continue
        tenant = s.tenant[job]
        if s.tenant_kept[tenant] <= s.quota[tenant] or (s.failing and is_on_closed(s, job)):
            continue
        if s.evicted[job] == RETURNED and s.clock - s.phase_began[job] < SPARED_S:
            continue
        if found == NOBODY or s.began[job] > s.began[found]:
            found = job
    return found


@compiled
def give_up(s, job, sign):
    """Count a job as a victim (sign = 1), or no longer (sign = -1)."""
    s.marked[job] = sign > 0
    s.tenant_kept[s.tenant[job]] -= sign * s.width[job]
    add_room(s, job, sign)


@compiled
def add_victims(s, jobs, job, first):
    """Append victims to `victims[first:]` until a job finds a place; return the end of the list, -1 without a place."""
    end = first
    fits = False
    while not fits:
        victim = youngest(s)
        if victim == NOBODY:
            break
        give_up(s, victim, 1)
        s.victims[end] = victim
        end += 1
        fits = choose_nodes(s, jobs, job, s.room[0], s.core_room[0])
    # Spare those that are not needed, or all; the last of the list is the one that started first.
    for k in range(end - 1, first - 1, -1):
        victim = s.victims[k]
        give_up(s, victim, -1)
        if fits and not choose_nodes(s, jobs, job, s.room[0], s.core_room[0]):
            give_up(s, victim, 1)
        else:
            for later in range(k, end - 1):
                s.victims[later] = s.victims[later + 1]
            end -= 1
    if not fits:
        return -1
    choose_nodes(s, jobs, job, s.room[0], s.core_room[0])
    return end


@compiled
def use_choice(s, jobs, job):
    """Subtract the GPUs and cores chosen for a job from the free ones, and the GPUs from the rest of its quota."""
    s.tenant_left[s.tenant[job]] -= jobs[job].num_gpus
    for k in range(s.num_chosen):
        s.room[0, s.chosen_node[k]] -= s.chosen_gpus[k]
        s.core_room[0, s.chosen_node[k]] -= (jobs[job].cores_each - 1.0) * s.chosen_gpus[k]
