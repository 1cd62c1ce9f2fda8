"""Starts in a given order: which job starts next on free GPUs, and which jobs are paused for it.

A queued job starts where the placement rule puts it. If it does not fit, it waits for GPUs of a node that
pauses in flight will free. If those do not suffice, the fewest jobs that come after it are paused, the last in
order among equals.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_GROUPS, NOBODY, PAUSING, QUEUED
from gpu_cluster_gym.simulator.kernel.cluster.legality import Seat, why_no_start
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.pausing import may_pause
from gpu_cluster_gym.simulator.kernel.cluster.placement import holding_groups, place
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_asked, cores_of_servers, resolved_shape
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_be_displaced_for, most_gpus
from gpu_cluster_gym.simulator.kernel.rankings.room import Pool, find_room, holding_nodes, is_offered

# State of a pass: position in the order, GPUs and victims of the last start found, number of hopeless requests.
AT, GPUS, VICTIMS, HOPELESS = range(4)


@compiled
def place_on(s, jobs, job, gpus):
    """Place a job on `gpus` GPUs by the rule, with the cores it asks for in that shape; return whether it fits."""
    asked, asked_cores = jobs[job].num_gpus, jobs[job].cores_each
    workers, servers = resolved_shape(jobs, job, gpus, 0, -1)
    cores = cores_asked(jobs, job, gpus, workers, servers)
    # The placement rules read the request from the job: change it for this call only.
    jobs[job].num_gpus, jobs[job].cores_each = gpus, cores
    fits = place(s, jobs, job)
    jobs[job].num_gpus, jobs[job].cores_each = asked, asked_cores
    return fits


@compiled
def note_who_runs(s, jobs, order, runs, pausing):
    """Record which jobs of an order may be paused: those whose pause frees GPUs now; none unless `pausing`."""
    for k in range(len(order)):
        job = order[k]
        runs[k] = pausing and may_pause(s, job) and jobs[job].num_gpus > 0 and is_alone(s, job)


@compiled
def class_of(s, jobs, job, gpus):
    """Return a job's request: GPUs, cores per GPU, and as one number its tenant and the nodes that can hold it."""
    groups = holding_groups(s, jobs, job)
    return float(gpus), jobs[job].cores_each, float(groups + (s.tenant[job] << MAX_GROUPS))


@compiled
def is_hopeless(hopeless, count, asked):
    """Return whether an equal request has been refused in this pass."""
    for k in range(count):
        if hopeless[k, 0] == asked[0] and hopeless[k, 1] == asked[1] and hopeless[k, 2] == asked[2]:
            return True
    return False


@allocating
def cores_coming(s, jobs):
    """Return the unreserved cores of each node after pauses in flight have ended and reserved jobs have started."""
    if not s.cpu_limited:
        return np.full(s.num_nodes, np.inf)
    cores = s.unreserved_cores[: s.num_nodes].copy()
    for gpu in range(s.num_gpus):
        change = 0.0
        holder = s.first_owner[gpu]
        if holder != NOBODY and s.phase[holder] == PAUSING:
            change = s.core_count[holder] - 1  # one core per GPU stays with the GPU
        if s.reserved_for[gpu] >= 0:
            change -= jobs[s.reserved_for[gpu]].cores_each - 1
        cores[s.gpu_node[gpu]] += change
    return cores


@allocating
def pool_of(s, jobs, job, after):
    """Return the GPUs and cores that pauses could free for a job. after: jobs that may be paused, the last first."""
    offered, left = np.zeros(s.num_arrived, np.bool_), np.zeros(s.num_arrived)
    for k in range(len(after)):
        offered[after[k]] = may_be_displaced_for(s, after[k], job)
        left[after[k]] = k
    most = most_gpus(s, jobs, job)
    return Pool(offered, np.ones(s.num_arrived), left, cores_coming(s, jobs), True, most, s.tenant[job])


@compiled
def may_free_any(s, pool):
    """Return whether some job is pausing, or may be paused."""
    for k in range(s.num_active):
        if s.phase[s.events[k]] == PAUSING:
            return True
    for gpu in range(s.num_gpus):
        if is_offered(s, pool, gpu):
            return True
    return False


@allocating
def make_room(s, jobs, job, gpus, after, able):
    """Find GPUs for a job on the nodes `able`; return the number of jobs to pause, -1 if there is no solution.

    Its GPUs are written to the record's `gpus` in ascending order, and the jobs to pause to `victims`.
    """
    if gpus == 0:
        return -1
    pool = pool_of(s, jobs, job, after)
    if not may_free_any(s, pool):
        return -1
    count = find_room(s, pool, able, gpus, jobs[job].cores_each, s.victims, s.gpus)[0]
    if count >= 0:
        s.gpus[:gpus].sort()
    return count


@compiled
def why_no_start_there(s, jobs, job, gpus):
    """Return 0 if a job may start on the first elements of `gpus`; GPUs beyond one per worker are for servers."""
    workers, servers = 0, -1
    if gpus != jobs[job].num_gpus:
        workers, servers = jobs[job].num_gpus, max(gpus - jobs[job].num_gpus, 0)
    return why_no_start(s, jobs, job, Seat(s.gpus[:gpus], 0.0, NOBODY, workers, servers))


@compiled
def drop_victims(s, order, runs, count):
    """Remove the jobs to be paused from those that may be paused."""
    for k in range(len(order)):
        for v in range(count):
            if order[k] == s.victims[v]:
                runs[k] = False


@allocating
def running_after(order, runs, at):
    """Return the jobs behind a position of the order that may be paused."""
    found, count = np.empty(len(order), np.int64), 0
    for k in range(at + 1, len(order)):
        if runs[k]:
            found[count] = order[k]
            count += 1
    return found[:count]


@allocating
def find_grant(s, jobs, order, wanted, runs, hopeless, progress):
    """Find the next start of a pass and the jobs to pause for it; return the job, or NOBODY at the end of the pass.

    order: jobs in order.
    wanted: number of GPUs for each.
    runs: whether each may be paused.
    hopeless: scratch, (jobs, 3).
    progress: state of the pass and its last result.

    The moves must be made before the next call.
    """
    while progress[AT] < len(order):
        at = progress[AT]
        job, gpus = order[at], wanted[at]
        progress[AT] += 1
        if s.phase[job] != QUEUED or s.last_action_instant[job] == s.instant:
            continue
        asked = class_of(s, jobs, job, gpus)
        if is_hopeless(hopeless, progress[HOPELESS], asked):
            continue
        progress[GPUS], progress[VICTIMS] = gpus, 0
        if place_on(s, jobs, job, gpus):
            return job
        count = make_room(s, jobs, job, gpus, running_after(order, runs, at), holding_nodes(s, jobs, job))
        # All GPUs are free or will be after pauses in flight, but the job may not reserve them yet.
        is_too_early = count == 0 and why_no_start_there(s, jobs, job, gpus) > 0
        if count >= 0 and not is_too_early:
            progress[VICTIMS] = count
            drop_victims(s, order, runs, count)
            return job
        for k in range(3):
            hopeless[progress[HOPELESS], k] = asked[k]
        progress[HOPELESS] += 1
    return NOBODY


@compiled
def place_first(s, jobs, order, cores):
    """Place the first of these queued jobs that fits, and return it; see `first_that_fits`."""
    s.exhausted[: s.num_classes] = 0
    for job in order:
        request_class = jobs[job].request_class
        if s.exhausted[request_class] or jobs[job].num_gpus > s.num_free:
            continue
        if s.last_action_instant[job] == s.instant:
            continue
        asked = jobs[job].cores_each
        if cores > 0 and jobs[job].num_gpus > 0:
            jobs[job].cores_each = cores + cores_of_servers(
                jobs[job].servers, jobs[job].num_gpus, jobs[job].num_gpus
            )
        fits = place(s, jobs, job)
        jobs[job].cores_each = asked
        if fits:
            return job
        s.exhausted[request_class] = cores == 0
    return NOBODY


@entry
def first_that_fits(states, e, jobs, order, cores):
    """Place the first of these queued jobs that fits, as `calls.place` does, and return it, or NOBODY.

    cores: CPU cores to feed each GPU, its servers' in addition; 0 for those that each job asks for. If a job
    does not fit with the cores it asks for, its request class is skipped.
    """
    return place_first(states[e], jobs, order, cores)
