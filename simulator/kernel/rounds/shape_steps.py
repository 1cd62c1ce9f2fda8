"""AITurbo's shapes: the step that saves each predictable job most, CPU workers for long waits, the order by votes."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SERVERS, NOBODY, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.queues import remaining_now
from gpu_cluster_gym.simulator.kernel.rounds.shape_memory import (
    AS_TOLD,
    FIRST,
    LAST,
    NEITHER,
    NO_JOB,
    cores_now,
    form_now,
    gpus_now,
    since_banked,
)
from gpu_cluster_gym.simulator.kernel.rule.ways import seconds_of

GPU_SERVICE, CORES_SERVICE = 10.0, 5.0  # of a GPU, and of a server's or CPU worker's 5 cores (Aiturbo-vGPU)
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # of workers and servers


@compiled
def note_shapes(s, m):
    """Note what jobs have on GPUs, or will have, as what they are to have; at first it is what they ask for."""
    for k in range(m.num_present):
        job = m.present[k]
        if gpus_now(s, job) > 0:
            form = form_now(s, job)
            m.wanted_workers[job], m.wanted_servers[job] = form.workers, form.servers


@compiled
def is_adjusted(s, m, job):
    """Tell whether a job may be given another size."""
    return m.adjusts != NO_JOB and (m.adjusts != AS_TOLD or s.predictable[job] > 0)


@compiled
def may_use_cores(s, jobs, m, job):
    """Tell whether a job may be on CPU workers, now or next."""
    off_gpus = s.phase[job] == QUEUED or s.node_of[job] != NOBODY
    return m.cpu_workers > 0 and off_gpus and jobs[job].cpu_slowdown > 0


@compiled
def iteration_as_asked(jobs, job):
    """Return the seconds of an iteration in the shape that a job asks for."""
    return seconds_of(jobs, job, jobs[job].num_gpus, jobs[job].servers, 0.0)


@compiled
def service(m, workers, servers, crowded):
    """Return the service that a shape takes in a second; 1 while no job waits."""
    if not crowded:
        return 1.0
    return GPU_SERVICE * workers + (GPU_SERVICE if m.apart else CORES_SERVICE) * servers


@compiled
def is_possible(s, jobs, m, job, workers, servers):
    """Tell whether a job may have so many workers and servers in place of what it is to have."""
    if not jobs[job].min_workers <= workers <= jobs[job].max_workers:
        return False
    if workers + (servers if m.apart else 0) > s.num_gpus:
        return False
    return 0 < servers <= MAX_SERVERS if m.wanted_servers[job] > 0 else servers == 0


@compiled
def saved_by(s, jobs, m, job, step, crowded):
    """Return the service that a step saves, less what its restart takes if the job runs; -inf if it cannot be.

    saved = iterations x (seconds x service before - seconds x service after) - (pause x before + load x after)
    """
    workers, servers = np.int64(m.wanted_workers[job]), np.int64(m.wanted_servers[job])
    to_workers, to_servers = workers + STEPS[step][0], servers + STEPS[step][1]
    if not is_possible(s, jobs, m, job, to_workers, to_servers):
        return -np.inf
    iterations = remaining_now(s, jobs, job) / iteration_as_asked(jobs, job)
    price = service(m, workers, servers, crowded)
    new_price = service(m, to_workers, to_servers, crowded)
    cost = iterations * seconds_of(jobs, job, workers, servers, 0.0) * price
    new_cost = iterations * seconds_of(jobs, job, max(to_workers, 1), to_servers, 0.0) * new_price
    restart = jobs[job].pause_s * price + jobs[job].load_s * new_price
    return cost - new_cost - restart * (s.phase[job] == RUNNING)


@compiled
def take_step(s, jobs, m, job, crowded):
    """Find the step of a job that saves most, the first of equals, and settle on it where it pays."""
    best, chosen = -np.inf, 0
    for step in range(len(STEPS)):
        saved = saved_by(s, jobs, m, job, step, crowded)
        if not saved <= best:  # nan, where the model is at fault, is never a step
            best, chosen = saved, step
        if np.isnan(best):
            break
    m.benefit[job] = best if best > -np.inf else np.nan
    if best > 0:
        m.wanted_workers[job] += STEPS[chosen][0]
        m.wanted_servers[job] += STEPS[chosen][1]


@compiled
def take_steps(s, jobs, m):
    """Let every job that may be adjusted take its best step."""
    crowded = False
    for k in range(m.num_present):
        crowded |= jobs[m.present[k]].num_gpus > 0 and s.phase[m.present[k]] == QUEUED
    for k in range(m.num_present):
        job = m.present[k]
        m.benefit[job] = np.nan
        if jobs[job].num_gpus > 0 and is_adjusted(s, m, job):
            take_step(s, jobs, m, job, crowded)


@compiled
def weigh_cores(s, jobs, m, job):
    """Let a job have CPU workers where that is worth a restart, and leave them where not.

    An iteration there may take as long as would be lost by a restart: waited / restart x its seconds as asked.
    """
    workers, servers = np.int64(m.wish_workers[job]), np.int64(m.wish_servers[job])
    as_asked = iteration_as_asked(jobs, job)
    restart_s = jobs[job].pause_s + jobs[job].load_s
    waited_s = (s.clock - s.phase_began[job]) * (s.phase[job] == QUEUED)
    bearable_s = waited_s / max(restart_s, 1e-9) * as_asked
    if bearable_s > seconds_of(jobs, job, workers, servers, 1.0):
        m.bearable_s[job] = bearable_s
    if s.node_of[job] == NOBODY:
        return
    here = form_now(s, job)
    on_cpu = 1.0 if here.on_cpu else 0.0
    slower = seconds_of(jobs, job, here.workers, here.servers, on_cpu) - seconds_of(
        jobs, job, workers, servers, 0.0
    )
    pays = remaining_now(s, jobs, job) / as_asked * slower > restart_s
    m.own_shape[job] = LAST if pays else FIRST


@compiled
def wish_steps(s, jobs, m):
    """Note which shapes would do for each job: what it is to have; fewer workers if it may be adjusted; CPU workers."""
    for k in range(m.num_present):
        job = m.present[k]
        if jobs[job].num_gpus == 0:
            continue
        workers = m.wanted_workers[job]
        m.wish_workers[job], m.wish_servers[job] = workers, m.wanted_servers[job]
        m.least[job] = min(jobs[job].min_workers, workers) if is_adjusted(s, m, job) else workers
        m.bearable_s[job], m.own_shape[job] = 0.0, NEITHER
        if may_use_cores(s, jobs, m, job):
            weigh_cores(s, jobs, m, job)


@allocating
def places_of(values):
    """Return the place of each value, 0 for the least; of equal ones the first comes first."""
    place = np.empty(len(values), np.int64)
    order = np.argsort(values, kind="mergesort")
    for k in range(len(order)):
        place[order[k]] = k
    return place


@compiled
def attained_service(s, job):
    """Return the service that a job has had so far."""
    gpu_s = s.run_gpu_s[job] + s.lost_gpu_s[job] + s.width[job] * since_banked(s, job)
    core_s = s.core_s[job] + cores_now(s, job) * max(s.width[job], 1) * (s.clock - s.counted[job])
    return GPU_SERVICE * gpu_s + core_s


@allocating
def order_by_votes(s, m):
    """Put jobs, which come by number, in the order of their points: places by least service and by most benefit.

    A job without a benefit has its first vote twice. Of equal points the earlier job comes first.
    """
    count, voters = m.num_order, 0
    attained, benefit = np.empty(count), np.empty(count)
    for k in range(count):
        job = m.order[k]
        attained[k] = attained_service(s, job)
        if m.votes and np.isfinite(m.benefit[job]):
            benefit[voters] = -m.benefit[job]
            voters += 1
    first, second = places_of(attained), places_of(benefit[:voters])
    points, voter = np.empty(count), 0
    for k in range(count):
        points[k] = first[k] + first[k]
        if m.votes and np.isfinite(m.benefit[m.order[k]]):
            points[k] = first[k] + float(second[voter] * (count - 1)) / max(voters - 1, 1)
            voter += 1
    jobs = m.order[:count].copy()
    by_points = np.argsort(points, kind="mergesort")
    for k in range(count):
        m.order[k] = jobs[by_points[k]]
