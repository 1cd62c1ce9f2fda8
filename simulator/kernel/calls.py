"""Functions that Python calls: each takes the records, the index of one, and the jobs, and changes the record in place.

Passing an array and an index is cheap if its dtype is the very object that `cluster/layout.py` returns; an
equal dtype is compared field by field at each call. Passing a record is slow.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import (
    actions,
    bounds,
    events,
    legality,
    outages,
    pausing,
    speed,
)
from gpu_cluster_gym.simulator.kernel.cluster.events import HORIZON, step_cost
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.placement import place as place_job
from gpu_cluster_gym.simulator.kernel.cluster.progress import plan as plan_next_event
from gpu_cluster_gym.simulator.kernel.cluster.queues import (
    attained_now,
    cost_to_finish,
    loading_time,
    open_all,
    order_of,
    ran_now,
    remaining_now,
    reorder,
)
from gpu_cluster_gym.simulator.kernel.rankings import cost_aware, easy, rankings


@entry
def begin(states, e, jobs):
    """Activate the ranking set in a new record, and initialise what depends on the machines."""
    s = states[e]
    speed.set_iterations(s, jobs)
    reorder(s, jobs)
    outages.lay_out_outages(s)


@entry
def advance(states, e, jobs):
    """Advance to the next instant; return whether there was one."""
    return events.advance(states[e], jobs)


@entry
def advance_past_ticks(states, e, jobs):
    """Advance to the next instant with more than a tick; return whether there was one."""
    return events.advance_past_ticks(states[e], jobs)


@entry
def next_event(states, e, jobs):
    """Return the next time at which something happens by itself; infinity if nothing is pending."""
    return events.next_event(states[e], jobs)


@entry
def walk(states, e, jobs):
    """Carry out the active ranking at this instant."""
    rankings.walk(states[e], jobs)


@entry
def adopt(states, e, jobs, key, exponent, margin, preempt):
    """Make another ranking the active one."""
    rankings.adopt(states[e], jobs, key, exponent, margin, preempt)


@entry
def keys(states, e, jobs, some, out):
    """Write the key of each of some jobs under the active ranking."""
    for k in range(len(some)):
        out[k] = order_of(states[e], jobs, some[k])


@entry
def worth(states, e, jobs, job, margin, victims):
    """Return the worth of displacing running jobs for a queued job, which pays above 1; see `cost_aware.worth`."""
    s = states[e]
    for k in range(len(victims)):
        s.victims[k] = victims[k]
        s.left[victims[k]] = remaining_now(s, jobs, victims[k])
    return cost_aware.worth(s, jobs, cost_to_finish(s, jobs, job), margin, 0, len(victims))


@entry
def shadow(states, e, jobs, head):
    """Return the time at which EASY expects a job that does not fit to start."""
    return easy.find_shadow(states[e], jobs, head)


@entry
def run_rule(states, e, jobs):
    """Carry out the active ranking to the end; return whether every job finished."""
    return rankings.run_rule(states[e], jobs)


@entry
def step_until(states, e, jobs, time):
    """Carry out the active ranking at the next instant with an event if it is before a time; return whether it was."""
    return rankings.step_until(states[e], jobs, time)


@entry
def replan(states, e, jobs):
    """Schedule the next event of each running job again, after levels were set."""
    s = states[e]
    for job in range(s.num_arrived):
        if s.phase[job] == RUNNING:
            plan_next_event(s, jobs, job)


@compiled
def cost_from(s, jobs, origin, tau):
    """Carry out the active ranking from this instant on; return the discounted job-seconds."""
    cost = 0.0
    rankings.walk(s, jobs)
    while s.num_done < s.num_jobs and s.clock - origin < HORIZON * tau:
        step = step_cost(s, jobs, origin, tau)
        if step < 0:
            break
        cost += step
        rankings.walk(s, jobs)
    return cost


@entry
def rollout(states, e, jobs, tau):
    """Carry out the active ranking from this instant on; return the discounted integral of the number of jobs present.

    The integral of exp(-(u - now) / tau) n(u) du in job-seconds, cut at 4 tau. With infinite tau it is the
    undiscounted integral to the end, so that its differences are differences of total JCT.
    """
    s = states[e]
    return cost_from(s, jobs, s.clock, tau)


@entry
def advantage(states, e, scratch, jobs, job, tau):
    """Return the discounted job-seconds saved by picking `job` (-1: waiting) now, over following the active ranking.

    Both futures are simulated from here on the record `scratch`: the ranking alone, and the pick followed by
    the ranking.
    """
    source = states[e : e + 1]
    target = states[scratch : scratch + 1]
    s = states[scratch]
    origin = states[e].clock
    target[:] = source
    alone = cost_from(s, jobs, origin, tau)
    target[:] = source
    cost = 0.0
    if job == NOBODY:
        cost = max(step_cost(s, jobs, origin, tau), 0.0)
    else:
        cost_aware.pick(s, jobs, job)
    return alone - (cost + cost_from(s, jobs, origin, tau))


@entry
def place(states, e, jobs, job, gpus, cores):
    """Place a job by the placement rule on `gpus` GPUs with `cores` cores per GPU; return whether it fits.

    The first elements of the record's `gpus` are then its GPUs; for a CPU job `chosen_node[0]` is its node.
    """
    asked, asked_cores = jobs[job].num_gpus, jobs[job].cores_each
    jobs[job].num_gpus, jobs[job].cores_each = gpus, cores
    fits = place_job(states[e], jobs, job)
    jobs[job].num_gpus, jobs[job].cores_each = asked, asked_cores
    return fits


@entry
def cores_asked(states, e, jobs, job, count, workers, servers):
    """Return the cores that a job asks for in a shape, per GPU, or in total without GPUs."""
    workers, servers = speed.resolved_shape(jobs, job, count, workers, servers)
    return speed.cores_asked(jobs, job, count, workers, servers)


@entry
def start_as(states, e, jobs, job, seat, claim):
    """Start a queued job in a seat (`legality.Seat`), or reserve GPUs that pausing jobs hold, with a claim any jobs."""
    s = states[e]
    workers, servers, cores = resolved_seat(s, jobs, job, seat)
    actions.start_as(s, jobs, job, seat.gpus, workers, servers, cores, seat.node, claim)


@entry
def move(states, e, jobs, job, seat):
    """Pause a running job so that it resumes in a seat."""
    s = states[e]
    workers, servers, cores = resolved_seat(s, jobs, job, seat)
    actions.move(s, jobs, job, seat.gpus, workers, servers, cores, seat.node)


@compiled
def resolved_seat(s, jobs, job, seat):
    """Return the workers, servers and cores of a seat, filling in what it leaves open."""
    gpus, cores = len(seat.gpus), seat.cores
    workers, servers = speed.resolved_shape(jobs, job, gpus, seat.workers, seat.servers)
    if cores == 0 or not s.cpu_limited:
        cores = speed.cores_asked(jobs, job, gpus, workers, servers)
    return workers, servers, cores


@entry
def iterations(states, e, jobs, job, shapes, out):
    """Write the seconds of an iteration in several shapes, alone on V100s of one node, with plenty of cores.

    shapes: int64 (shapes, 3): workers, servers, and 1 if workers are on CPU cores.
    out: float64 (shapes,).
    """
    s = states[e]
    for k in range(len(shapes)):
        workers, servers = shapes[k, 0], shapes[k, 1]
        if shapes[k, 2]:
            out[k] = speed.iteration_on_cpu(s, jobs, job, workers, servers)
        else:
            fed = speed.Setting(workers, servers, 1, speed.PLENTY_OF_CORES)
            out[k] = speed.iteration_time(s, jobs, job, fed, speed.UNDISTURBED)


@entry
def fastest(states, e, jobs, out):
    """Write the minimum seconds of each job: start-up, and its duration at the maximum speed of any shape."""
    capacity = bounds.node_capacity(states[e])
    for job in range(states[e].num_jobs):
        rate = bounds.max_rate(states[e], jobs, job, capacity)
        out[job] = jobs[job].startup_s + jobs[job].duration_s / rate


@entry
def drawn_by_each(states, e, jobs, some, out):
    """Write the host-memory bandwidth of some jobs, GB/s: demanded per GPU while running, else as requested."""
    s = states[e]
    for k in range(len(some)):
        job = some[k]
        on_gpus = s.width[job] > 0 and s.phase[job] == RUNNING
        out[k] = speed.drawn_by_each(s, jobs, job) if on_gpus else jobs[job].gbs_each


@entry
def min_resources(states, e, jobs, slowdown, on_gpus, on_cores, without_gpus):
    """Write the minimum resources of each job per second of progress.

    slowdown: of its computing by co-located jobs.
    on_gpus: (jobs, types), GPU-seconds.
    on_cores: (jobs,), core-seconds with GPUs; infinity if it cannot have GPUs.
    without_gpus: (jobs,), core-seconds without GPUs; infinity if it must have GPUs.
    """
    s = states[e]
    capacity = bounds.node_capacity(s)
    for job in range(s.num_jobs):
        alone = np.inf
        for kind in range(on_gpus.shape[1]):
            by_type = 1.0 / jobs[job].type_speed[kind] if s.typed else 1.0
            on_gpus[job, kind] = bounds.min_gpu_seconds(s, jobs, job, slowdown * by_type, capacity)
            alone = min(alone, bounds.min_gpu_seconds(s, jobs, job, by_type, capacity))
        on_cores[job], without_gpus[job] = bounds.min_core_seconds(s, jobs, job, alone)


@entry
def max_total(states, e, base, by_utilization, utilization, waits, slowdown):
    """Return the maximum total of jobs on a GPU that count `base + by_utilization x utilisation`; see `bounds`."""
    return bounds.max_total(states[e], base, by_utilization, utilization, waits, slowdown)


@entry
def crowding(states, e, beyond, running):
    """Return the slowdown of computing with `running` jobs on a GPU; for `beyond` see `speed.crowding_on`."""
    return speed.crowding(states[e], beyond, running)


@entry
def resize(states, e, jobs, job, cores):
    """Change the cores of a running job."""
    actions.resize(states[e], jobs, job, cores)


@entry
def throttle(states, e, job, level):
    """Throttle a running CPU job to a fraction of its speed."""
    actions.throttle(states[e], job, level)


@entry
def start(states, e, jobs, job):
    """Start a queued job where the placement rule puts it; return whether it fits."""
    return actions.start(states[e], jobs, job)


@entry
def pause(states, e, jobs, job):
    """Preempt a running job."""
    pausing.pause(states[e], jobs, job)


@entry
def pick(states, e, jobs, job):
    """Start a queued job, displacing victims if necessary; return whether it started."""
    return cost_aware.pick(states[e], jobs, job)


@entry
def next_pick(states, e, jobs):
    """Return the job that the threshold policy would start next, or -1 to wait."""
    return cost_aware.next_pick(states[e], jobs)


@entry
def startable(states, e, jobs, out):
    """List the queued jobs that fit and may start now; return their number."""
    return legality.list_startable(states[e], jobs, out)


@entry
def infeasible_jobs(states, e, jobs, out):
    """List the jobs that this record, all of whose GPUs are free, could never hold; return their number."""
    s = states[e]
    open_all(s)
    count = 0
    for job in range(s.num_jobs):
        request_class = jobs[job].request_class
        if s.exhausted[request_class] == 0:
            s.exhausted[request_class] = 1 if place_job(s, jobs, job) else 2
        if s.exhausted[request_class] == 2:
            out[count] = job
            count += 1
    return count


@entry
def loading(states, e, jobs, some, out):
    """Write the seconds that some jobs would hold GPUs without progress at their start."""
    for k in range(len(some)):
        out[k] = loading_time(states[e], jobs, some[k])


@entry
def ran(states, e, some, out):
    """Write the seconds that some jobs have run since they last started from zero progress."""
    s = states[e]
    for k in range(len(some)):
        out[k] = ran_now(s, some[k])


@entry
def progress(states, e, jobs, some, attained, remaining):
    """Write the attained and the estimated remaining seconds of some jobs."""
    s = states[e]
    for k in range(len(some)):
        attained[k] = attained_now(s, some[k])
        remaining[k] = remaining_now(s, jobs, some[k])
