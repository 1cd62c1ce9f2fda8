"""Rankings carried out: one scheduling pass over the jobs in key order at each instant."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import heaps
from gpu_cluster_gym.simulator.kernel.cluster.actions import start, start_on
from gpu_cluster_gym.simulator.kernel.cluster.holding import can_serve
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, PAUSING, ROUNDING, STRICT
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_free
from gpu_cluster_gym.simulator.kernel.cluster.pausing import pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import choose_for_cpu_job, choose_nodes, largest_node
from gpu_cluster_gym.simulator.kernel.cluster.queues import dequeue, enqueue, first_open, open_all
from gpu_cluster_gym.simulator.kernel.rankings.blocked import is_blocked
from gpu_cluster_gym.simulator.kernel.rankings.rivals import gather_rivals

# Stages of a grant: on free GPUs, on those that pauses in flight will free too, on all that are not granted.
FREE, IN_FLIGHT, DISPLACING = 1, 2, 3
GRANTED = -1  # of a GPU: it is closed to further grants


@compiled
def walk_queue(s, jobs):
    """Start, in order, the queued jobs that fit; `strict` stops at the first that does not."""
    open_all(s)
    job = first_open(s)
    while job != NOBODY:
        if not start(s, jobs, job):
            if s.discipline == STRICT:
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
                s.core_room[later - 1, s.gpu_node[gpu]] += s.core_count[job] - 1.0
        slot = s.next_slot[slot]


@compiled
def open_gpus(s, num_candidates):
    """Open to grants the GPUs that are free, in flight, or held by preemption candidates."""
    for stage in range(3):
        for level in range(s.num_levels):
            s.refused[stage, level] = s.num_gpus + 1
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
    """Return the stage from which on a GPU may be granted, 0 for none."""
    if s.open[gpu] == 0:
        return FREE if is_free(s, gpu) else 0
    return max(s.open[gpu], 0)


@compiled
def grant_gpu(s, gpu, cores):
    """Close a GPU to further grants; it goes with so many cores."""
    for stage in range(stage_of(s, gpu), DISPLACING + 1):
        s.room[stage - 1, s.gpu_node[gpu]] -= 1
        s.core_room[stage - 1, s.gpu_node[gpu]] -= cores - 1.0
    s.open[gpu] = GRANTED


@compiled
def lost_a_gpu(s, job):
    """Tell whether one of a running job's GPUs has been granted to another."""
    slot = s.first_slot[job]
    while slot != NOBODY:
        if s.open[slot // MAX_SHARE] <= 0:
            return True
        slot = s.next_slot[slot]
    return False


@compiled
def keeps_its_gpus(s, job):
    """Grant a running job the GPUs it holds, unless one of them is granted already."""
    if lost_a_gpu(s, job):
        return False
    slot = s.first_slot[job]
    while slot != NOBODY:
        grant_gpu(s, slot // MAX_SHARE, s.core_count[job])
        slot = s.next_slot[slot]
    return True


@compiled
def grant_cores(s, jobs, job):
    """Grant a queued CPU job unreserved cores; return the node, or NOBODY."""
    if not choose_for_cpu_job(s, jobs, job, s.core_room[0]):
        return NOBODY
    node = s.chosen_node[0]
    for stage in range(3):
        s.core_room[stage, node] -= jobs[job].cores_each
    return node


@compiled
def is_refused(s, jobs, job, stage):
    """Tell whether as few GPUs on nodes of as little memory have been refused at a stage: rooms only shrink."""
    if s.cpu_limited or jobs[job].num_gpus > largest_node(s, jobs, job):
        return False
    for level in range(s.num_levels):
        if jobs[job].num_gpus >= s.refused[stage - 1, level]:
            return True
        if s.level_memory[level] >= jobs[job].gpu_memory_gib:
            return False
    return False


@compiled
def note_refused(s, jobs, job, stage):
    """Note that a job on one node is refused at a stage, and so is whoever asks for as much or more."""
    if jobs[job].num_gpus > largest_node(s, jobs, job):
        return
    for level in range(s.num_levels):
        if s.level_memory[level] >= jobs[job].gpu_memory_gib:
            s.refused[stage - 1, level] = min(s.refused[stage - 1, level], jobs[job].num_gpus)
            return


@compiled
def fits_at(s, jobs, job, stage):
    """Choose nodes for a job among those GPUs that may be granted at a stage; tell whether it fits."""
    if is_refused(s, jobs, job, stage):
        return False
    if choose_nodes(s, jobs, job, s.room[stage - 1], s.core_room[stage - 1]):
        return True
    note_refused(s, jobs, job, stage)
    return False


@compiled
def grant(s, jobs, job, given):
    """Grant a queued job GPUs at the first stage where the rule places it, written to `gpus[given:]`.

    Returns where its GPUs begin there, the node if it is a CPU job, NOBODY if it got nothing; and the end of `gpus`.
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
    """List a victim, in order among those from `first` on; return the number of all."""
    at = num_victims
    while at > first and heaps.before(s.order, job, s.victims[at - 1]):
        s.victims[at] = s.victims[at - 1]
        at -= 1
    s.victims[at] = job
    return num_victims + 1


@compiled
def settle_before(s, job, num_candidates, num_victims):
    """Grant the candidates that come before a job what they hold; return how many are left, and how many must pause.

    In which order does not matter: no two hold the same GPU.
    """
    first = num_victims
    left = 0
    for k in range(num_candidates):
        rival = s.candidates[k]
        if not heaps.before(s.order, rival, job):
            s.candidates[left] = rival
            left += 1
        elif not keeps_its_gpus(s, rival):
            num_victims = add_victim(s, rival, first, num_victims)
    return left, num_victims


@compiled
def walk_grants(s, jobs, num_candidates):
    """Grant GPUs in key order; return how many queued jobs were granted and how many must pause.

    Granted jobs leave the queue for the list `granted`; those to be displaced are listed in `victims`. Once no queued
    job is left to be asked, a running job keeps its GPUs unless it has lost one.
    """
    num_granted = 0
    num_victims = 0
    given = 0
    closed = False
    job = first_open(s)
    while job != NOBODY:
        before = num_victims
        num_candidates, num_victims = settle_before(s, job, num_candidates, num_victims)
        closed |= num_victims > before and s.discipline == STRICT
        where, end = (NOBODY, given) if closed else grant(s, jobs, job, given)
        if where != NOBODY:
            dequeue(s, jobs, job)
            s.granted[num_granted] = job
            s.granted_from[num_granted] = where
            num_granted += 1
            given = end
        else:
            s.exhausted[jobs[job].request_class] = 1
            closed |= s.discipline == STRICT
        job = first_open(s)
    return num_granted, list_losers(s, num_candidates, num_victims)


@compiled
def list_losers(s, num_candidates, num_victims):
    """List the candidates that have lost a GPU behind the first victims, in order; return the number of all."""
    first = num_victims
    for k in range(num_candidates):
        if lost_a_gpu(s, s.candidates[k]):
            num_victims = add_victim(s, s.candidates[k], first, num_victims)
    return num_victims


@compiled
def all_free(s, gpus):
    """Tell whether no job holds any of these GPUs."""
    for gpu in gpus:
        if s.first_owner[gpu] != NOBODY:
            return False
    return True


@compiled
def has_its_cores(s, jobs, job, gpus, node):
    """Tell whether the cores of a CPU job, or of a job's servers, are still there: others of the pass may have them."""
    if jobs[job].num_gpus > 0:
        return can_serve(s, gpus, jobs[job].num_gpus, jobs[job].servers)
    return jobs[job].cores_each <= s.unreserved_cores[node] + ROUNDING


@compiled
def carry_out(s, jobs, num_granted, num_victims):
    """Pause the victims, then start those granted whose GPUs and cores are all free; the others stay queued."""
    for k in range(num_granted):
        enqueue(s, jobs, s.granted[k])
    for k in range(num_victims):
        pause(s, jobs, s.victims[k])
    for k in range(num_granted):
        job = s.granted[k]
        where = s.granted_from[k]
        gpus = s.gpus[where : where + jobs[job].num_gpus]
        if all_free(s, gpus) and has_its_cores(s, jobs, job, gpus, where):
            start_on(s, jobs, job, gpus, jobs[job].cores_each, where)


@compiled
def start_while_fitting(s, jobs):
    """Start, in order, the queued jobs up to the first that finds no free GPUs; return that one, or NOBODY.

    A pass grants free GPUs first, so that what runs cannot matter before a job finds none.
    """
    job = first_open(s)
    while job != NOBODY and start(s, jobs, job):
        job = first_open(s)
    return job


@compiled
def count_pausing(s):
    """Count the jobs whose pause is in flight."""
    count = 0
    for k in range(s.num_active):
        count += s.phase[s.events[k]] == PAUSING
    return count


@compiled
def walk_all(s, jobs):
    """One scheduling pass of a preemptive ranking over queued and running jobs."""
    open_all(s)
    head = start_while_fitting(s, jobs)
    while head != NOBODY and is_blocked(s, jobs, head):
        s.exhausted[jobs[head].request_class] = 1
        head = start_while_fitting(s, jobs)
    if head == NOBODY:
        return
    num_candidates = gather_rivals(s, jobs, head)
    if num_candidates == 0 and count_pausing(s) == 0:
        walk_queue(s, jobs)
        return
    open_gpus(s, num_candidates)
    num_granted, num_victims = walk_grants(s, jobs, num_candidates)
    carry_out(s, jobs, num_granted, num_victims)
