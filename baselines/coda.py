"""CODA (ICDCS 2020): tune the CPU cores of each training job, give the others to CPU jobs, and throttle contention.

Claim: the number of cores decides how fast a network is trained, and the best number differs by model and by GPUs;
an adaptive CPU allocator, a real-time contention eliminator and a multi-array job scheduler raise the utilisation
of GPUs by 20.8 %, and CPU jobs do not queue longer (CODA, IEEE ICDCS 2020, pp. 853-863, abstract). Only the abstract
was available. Inferred:

- allocator (`simulator.kernel.cores.tuning`): a job starts with few cores; in windows of a minute it is given more
  while its GPUs become busier, then fewer as long as they stay as busy. Where cores are short, they are given by
  marginal gain per core;
- eliminator (`throttle_one` of `simulator.kernel.cores.sharing`): where three quarters of the bandwidth of a node's
  memory are drawn, at which memory traffic takes a third longer, the CPU job that draws most is throttled, by measured
  bandwidth alone, and not where GPUs idle because they lack cores (three quarters: our choice, by training windows);
- arrays (`simulator.kernel.cores.sharing`): CPU jobs, and jobs of each number of GPUs, queue apart, first in, first
  out, and none blocks another. Either side has a reserve of cores, lends what it does not need, and takes it back by
  shrinking the borrower: no job is paused. Of the jobs with one GPU, two to four, and more, those come first whose
  array holds the smallest share of the GPUs that it requests; no GPUs are reserved for wide jobs.

CPU jobs start on cores that no reserve needs. Jobs with GPUs start with one core per GPU, and get further cores once
they run: a scheduler here does not know the kind of model that a job trains, so all start with the same number per GPU.
Without tuning they get the cores that they request. Without arrays all jobs wait in one queue, and CPU jobs wait until
cores are left over.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.compiled_policy import CompiledPolicy, Kernel
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, NOBODY, RUNNING, Tier
from gpu_cluster_gym.simulator.kernel.cluster.legality import list_queued
from gpu_cluster_gym.simulator.kernel.cluster.plan import (
    ACTION_FIELDS,
    AGAIN,
    ASKS,
    DONE,
    START,
    Fields,
    allocating,
    begin_plan,
    compiled,
    dtype_of,
    entry,
    make_proposed,
    next_plan,
    propose,
)
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers
from gpu_cluster_gym.simulator.kernel.cores.sharing import (
    CORE_FIELDS,
    MIN_SHARE,
    OWN_FIELDS,
    init_tuning,
    read,
    share_again,
    start_first_on_cores,
    throttle_one,
    watch_on,
)
from gpu_cluster_gym.simulator.kernel.rankings.granting import place_first

LEVER = "cores"

FIRST_GUESS = 3.0  # cores per GPU, before anything is known
FIRST_CORES = 1.0  # for each GPU at the start of a job, without those of servers
NARROW, MIDDLING = 1, 4  # GPUs of the widest job of an array; from memory, not checked against the paper
ARRAYS = 3  # of widths

FIELDS: Fields = (
    ("tunes", "i1"),  # whether core counts are tuned
    ("throttles", "i1"),  # whether CPU jobs are throttled
    ("hurts_from", "f8"),  # share of a node's bandwidth above which CPU jobs are throttled
    ("arrays", "i1"),  # whether CPU jobs and jobs with GPUs queue apart
    ("by_width", "i1"),  # whether jobs of different widths take turns
    ("queued", "i8", ("jobs",)),  # scratch
)


@cache
def memory_dtype(size: Tier) -> np.dtype:
    """Return the record type of the policy's memory at a tier."""
    return dtype_of((*FIELDS, *ACTION_FIELDS, *OWN_FIELDS, *CORE_FIELDS), size)


@compiled
def array_of(jobs, job):
    """Return the number of the array of widths that a job belongs to."""
    return int(jobs[job].num_gpus > NARROW) + int(jobs[job].num_gpus > MIDDLING)


@allocating
def sort_by_service(s, jobs, order):
    """Sort queued jobs by the share of its requested GPUs that their array of widths holds, the smallest first."""
    held = np.zeros(ARRAYS)
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == RUNNING or s.phase[job] == LOADING:
            held[array_of(jobs, job)] += jobs[job].num_gpus
    requested = held.copy()
    for job in order:
        requested[array_of(jobs, job)] += jobs[job].num_gpus
    served = np.empty(len(order))
    for k in range(len(order)):
        array = array_of(jobs, order[k])
        served[k] = held[array] / requested[array] if requested[array] > 0 else 1.0
    order[:] = order[np.argsort(served, kind="mergesort")]


@compiled
def with_gpus(jobs, order):
    """Remove jobs without GPUs from an order; return the number of jobs left."""
    count = 0
    for job in order:
        if jobs[job].num_gpus > 0:
            order[count] = job
            count += 1
    return count


@compiled
def propose_placed(s, jobs, m, job, cores):
    """Propose the start of a job where it has just been placed; cores: see `propose_start`."""
    m.num_gpus, m.node = jobs[job].num_gpus, NOBODY
    for k in range(m.num_gpus):
        m.gpus[k] = s.gpus[k]
    if m.num_gpus == 0:
        m.node = s.chosen_node[0]
    elif cores > 0:
        cores += cores_of_servers(jobs[job].servers, m.num_gpus, m.num_gpus)
    propose(m, START, job, cores if m.num_gpus > 0 else 0.0)


@compiled
def propose_start(s, jobs, m, cores):
    """Propose the start of the first queued job that fits, after what must shrink for it; return whether there is one.

    cores: for each GPU, without those of servers; 0 where cores are not allocated.
    """
    if s.num_queued == 0:
        return False
    count = list_queued(s, m.queued)
    if cores > 0 and m.arrays:
        if start_first_on_cores(s, jobs, m, m.queued[:count]):
            return True
        count = with_gpus(jobs, m.queued[:count])
    if cores > 0 and m.by_width:
        sort_by_service(s, jobs, m.queued[:count])
    job = place_first(s, jobs, m.queued[:count], cores)
    if job == NOBODY:
        return False
    propose_placed(s, jobs, m, job, cores)
    return True


@compiled
def propose_moves(s, jobs, m, is_new):
    """Propose a start, or else a division of the cores, or else a throttle; return whether there is a proposal."""
    m.num_moves = 0
    if not s.cpu_limited:
        return propose_start(s, jobs, m, 0.0)
    read(s, jobs, m, m.tunes > 0, is_new)
    if propose_start(s, jobs, m, FIRST_CORES):
        return True
    share_again(s, jobs, m, MIN_SHARE)
    return m.num_moves > 0 or (m.throttles > 0 and throttle_one(s, jobs, m, m.hurts_from))


@compiled
def plan(s, jobs, m):
    """Make the next moves of this instant, after which there may be others; at the end wait for the next reading."""
    if propose_moves(s, jobs, m, begin_plan(s, m)):
        make_proposed(s, jobs, m)
        return AGAIN
    m.wait_s = m.window_s if s.cpu_limited and watch_on(s, jobs, m, m.tunes > 0) else np.nan
    return DONE


@entry
def step(states, e, memory, k, jobs):
    """Make the next moves of this instant; return the status."""
    return plan(states[e], jobs, memory[k])


@entry
def run(states, e, memory, k, jobs):
    """Play an episode to its end; return the status."""
    s, m = states[e], memory[k]
    while next_plan(s, jobs, m):
        m.status = plan(s, jobs, m)
        if m.status >= ASKS:
            break
    return m.status


@dataclass
class Coda(CompiledPolicy):
    """One episode of the policy.

    tuning, eliminator, arrays: whether the policy has this part; `by_width` has no effect without arrays.
    reserve: guaranteed cores per GPU of a job with GPUs.
    window_s: seconds of a window of the allocator.
    by_width: whether jobs of different widths take turns, otherwise they come in order of arrival.
    hurts_from: share of a node's memory bandwidth above which the eliminator throttles CPU jobs.
    """

    tuning: bool = True
    eliminator: bool = True
    arrays: bool = True
    reserve: float = 3.0
    window_s: float = 60.0
    by_width: bool = True
    hurts_from: float = 0.75

    kernel = Kernel(memory_dtype, step, run)

    def __post_init__(self) -> None:
        super().__init__()

    def init_memory(self, memory: np.ndarray, states: np.ndarray) -> None:
        """Write the settings into a memory of zeros."""
        init_tuning(memory, self.window_s)
        memory["tunes"], memory["throttles"] = self.tuning, self.eliminator
        memory["arrays"], memory["by_width"] = self.arrays, self.by_width and self.arrays
        memory["hurts_from"] = self.hurts_from
        memory["first_guess"], memory["reserve"] = FIRST_GUESS, self.reserve if self.arrays else 0.0


policy = Coda
GRID = {"reserve": (1.0, 2.0, 3.0, 4.0), "window_s": (30.0, 60.0, 120.0)}
