"""AITurbo (HPDC 2021): jobs of predictable length are resized by the marginal gain of a worker or server.

The abstract gives a least-attained-service queue for unpredictable jobs, a speed model for predictable ones, and
feedback queues by Borda count that combine the two, on GPUs and CPU cores alike. The numbers are those of the same
laboratory's later prototype. Inferred: the rank of benefit runs from the largest; votes are positions; an infeasible
step never counts, although its code does otherwise. The prototype restarts every job in every round; here only a job
whose shape changes pays. Our choice: a step must also save more than its restart costs; while no job waits for GPUs,
service costs nothing, so that steps are judged by time alone (otherwise jobs shrink beside idle GPUs); a predictable
job without a possible step has no second vote either; a queued job takes CPU workers once its slowdown on them is less
than its wait divided by the time of a restart. The prototype's three feedback queues, cut at 30 and 180 points for its
sixty jobs, have no effect, since it sorts the jobs in a queue by points again; `queues` orders them by arrival, as
feedback queues do, with cuts in proportion to the jobs. It is off by default, since it helps on few workloads; points
are at most twice the number of jobs, so the third queue stays empty (the prototype counts rounds instead of places, a
bug).

Missing: a model that says from its progress whether a job is predictable; here the trace says when it is.

Rounds are carried out by `simulator.kernel.rounds.elastic`.
"""

from functools import cache
from typing import Literal

import numpy as np

from gpu_cluster_gym.simulator.compiled_policy import CompiledPolicy, Kernel
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SERVERS, NOBODY, QUEUED, RUNNING, Tier
from gpu_cluster_gym.simulator.kernel.cluster.plan import (
    ASKS,
    DONE,
    Fields,
    allocating,
    begin_plan,
    compiled,
    dtype_of,
    entry,
    next_plan,
)
from gpu_cluster_gym.simulator.kernel.cluster.queues import remaining_now
from gpu_cluster_gym.simulator.kernel.rounds import elastic
from gpu_cluster_gym.simulator.kernel.rounds.grants import (
    FIRST,
    LAST,
    NOT_LISTED,
    cores_now,
    gpus_now,
    shape_now,
)
from gpu_cluster_gym.simulator.kernel.rounds.rechecks import start_by_rule
from gpu_cluster_gym.simulator.kernel.union.job_shapes import iteration_seconds
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.speed_model import fit_unfitted
from gpu_cluster_gym.simulator.view import View

LEVER = "elastic"

GPU_SERVICE, CORES_SERVICE = 10.0, 5.0  # of a GPU, and of a server's or CPU worker's 5 cores (Aiturbo-vGPU)
CUTS, CUT_JOBS = (
    (30.0, 180.0),
    60.0,
)  # points at which the next queue begins, and the number of jobs to which these refer
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # of workers and servers
NO_JOBS, PREDICTABLE, ALL_JOBS = range(3)  # jobs that are resized

FIELDS: Fields = (
    ("borda", "i1"),
    ("resizes", "i1"),  # NO_JOBS, PREDICTABLE or ALL_JOBS
    ("cpu_workers", "i1"),
    ("queues", "i1"),  # whether points decide on a feedback queue only
    ("num_wanted", "i8"),  # jobs whose request has been noted
    ("wanted_workers", "i4", ("jobs",)),  # shape that each job is to have
    ("wanted_servers", "i4", ("jobs",)),
    ("benefit", "f8", ("jobs",)),  # service that its best step saves; NaN if it has none
)


@cache
def memory_dtype(size: Tier) -> np.dtype:
    """Return the record type of the policy's memory at a tier."""
    return dtype_of((*FIELDS, *elastic.FIELDS), size)


@compiled
def note_shapes(s, jobs, m):
    """Note the shape that each job has on GPUs, or will have, as wanted; until it has one, the shape it requests."""
    for job in range(m.num_wanted, s.num_arrived):
        m.wanted_workers[job], m.wanted_servers[job] = jobs[job].num_gpus, jobs[job].servers
    m.num_wanted = s.num_arrived
    for k in range(m.num_present):
        job = m.present[k]
        if gpus_now(s, job) > 0:
            shape = shape_now(s, job)
            m.wanted_workers[job], m.wanted_servers[job] = shape.workers, shape.servers


@compiled
def may_resize(s, m, job):
    """Return whether a job may be given another size."""
    return m.resizes != NO_JOBS and (m.resizes != PREDICTABLE or s.predictable[job] > 0)


@compiled
def may_use_cores(s, jobs, m, job):
    """Return whether a job may be on CPU workers, now or next."""
    off_gpus = s.phase[job] == QUEUED or s.node_of[job] != NOBODY
    return m.cpu_workers > 0 and off_gpus and jobs[job].cpu_slowdown > 0


@compiled
def list_unfitted(s, jobs, m):
    """List the jobs whose speed models the plan needs and which have not been fitted; return their number."""
    m.num_unfitted = 0
    for k in range(m.num_present):
        job = m.present[k]
        if (m.is_round and may_resize(s, m, job)) or may_use_cores(s, jobs, m, job):
            elastic.ask_profile(jobs, m, job)
    return m.num_unfitted


# The step that saves each job most.


@compiled
def requested_iteration(jobs, job):
    """Return the seconds of an iteration in the shape that a job requests."""
    return iteration_seconds(jobs, job, jobs[job].num_gpus, jobs[job].servers, 0.0)


@compiled
def service(m, workers, servers, crowded):
    """Return the service that a shape takes in a second, in the unit of `attained_service`; 1 while no job waits."""
    if not crowded:
        return 1.0
    return GPU_SERVICE * workers + (GPU_SERVICE if m.servers_on_gpus else CORES_SERVICE) * servers


@compiled
def is_possible(s, jobs, m, job, workers, servers):
    """Return whether a job may have some workers and servers in place of the wanted ones."""
    if not jobs[job].min_workers <= workers <= jobs[job].max_workers:
        return False
    if workers + (servers if m.servers_on_gpus else 0) > s.num_gpus:
        return False
    return 0 < servers <= MAX_SERVERS if m.wanted_servers[job] > 0 else servers == 0


@compiled
def saved_by(s, jobs, m, job, step, crowded):
    """Return the service that a step saves, less that of its restart if the job runs; -inf if it is impossible."""
    workers, servers = np.int64(m.wanted_workers[job]), np.int64(m.wanted_servers[job])
    to_workers, to_servers = workers + STEPS[step][0], servers + STEPS[step][1]
    if not is_possible(s, jobs, m, job, to_workers, to_servers):
        return -np.inf
    iterations = remaining_now(s, jobs, job) / requested_iteration(jobs, job)
    price = service(m, workers, servers, crowded)
    new_price = service(m, to_workers, to_servers, crowded)
    # Service to the end = iterations left x seconds of one x service per second, before and after the step.
    cost = iterations * iteration_seconds(jobs, job, workers, servers, 0.0) * price
    new_cost = iterations * iteration_seconds(jobs, job, max(to_workers, 1), to_servers, 0.0) * new_price
    # A restart holds the old shape while the job pauses and the new one while it loads.
    restart = jobs[job].pause_s * price + jobs[job].load_s * new_price
    return cost - new_cost - restart * (s.phase[job] == RUNNING)


@compiled
def take_step(s, jobs, m, job, crowded):
    """Note the benefit of a job's best step, the first of equals, and want its shape if it saves any service."""
    best, chosen = -np.inf, 0
    for step in range(len(STEPS)):
        saved = saved_by(s, jobs, m, job, step, crowded)
        if not saved <= best:  # NaN, where the model has no answer, ends the search without a step
            best, chosen = saved, step
        if np.isnan(best):
            break
    m.benefit[job] = best if best > -np.inf else np.nan
    if best > 0:
        m.wanted_workers[job] += STEPS[chosen][0]
        m.wanted_servers[job] += STEPS[chosen][1]


@compiled
def take_steps(s, jobs, m):
    """Let every job that may be resized take its best step."""
    crowded = False
    for k in range(m.num_present):
        crowded |= jobs[m.present[k]].num_gpus > 0 and s.phase[m.present[k]] == QUEUED
    for k in range(m.num_present):
        job = m.present[k]
        m.benefit[job] = np.nan
        if jobs[job].num_gpus > 0 and may_resize(s, m, job):
            take_step(s, jobs, m, job, crowded)


# The shapes that each job requests.


@compiled
def request_cores(s, jobs, m, job):
    """Request CPU workers for a job where they are worth a restart, and GPUs for a job on CPU workers where these are.

    An iteration on CPU workers may last (time waited / restart) x the requested iteration: the wait so far is then
    worth as much as the restart that the return to GPUs costs.
    """
    workers, servers = np.int64(m.request_workers[job]), np.int64(m.request_servers[job])
    requested_s = requested_iteration(jobs, job)
    restart_s = jobs[job].pause_s + jobs[job].load_s
    waited_s = (s.clock - s.phase_began[job]) * (s.phase[job] == QUEUED)
    max_iteration_s = waited_s / max(restart_s, 1e-9) * requested_s
    if max_iteration_s > iteration_seconds(jobs, job, workers, servers, 1.0):
        m.max_iteration_s[job] = max_iteration_s
    if s.node_of[job] == NOBODY:
        return
    # The job is on CPU workers: it stays there unless its remaining iterations on GPUs save more than a restart.
    here = shape_now(s, job)
    on_cpu = 1.0 if here.on_cpu else 0.0
    slower = iteration_seconds(jobs, job, here.workers, here.servers, on_cpu) - iteration_seconds(
        jobs, job, workers, servers, 0.0
    )
    pays = remaining_now(s, jobs, job) / requested_s * slower > restart_s
    m.own_shape[job] = LAST if pays else FIRST


@compiled
def request_shapes(s, jobs, m):
    """Request the wanted shape for each job, then fewer workers if it may be resized, then CPU workers."""
    for k in range(m.num_present):
        job = m.present[k]
        if jobs[job].num_gpus == 0:
            continue
        workers = m.wanted_workers[job]
        m.request_workers[job], m.request_servers[job] = workers, m.wanted_servers[job]
        m.min_workers[job] = min(jobs[job].min_workers, workers) if may_resize(s, m, job) else workers
        m.max_iteration_s[job], m.own_shape[job] = 0.0, NOT_LISTED
        if may_use_cores(s, jobs, m, job):
            request_cores(s, jobs, m, job)


# The order by Borda count.


@allocating
def places_of(values):
    """Return the place of each value, 0 for the smallest; of equal ones the first comes first."""
    place = np.empty(len(values), np.int64)
    order = np.argsort(values, kind="mergesort")
    for k in range(len(order)):
        place[order[k]] = k
    return place


@compiled
def attained_service(s, job):
    """Return the service that a job has had so far: GPU-seconds times `GPU_SERVICE`, plus core-seconds."""
    since_s = (
        s.clock - s.banked[job] if s.phase[job] == RUNNING else 0.0
    )  # since its progress was last counted
    gpu_s = s.run_gpu_s[job] + s.lost_gpu_s[job] + s.width[job] * since_s
    core_s = s.core_s[job] + cores_now(s, job) * max(s.width[job], 1) * (s.clock - s.counted[job])
    return GPU_SERVICE * gpu_s + core_s


@allocating
def order_by_votes(s, m):
    """Sort jobs, given in ascending order, by points: their places by least attained service and by most benefit.

    The second place is scaled to the number of all jobs; a job without a benefit has its first place twice. With
    feedback queues, only the queue counts. Among equal points, or within a queue, the earlier job is first.
    """
    count, voters = m.num_order, 0
    attained, benefit = np.empty(count), np.empty(count)
    for k in range(count):
        job = m.order[k]
        attained[k] = attained_service(s, job)
        if m.borda and np.isfinite(m.benefit[job]):
            benefit[voters] = -m.benefit[job]
            voters += 1
    first, second = places_of(attained), places_of(benefit[:voters])
    points, voter = np.empty(count), 0
    for k in range(count):
        points[k] = first[k] + first[k]
        if m.borda and np.isfinite(m.benefit[m.order[k]]):
            points[k] = first[k] + float(second[voter] * (count - 1)) / max(voters - 1, 1)
            voter += 1
    if m.queues:
        for k in range(count):
            level = (points[k] >= CUTS[0] * count / CUT_JOBS) + (points[k] >= CUTS[1] * count / CUT_JOBS)
            points[k] = float(level)
    jobs = m.order[:count].copy()
    by_points = np.argsort(points, kind="mergesort")
    for k in range(count):
        m.order[k] = jobs[by_points[k]]


@compiled
def plan(s, jobs, m):
    """Let jobs take a step if this is a round, request shapes, and carry them out in order; return the status.

    ASKS: speed models are missing, and no job has been moved.
    """
    if begin_plan(s, m):
        if not elastic.begin_instant(s, jobs, m):
            return DONE
        note_shapes(s, jobs, m)
    if list_unfitted(s, jobs, m) > 0:
        return ASKS
    futile = elastic.is_futile(s, jobs, m)
    if not futile:
        if m.is_round:
            take_steps(s, jobs, m)
        request_shapes(s, jobs, m)
    if elastic.any_may_act(s, m):
        if not futile and not elastic.is_barren(s, jobs, m):
            elastic.list_jobs(jobs, m)
            order_by_votes(s, m)
            elastic.carry_out_order(s, jobs, m)
        start_by_rule(s, jobs, m)
    elastic.end_instant(s, jobs, m)
    return DONE


@entry
def step(states, e, memory, k, jobs):
    """Make the plan of this instant; return its status."""
    return plan(states[e], jobs, memory[k])


@entry
def run(states, e, memory, k, jobs):
    """Play an episode to its end, or until models are to be fitted; return the status."""
    s, m = states[e], memory[k]
    while next_plan(s, jobs, m):
        m.status = plan(s, jobs, m)
        if m.status >= ASKS:
            break
    return m.status


class Aiturbo(CompiledPolicy):
    """The policy; its memory has the wanted shape of each job and the benefit of its best step."""

    kernel = Kernel(memory_dtype, step, run)

    def __init__(
        self,
        borda: bool = True,
        elastic: bool = True,
        cpu_workers: bool = True,
        round_s: float = 240.0,
        predictable: Literal["given", "all", "none"] = "given",
        servers_on_gpus: bool = False,
        queues: bool = False,
    ) -> None:
        """Choose the parts.

        borda: whether benefit has a vote; otherwise least attained service alone decides on the order.
        elastic: whether jobs are resized.
        cpu_workers: whether workers may be on CPU cores; otherwise they are on GPUs only.
        round_s: seconds between rounds.
        predictable: jobs that are taken as predictable, and so resized: those that the trace says are, all or none.
        servers_on_gpus: whether each server takes a GPU, as in that laboratory's Tiresias, not cores.
        queues: whether three feedback queues order their jobs by arrival; otherwise all jobs are ordered by points.
        """
        resized = {"given": PREDICTABLE, "all": ALL_JOBS, "none": NO_JOBS}
        self._settings = {
            "every_s": round_s,
            "borda": borda,
            "resizes": resized[predictable] if elastic else NO_JOBS,
            "cpu_workers": cpu_workers,
            "servers_on_gpus": servers_on_gpus,
            "queues": queues,
        }
        super().__init__()

    def init_memory(self, memory: np.ndarray, states: np.ndarray) -> None:
        """Write the settings into a memory of zeros."""
        elastic.init_memory(memory, **self._settings)
        memory["benefit"] = np.nan

    def answer(self, status: int, view: View) -> None:
        """Fit the speed models that the plan needs."""
        source = source_of(view)
        fit_unfitted(source.states, source.jobs, self.memory(source.states))


policy = Aiturbo
GRID = {"round_s": (120.0, 240.0, 480.0, 960.0, 1920.0, 3840.0), "borda": (True, False)}
