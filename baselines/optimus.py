"""Optimus (EuroSys 2018): in each round every worker and server goes to the job whose remaining time it reduces most.

From memory, not checked against the paper: each job starts with one worker and one server; then workers and servers are
given one at a time, each to the job whose remaining time it reduces most for the share of the scarcer resource that it
takes, until none fits or helps. Inferred: jobs get their first worker in the order of arrival; a job that cannot run
with one worker starts with the minimum it can run with; a job that arrives between two rounds starts with that minimum
if there is space. Our choice: a job whose share has not changed is not restarted.

Rounds are carried out by `simulator.kernel.rounds.elastic`.
"""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.compiled_policy import CompiledPolicy, Kernel
from gpu_cluster_gym.simulator.kernel.cluster.layout import CLOSED, MAX_SERVERS, OPEN, SERVER_CORES, Tier
from gpu_cluster_gym.simulator.kernel.cluster.plan import (
    ASKS,
    DONE,
    Fields,
    begin_plan,
    compiled,
    dtype_of,
    entry,
    next_plan,
)
from gpu_cluster_gym.simulator.kernel.cluster.queues import remaining_now
from gpu_cluster_gym.simulator.kernel.rounds import elastic
from gpu_cluster_gym.simulator.kernel.rounds.grants import NOT_LISTED, feeding_cores
from gpu_cluster_gym.simulator.kernel.rounds.rechecks import start_by_rule
from gpu_cluster_gym.simulator.kernel.union.job_shapes import iteration_seconds
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.speed_model import fit_unfitted
from gpu_cluster_gym.simulator.view import View

LEVER = "elastic"

ASKS_ERRORS = ASKS + 1  # status: Python has to draw the estimation errors of new jobs
NOTHING, WORKER, SERVER = range(3)  # offers to a job

FIELDS: Fields = (
    ("errs", "i1"),  # whether the policy's own errors are added to estimates
    ("num_drawn", "i8"),  # jobs whose errors have been drawn
    ("error", "f8", ("jobs",)),  # factor on the estimated remaining time of each job
    ("has_share", "i1", ("jobs",)),
    ("share_workers", "i4", ("jobs",)),
    ("share_servers", "i4", ("jobs",)),
    ("iterations", "f8", ("jobs",)),  # iterations left
    ("worth", "f8", ("jobs",)),  # seconds saved by a job's best offer, per share of the scarcer resource
    ("heap", "i4", ("jobs",)),  # jobs with shares, the one with the highest worth on top
    ("all_gpus", "f8"),
    ("all_cores", "f8"),
    ("left_gpus", "f8"),
    ("left_cores", "f8"),
)


@cache
def memory_dtype(size: Tier) -> np.dtype:
    """Return the record type of the policy's memory at a tier."""
    return dtype_of((*FIELDS, *elastic.FIELDS), size)


@compiled
def list_unfitted(jobs, m):
    """List the jobs whose speed models a round needs and which have not been fitted; return their number."""
    m.num_unfitted = 0
    if m.is_round:
        for k in range(m.num_present):
            elastic.ask_profile(jobs, m, m.present[k])
    return m.num_unfitted


@compiled
def cores_of(jobs, job, workers, servers):
    """Return the CPU cores that workers and their servers take."""
    return workers * (feeding_cores(jobs, job) + SERVER_CORES * servers / workers)


@compiled
def count_resources(s, m):
    """Count the GPUs and cores of open nodes."""
    m.left_gpus, m.left_cores = 0.0, 0.0 if s.cpu_limited else np.inf
    for gpu in range(s.num_gpus):
        m.left_gpus += s.reserved_for[gpu] != CLOSED
    for node in range(s.num_nodes):
        if s.closed[node] == OPEN:
            m.left_cores += s.node_cores[node]
    m.all_gpus, m.all_cores = max(m.left_gpus, 1.0), max(m.left_cores, 1.0)


@compiled
def offer(jobs, m, job, what):
    """Return the worth of one more worker or server to a job, and the GPUs and cores it takes; zeros if it is no use.

    worth = iterations left x seconds saved in each / the larger of its shares of all GPUs and of all cores
    """
    workers, servers = np.int64(m.share_workers[job]), np.int64(m.share_servers[job])
    to_workers, to_servers = workers + (what == WORKER), servers + (what == SERVER)
    if to_workers > jobs[job].max_workers or (what == SERVER and not 0 < servers < MAX_SERVERS):
        return 0.0, 0.0, 0.0
    shorter = iteration_seconds(jobs, job, workers, servers, 0.0) - iteration_seconds(
        jobs, job, to_workers, to_servers, 0.0
    )
    gain = m.iterations[job] * shorter
    if not gain > 0:
        return 0.0, 0.0, 0.0
    gpus = float(to_workers - workers)
    cores = cores_of(jobs, job, to_workers, to_servers) - cores_of(jobs, job, workers, servers)
    return gain / max(gpus / m.all_gpus, cores / m.all_cores), gpus, cores


@compiled
def best_offer(jobs, m, job):
    """Return the offer with the highest worth to a job among those that fit, and its worth; a worker if they tie."""
    best, best_worth = NOTHING, 0.0
    for what in (WORKER, SERVER):
        worth, gpus, cores = offer(jobs, m, job, what)
        if worth > best_worth and gpus <= m.left_gpus and cores <= m.left_cores:
            best, best_worth = what, worth
    return best, best_worth


@compiled
def comes_before(m, a, b):
    """Return whether job a comes before job b: its best offer is worth more, or as much and a arrived earlier."""
    return m.worth[a] > m.worth[b] or (m.worth[a] == m.worth[b] and a < b)


@compiled
def sink(m, size, at):
    """Move a job down the heap to its place."""
    job = m.heap[at]
    child = 2 * at + 1
    while child < size:
        if child + 1 < size and comes_before(m, m.heap[child + 1], m.heap[child]):
            child += 1
        if not comes_before(m, m.heap[child], job):
            break
        m.heap[at] = m.heap[child]
        at = child
        child = 2 * at + 1
    m.heap[at] = job


@compiled
def give_minimum(s, jobs, m):
    """Give jobs, in order of arrival, the minimum number of workers they can run with, while there is space.

    Put these jobs on the heap, and return their number.
    """
    count = 0
    for k in range(m.num_present):
        job = m.present[k]
        m.has_share[job] = 0
        if jobs[job].num_gpus == 0:
            continue
        workers, servers = int(jobs[job].min_workers), int(jobs[job].servers > 0)
        cores = cores_of(jobs, job, workers, servers)
        requested_s = iteration_seconds(jobs, job, jobs[job].num_gpus, jobs[job].servers, 0.0)
        m.iterations[job] = remaining_now(s, jobs, job) * m.error[job] / requested_s
        if workers > m.left_gpus or cores > m.left_cores:
            continue
        m.left_gpus -= workers
        m.left_cores -= cores
        m.share_workers[job], m.share_servers[job], m.has_share[job] = workers, servers, 1
        m.heap[count] = job
        count += 1
    return count


@compiled
def give_one(jobs, m, job, what):
    """Give a job one more worker or server."""
    _, gpus, cores = offer(jobs, m, job, what)
    m.left_gpus -= gpus
    m.left_cores -= cores
    m.share_workers[job] += what == WORKER
    m.share_servers[job] += what == SERVER


@compiled
def divide(s, jobs, m):
    """Divide the cluster among all jobs again.

    An offer that does not fit never will, since free resources only shrink. So the stored worths of the other jobs are
    exact or too high, and only the job on top of the heap has to be evaluated again.
    """
    count_resources(s, m)
    size = give_minimum(s, jobs, m)
    for k in range(size):
        m.worth[m.heap[k]] = best_offer(jobs, m, m.heap[k])[1]
    for at in range(size // 2 - 1, -1, -1):
        sink(m, size, at)
    while size > 0 and m.worth[m.heap[0]] > 0:
        job = m.heap[0]
        what, worth = best_offer(jobs, m, job)
        if what != NOTHING and worth == m.worth[job]:
            give_one(jobs, m, job, what)
            worth = best_offer(jobs, m, job)[1]
        m.worth[job] = worth
        sink(m, size, 0)


@compiled
def request_shares(jobs, m):
    """Request for each job its share, or the minimum without one; where that does not fit, fewer workers."""
    for k in range(m.num_present):
        job = m.present[k]
        if jobs[job].num_gpus == 0:
            continue
        min_workers, servers = jobs[job].min_workers, int(jobs[job].servers > 0)
        has = m.has_share[job] > 0
        m.request_workers[job] = m.share_workers[job] if has else min_workers
        m.request_servers[job] = m.share_servers[job] if has else servers
        m.min_workers[job], m.max_iteration_s[job], m.own_shape[job] = min_workers, 0.0, NOT_LISTED


@compiled
def order_by_shares(m):
    """Put jobs with shares before those without, each by number."""
    count, jobs = 0, m.heap  # scratch: the heap is not used any more
    for has in (1, 0):
        for k in range(m.num_order):
            if m.has_share[m.order[k]] == has:
                jobs[count] = m.order[k]
                count += 1
    for k in range(count):
        m.order[k] = jobs[k]


@compiled
def plan(s, jobs, m):
    """Divide the cluster if this is a round, request shares, and carry them out in order; return the status.

    ASKS, ASKS_ERRORS: speed models or estimation errors are missing, and no job has been moved.
    """
    if begin_plan(s, m) and not elastic.begin_instant(s, jobs, m):
        return DONE
    if m.errs and m.num_drawn < s.num_arrived:
        return ASKS_ERRORS
    if list_unfitted(jobs, m) > 0:
        return ASKS
    futile = elastic.is_futile(s, jobs, m)
    if not futile:
        if m.is_round:
            divide(s, jobs, m)
        request_shares(jobs, m)
    if elastic.any_may_act(s, m):
        if not futile and not elastic.is_barren(s, jobs, m):
            elastic.list_jobs(jobs, m)
            order_by_shares(m)
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
    """Play an episode to its end, or until models or errors are needed; return the status."""
    s, m = states[e], memory[k]
    while next_plan(s, jobs, m):
        m.status = plan(s, jobs, m)
        if m.status >= ASKS:
            break
    return m.status


class Optimus(CompiledPolicy):
    """The policy.

    round_s: seconds between two divisions of the cluster.
    error: standard deviation of the log error of its estimates of remaining time, in addition to the view's error.
    """

    kernel = Kernel(memory_dtype, step, run)

    def __init__(self, round_s: float = 300.0, error: float = 0.0) -> None:
        """Begin an episode."""
        self._every_s, self._error = round_s, error
        super().__init__()

    def init_memory(self, memory: np.ndarray, states: np.ndarray) -> None:
        """Write the settings into a memory of zeros."""
        elastic.init_memory(memory, every_s=self._every_s, errs=self._error != 0)
        memory["error"] = 1.0

    def answer(self, status: int, view: View) -> None:
        """Fit the speed models that the plan needs, or draw the errors of jobs that have arrived."""
        source = source_of(view)
        memory = self.memory(source.states)
        if status == ASKS:
            fit_unfitted(source.states, source.jobs, memory)
            return
        drawn, arrived = int(memory["num_drawn"][0]), len(view.jobs.phase)
        memory["error"][0, drawn:arrived] = np.exp(self._error * view.rng.standard_normal(arrived - drawn))
        memory["num_drawn"] = arrived


policy = Optimus
GRID = {"round_s": (120.0, 300.0, 600.0, 1200.0, 3600.0)}
