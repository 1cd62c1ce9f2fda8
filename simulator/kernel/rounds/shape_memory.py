"""What is kept by a policy that gives jobs other shapes in rounds: its choices, what it knows of jobs, and scratch."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.decided import MOVE_FIELDS, THROTTLE, Fields, dtype_of, tier_of
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    LOADING,
    PAUSING,
    RESERVED,
    RUNNING,
    SERVER_CORES,
    WORKER_CORES,
    Tier,
)

PROFILE = THROTTLE + 1  # beside the kinds of moves: the profiles of some jobs are to be fitted
STEPS, SHARES = range(2)  # how shapes are found: a step at a time (AITurbo), or shared out anew (Optimus)
NO_JOB, AS_TOLD, EVERY_JOB = range(3)  # which jobs are adjusted, where by steps
MOST_REFUSED = 16  # requests that are remembered, each asking for less in some way than those before it
NEITHER, FIRST, LAST = range(3)  # where among its shapes a job has the one that it holds

SHAPE_FIELDS: Fields = (
    # the policy
    ("way", "i1"),  # STEPS or SHARES
    ("every_s", "f8"),  # s between two rounds
    ("votes", "i1"),  # whether benefit has a vote in the order
    ("adjusts", "i1"),  # NO_JOB, AS_TOLD or EVERY_JOB
    ("cpu_workers", "i1"),  # whether workers may be on CPU cores
    ("apart", "i1"),  # whether servers have GPUs of their own
    # rounds
    ("instant", "i8"),  # the last at which it was asked
    ("glance_s", "f8"),  # s; when it would look again
    ("wait_s", "f8"),  # s to wait; nan for the next event
    ("began_s", "f8"),  # s; the last round
    ("is_round", "i1"),
    ("num_known", "i8"),  # jobs that had arrived at the last look, and those that had ended
    ("num_ended", "i8"),
    ("num_present", "i8"),
    ("present", "i4", ("jobs",)),  # jobs that have arrived and not ended, by job
    ("known", "i1", ("jobs",)),  # whether a job was predictable at the last look
    ("num_seen", "i8"),  # jobs that had arrived after the last moves, their phases, and closed nodes
    ("seen", "i1", ("jobs",)),
    ("seen_closed", "i1", ("nodes",)),
    ("num_movable", "i8"),
    ("movable", "i4", ("jobs",)),  # running jobs that may be paused or restarted, by job
    ("may_move", "i1", ("jobs",)),
    ("num_unfitted", "i8"),
    ("unfitted", "i4", ("jobs",)),
    # as it was when a plan, in which nobody may be moved, last had nothing for anybody
    ("barren_arrived", "i8"),  # jobs that had arrived; -1 where the last plan was none of these
    ("barren_ended", "i8"),
    ("barren_order", "i8"),  # jobs in its order
    ("barren_phase", "i1", ("jobs",)),
    ("barren_closed", "i1", ("nodes",)),
    # moves of this instant
    ("stage", "i8"),
    ("at", "i8"),
    ("num_moving", "i8"),
    ("moving", "i4", ("jobs",)),  # restarts still to be made
    *MOVE_FIELDS,
    # by steps: what each job is to have, and the service that its best step saves, nan for none
    ("wanted_workers", "i4", ("jobs",)),
    ("wanted_servers", "i4", ("jobs",)),
    ("benefit", "f8", ("jobs",)),
    # by shares
    ("error", "f8", ("jobs",)),  # factor by which estimates are wrong, beside the view's
    ("has_share", "i1", ("jobs",)),
    ("share_workers", "i4", ("jobs",)),
    ("share_servers", "i4", ("jobs",)),
    ("iterations", "f8", ("jobs",)),  # left
    ("worth", "f8", ("jobs",)),  # s saved by the best offer for the whole of the scarcer resource
    ("heap", "i4", ("jobs",)),  # jobs with offers, the one of most worth on top
    ("whole_gpus", "f8"),
    ("whole_cores", "f8"),
    ("left_gpus", "f8"),
    ("left_cores", "f8"),
    # wishes: the shapes that would do, in order of preference
    ("num_order", "i8"),
    ("order", "i4", ("jobs",)),
    ("place", "i4", ("jobs",)),  # in this order
    ("wish_workers", "i4", ("jobs",)),  # at first, then fewer
    ("wish_servers", "i4", ("jobs",)),
    ("least", "i4", ("jobs",)),  # workers
    ("bearable_s", "f8", ("jobs",)),  # longest iteration on CPU workers; 0 for none
    ("own_shape", "i1", ("jobs",)),  # NEITHER, FIRST or LAST
    # room: what can still be given
    ("kind", "i1", ("gpus",)),  # FREE, AWAITED or HELD
    ("open", "i4", ("gpus",)),  # GPUs that may be granted, by node, the first to be taken first
    ("num_open", "i4", ("nodes",)),
    ("num_free", "i4", ("nodes",)),  # of these the free ones
    ("taken", "i1", ("gpus",)),
    ("num_left", "i8"),
    ("cores_left", "f8", ("nodes",)),
    ("spread_left", "f8", ("nodes",)),
    ("marked", "i8", ("jobs",)),
    ("mark", "i8"),
    ("num_own", "i8"),
    ("own", "i4", ("gpus",)),  # GPUs that the job in question holds
    ("num_found", "i8"),
    ("found", "i4", ("gpus",)),
    ("found_node", "i8"),
    # requests that found no room in this pass: GPUs, cores for each, GiB, and whether they might be spread
    ("num_refused", "i8"),
    ("refused_gpus", "i4", (MOST_REFUSED,)),
    ("refused_cores", "f8", (MOST_REFUSED,)),
    ("refused_gib", "f8", (MOST_REFUSED,)),
    ("refused_spread", "i1", (MOST_REFUSED,)),
    # grants
    ("is_granted", "i1", ("jobs",)),
    ("keeps", "i1", ("jobs",)),  # whether it is what the job has
    ("grant_workers", "i4", ("jobs",)),
    ("grant_servers", "i4", ("jobs",)),
    ("grant_apart", "i1", ("jobs",)),
    ("grant_node", "i4", ("jobs",)),
    ("grant_first", "i4", ("jobs",)),
    ("grant_gpus", "i4", ("jobs",)),
    ("num_granted", "i8"),
    ("granted", "i4", ("gpus",)),
)


@cache
def shape_dtype(size: Tier) -> np.dtype:
    """Return the record type of what such a policy keeps, at one tier."""
    return dtype_of(SHAPE_FIELDS, size)


def fresh_shapes(states: np.ndarray, choices: dict[str, float]) -> np.ndarray:
    """Return the memory of a policy with these choices that has not been asked yet."""
    memory = np.zeros(1, shape_dtype(tier_of(states)))
    for name, value in choices.items():
        memory[name] = value
    memory["instant"], memory["began_s"], memory["glance_s"] = -1, -np.inf, np.inf
    memory["benefit"], memory["error"], memory["barren_arrived"] = np.nan, 1.0, -1
    return memory


class Form(NamedTuple):
    """The shape of a job: workers and servers, whether workers are on CPU cores, whether servers have GPUs."""

    workers: Any
    servers: Any
    on_cpu: Any
    apart: Any


@compiled
def gpus_of(form):
    """Return how many GPUs a shape has."""
    if form.on_cpu:
        return 0
    return form.workers + form.servers if form.apart else form.workers


@compiled
def is_same(a, b):
    """Tell whether two shapes are the same."""
    alike = a.workers == b.workers and a.servers == b.servers
    return alike and a.on_cpu == b.on_cpu and a.apart == b.apart


@compiled
def gpus_now(s, job):
    """Return the GPUs that an active job has, or will have; 0 for others."""
    if s.phase[job] < RESERVED or s.phase[job] > PAUSING:
        return 0
    return np.int64(s.next_width[job]) if is_coming(s, job) else np.int64(s.width[job])


@compiled
def is_coming(s, job):
    """Tell whether a job waits for the GPUs of its next shape."""
    return s.phase[job] == RESERVED or s.moves[job] > 0


@compiled
def form_now(s, job):
    """Return the shape of a job that runs, or waits for GPUs."""
    gpus = gpus_now(s, job)
    if is_coming(s, job):
        workers, servers = np.int64(s.next_workers[job]), np.int64(s.next_servers[job])
    else:
        workers, servers = np.int64(s.workers[job]), np.int64(s.servers[job])
    return Form(workers, servers, gpus == 0, gpus > workers)


@compiled
def first_form(s, m, job):
    """Return the shape that a job would have rather than any other."""
    if m.own_shape[job] == FIRST:
        return form_now(s, job)
    return nth_form(m, job, 0, False)


@compiled
def nth_form(m, job, fewer, on_cpu):
    """Return the shape that is wished for a job, with fewer workers."""
    servers = np.int64(m.wish_servers[job])
    apart = m.apart > 0 and servers > 0 and not on_cpu
    return Form(np.int64(m.wish_workers[job]) - fewer, servers, on_cpu, apart)


@compiled
def feeding_of(jobs, job):
    """Return the cores that a job asks for, for each GPU, beside those of its servers."""
    return max(jobs[job].cores_each - SERVER_CORES * jobs[job].servers / max(jobs[job].num_gpus, 1), 1.0)


@compiled
def cores_for(jobs, job, form):
    """Return the cores that a job asks for in a shape: for each GPU, or as a whole on CPU workers."""
    if form.on_cpu:
        return WORKER_CORES * form.workers + SERVER_CORES * form.servers
    if form.apart:
        return feeding_of(jobs, job)
    return feeding_of(jobs, job) + SERVER_CORES * form.servers / form.workers


@compiled
def cores_now(s, job):
    """Return the cores that an active job holds for each GPU, or as a whole."""
    return s.core_count[job] if LOADING <= s.phase[job] <= PAUSING else 0.0


@compiled
def since_banked(s, job):
    """Return the seconds since a running job's progress was banked; 0 for others."""
    return s.clock - s.banked[job] if s.phase[job] == RUNNING else 0.0


@compiled
def is_unfitted(jobs, job):
    """Tell whether a job's profile has not been fitted yet."""
    for k in range(len(jobs[job].fitted)):
        if jobs[job].fitted[k] != 0:
            return False
    return True
