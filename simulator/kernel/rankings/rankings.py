"""The active ranking: take it on, carry it out at an instant, and run it to the end of an episode."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import queues
from gpu_cluster_gym.simulator.kernel.cluster.actions import start, start_on
from gpu_cluster_gym.simulator.kernel.cluster.events import advance
from gpu_cluster_gym.simulator.kernel.cluster.holding import can_serve
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    BY_ORDER,
    EASY,
    IF_IT_PAYS,
    MAX_SHARE,
    MOST_BLOCKED,
    NOBODY,
    PAUSING,
    ROUNDING,
    RUNNING,
    STRICT,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone, is_free, is_on_closed
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import HAIR, is_by_time, most_left, tighten
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause, pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import (
    can_hold,
    choose_for_cpu_job,
    choose_nodes,
    largest_node,
)
from gpu_cluster_gym.simulator.kernel.cluster.queues import (
    LEAST_SHARE,
    attained_now,
    dequeue,
    enqueue,
    first_open,
    open_all,
    order_of,
    remaining_now,
    reorder,
)
from gpu_cluster_gym.simulator.kernel.rankings.cost_aware import walk_paying
from gpu_cluster_gym.simulator.kernel.rankings.easy import walk_easy


@compiled
def walk(s, jobs):
    """Carry out the active ranking at this instant."""
    if s.num_queued == 0:
        return
    if s.preempt == IF_IT_PAYS:
        walk_paying(s, jobs)
    elif s.preempt == BY_ORDER:
        if s.pooled:
            walk_pool(s, jobs)
        else:
            walk_all(s, jobs)
    elif s.discipline == EASY:
        walk_easy(s, jobs)
    else:
        walk_queue(s, jobs)


@compiled
def adopt(s, jobs, key, exponent, margin, preempt):
    """Take on another rule."""
    s.key = key
    s.exponent = exponent
    s.margin = margin
    s.preempt = preempt
    reorder(s, jobs)


@compiled
def run_rule(s, jobs):
    """Carry out the active ranking from here until every job is done."""
    while s.num_done < s.num_jobs:
        if not advance(s, jobs):
            return False
        walk(s, jobs)
    return True


# FROM simulator/kernel/rankings/rankings.py
# Rankings carried out: one scheduling pass over the jobs in key order at each instant.


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
    while at > first and queues.before(s.order, job, s.victims[at - 1]):
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
        if not queues.before(s.order, rival, job):
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


# FROM simulator/kernel/rankings/rivals.py
# Rivals of the queue: the running jobs that a pass of a preemptive ranking may displace.


@compiled
def is_rival(s, jobs, head, job):
    """Tell whether an active job comes after `head` and may be paused for it; its key is written down."""
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
        tighten(s, jobs, node)
    return count


@compiled
def gather_rivals(s, jobs, head):
    """Collect the running jobs that come after `head`, the first in the queue; return their number.

    Those before it keep their GPUs whatever happens, as does a loading job, one beside another, one on a node that is
    closed, one without GPUs, and one that was started at this very instant.
    """
    count = 0
    if is_by_time(s) and not s.pooled:
        for node in range(s.num_nodes):
            if most_left(s, node) >= s.order[head]:
                count = gather_on(s, jobs, head, node, count)
        return count
    for k in range(s.num_active):
        if is_rival(s, jobs, head, s.events[k]):
            s.candidates[count] = s.events[k]
            count += 1
    return count


# FROM simulator/kernel/rankings/blocked.py
# Heads of the queue for which a pass has found no room, and would find none again.
#
# Under a ranking by remaining time a queued job's key is constant, and those of running jobs fall. So a job that found
# too few GPUs on every node, counting all that are not held by a job that comes before it, waits until a node changes: a
# job releases GPUs there, begins to pause, or has another pace. Nodes are stamped when that happens (`mark_node`), and
# only those with a new stamp are looked at again. Estimates that have been exceeded rise with what was attained, so that
# a finding about them holds for `LOOK_AHEAD` only.


LOOK_AHEAD = 300.0  # s


@compiled
def is_remembered(s, jobs, job):
    """Tell whether what is found about a queued job may be remembered: it wants GPUs, and cores do not count."""
    return (
        is_by_time(s)
        and not s.cpu_limited
        and s.discipline != STRICT
        and jobs[job].request_class < MOST_BLOCKED
        and jobs[job].num_gpus > 0
    )


@compiled
def comes_before(s, jobs, job, key):
    """Tell whether a running job surely comes before one with this key, now and for the time to look ahead."""
    left = remaining_now(s, jobs, job)
    if not s.exact:
        left = max(left, LEAST_SHARE * (attained_now(s, job) + s.rate[job] * LOOK_AHEAD))
    return left + HAIR < key


@compiled
def room_on(s, jobs, job, node):
    """Count the GPUs of a node that a queued job may get at most: all but those of jobs that come before it."""
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
    """Tell whether a node that has changed since a stamp may have room for a gang that fits one node."""
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
    """Tell whether there may be room for a gang that takes whole nodes, and a part of one more."""
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
    """Tell whether the first queued job of its class surely gets no GPUs in this pass; remember it if so."""
    if not is_remembered(s, jobs, job):
        return False
    at = jobs[job].request_class
    known = s.blocked_job[at] == job and s.blocked_key[at] == s.order[job] and s.clock <= s.blocked_until[at]
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


# FROM simulator/kernel/rankings/pooled_gpus.py
# Preemptive rankings where node borders do not matter: the same walk by counts alone.


@compiled
def not_granted_yet(s, jobs, num_rivals):
    """GPUs that are free, in flight, or held by preemption candidates."""
    count = s.num_free
    for k in range(s.num_active):
        if s.phase[s.events[k]] == PAUSING:
            count += s.width[s.events[k]]
    for k in range(num_rivals):
        count += s.width[s.candidates[k]]
    return count


@compiled
def next_in_order(s, num_rivals):
    """Return the next job of the pass, queued or a rival, or NOBODY; the rivals are a heap."""
    job = first_open(s)
    if num_rivals > 0 and (job == NOBODY or queues.before(s.order, s.candidates[0], job)):
        return s.candidates[0]
    return job


@compiled
def walk_counts(s, jobs, num_rivals):
    """Grant counts of GPUs in key order; return how many queued jobs were granted and how many must pause."""
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
    """One walk of a preemptive ranking over a pool of GPUs."""
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
        budget -= jobs[job].num_gpus
        if budget >= 0:
            start(s, jobs, job)
