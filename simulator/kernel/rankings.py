"""Rankings carried out: one scheduling pass over the jobs in key order at each instant."""

from simulator.kernel import heaps
from simulator.kernel._compile import compiled
from simulator.kernel.actions import start, start_on
from simulator.kernel.holding import can_serve
from simulator.kernel.layout import MAX_SHARE, NOBODY, PAUSING, ROUNDING, RUNNING, STRICT
from simulator.kernel.machines import is_alone, is_free, is_on_closed
from simulator.kernel.pausing import may_pause, pause
from simulator.kernel.placement import choose_for_cpu_job, choose_nodes
from simulator.kernel.queues import dequeue, enqueue, first_open, open_all, order_of

# Stages of a grant: on free GPUs, on those that pauses in flight will free too, on all that are not granted.
FREE, IN_FLIGHT, DISPLACING = 1, 2, 3


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
def gather_rivals(s, jobs, head):
    """Collect as a heap the running jobs that come after `head`, the first in the queue; return their number.

    Those before it keep their GPUs whatever happens, as does a loading job, one beside another, one on a node that is
    closed, one without GPUs, and one that was started at this very instant.
    """
    count = 0
    for k in range(s.num_active):
        job = s.events[k]
        if not may_pause(s, job) or s.width[job] == 0 or not is_alone(s, job):
            continue
        if not (s.failing and is_on_closed(s, job)):
            s.order[job] = order_of(s, jobs, job)
            if heaps.before(s.order, head, job):
                heaps.push(s.candidates, 0, count, s.place_in_queue, s.order, job)
                count += 1
    return count


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
    for node in range(s.num_nodes):
        for stage in range(3):
            s.room[stage, node] = s.free[node]
            s.core_room[stage, node] = s.unreserved_cores[node]
    for gpu in range(s.num_gpus):
        s.open[gpu] = FREE if is_free(s, gpu) else 0
    for k in range(s.num_active):
        if s.phase[s.events[k]] == PAUSING:
            offer(s, s.events[k], IN_FLIGHT)
    for k in range(num_candidates):
        offer(s, s.candidates[k], DISPLACING)


@compiled
def grant_gpu(s, gpu, cores):
    """Close a GPU to further grants; it goes with so many cores."""
    for stage in range(s.open[gpu], DISPLACING + 1):
        s.room[stage - 1, s.gpu_node[gpu]] -= 1
        s.core_room[stage - 1, s.gpu_node[gpu]] -= cores - 1.0
    s.open[gpu] = 0


@compiled
def keeps_its_gpus(s, job):
    """Grant a running job the GPUs it holds, unless one of them is granted already."""
    slot = s.first_slot[job]
    while slot != NOBODY:
        if s.open[slot // MAX_SHARE] == 0:
            return False
        slot = s.next_slot[slot]
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
def grant(s, jobs, job, given):
    """Grant a queued job GPUs at the first stage where the rule places it, written to `gpus[given:]`.

    Returns where its GPUs begin there, the node if it is a CPU job, NOBODY if it got nothing; and the end of `gpus`.
    """
    begin = given
    if jobs[job].num_gpus == 0:
        return grant_cores(s, jobs, job), given
    for stage in range(FREE, DISPLACING + 1):
        if not choose_nodes(s, jobs, job, s.room[stage - 1], s.core_room[stage - 1]):
            continue
        for k in range(s.num_chosen):
            gpu = s.node_first[s.chosen_node[k]]
            still = s.chosen_gpus[k]
            while still > 0:
                if 0 < s.open[gpu] <= stage:
                    grant_gpu(s, gpu, jobs[job].cores_each)
                    s.gpus[given] = gpu
                    given += 1
                    still -= 1
                gpu += 1
        return begin, given
    return NOBODY, given


@compiled
def next_in_order(s, num_candidates):
    """Return the next job of the pass, queued or a candidate, or NOBODY."""
    job = first_open(s)
    if num_candidates > 0 and (job == NOBODY or heaps.before(s.order, s.candidates[0], job)):
        return s.candidates[0]
    return job


@compiled
def walk_grants(s, jobs, num_candidates):
    """Grant GPUs in key order; return how many queued jobs were granted and how many must pause.

    Granted jobs leave the queue for the list `granted`; those to be displaced are listed in `victims`.
    """
    num_granted = 0
    num_victims = 0
    given = 0
    closed = False
    job = next_in_order(s, num_candidates)
    while job != NOBODY:
        if s.phase[job] == RUNNING:
            heaps.remove(s.candidates, 0, num_candidates, s.place_in_queue, s.order, job)
            num_candidates -= 1
            granted = keeps_its_gpus(s, job)
            if not granted:
                s.victims[num_victims] = job
                num_victims += 1
        else:
            where, end = (NOBODY, given) if closed else grant(s, jobs, job, given)
            granted = where != NOBODY
            if granted:
                dequeue(s, jobs, job)
                s.granted[num_granted] = job
                s.granted_from[num_granted] = where
                num_granted += 1
                given = end
            else:
                s.exhausted[jobs[job].request_class] = 1
        if not granted and s.discipline == STRICT:
            closed = True
        job = next_in_order(s, num_candidates)
    return num_granted, num_victims


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
    if head == NOBODY:
        return
    num_candidates = gather_rivals(s, jobs, head)
    if num_candidates == 0 and count_pausing(s) == 0:
        walk_queue(s, jobs)
        return
    open_gpus(s, num_candidates)
    num_granted, num_victims = walk_grants(s, jobs, num_candidates)
    carry_out(s, jobs, num_granted, num_victims)
