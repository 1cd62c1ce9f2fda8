"""Moves that a policy has decided on: how its memory has them, one at a time or in a list, and how they are made."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled
from gpu_cluster_gym.simulator.kernel.cluster import actions, pausing, speed
from gpu_cluster_gym.simulator.kernel.cluster.layout import Tier
from gpu_cluster_gym.simulator.kernel.cluster.layout import dtype_of as dtype_of

WAIT, START, PAUSE, MOVE, CORES, THROTTLE = range(6)  # kinds of moves

Fields = tuple[tuple[str, str] | tuple[str, str, tuple[str | int, ...]], ...]

PLACEMENT_FIELDS: Fields = (
    # where a job is to start, or to go on
    ("num_gpus", "i8"),
    ("gpus", "i4", ("gpus",)),
    ("node", "i8"),  # of a job without GPUs, else -1
    ("workers", "i8"),  # 0 where left open
    ("servers", "i8"),  # -1 where left open
)

MOVE_FIELDS: Fields = (
    # the move decided on, where there is one at a time
    ("victim", "i8"),  # the job to pause
    ("move_job", "i8"),  # that to start or to move
    *PLACEMENT_FIELDS,
)

LIST_FIELDS: Fields = (
    # moves decided on and not yet carried out; the placement belongs to the last of them
    ("num_moves", "i8"),
    ("next_move", "i8"),
    ("move_kind", "i1", ("jobs",)),
    ("move_job", "i4", ("jobs",)),
    ("move_value", "f8", ("jobs",)),  # cores, or level of a throttle
    *PLACEMENT_FIELDS,
)


def tier_of(states: np.ndarray) -> Tier:
    """Return the tier of some records."""
    return Tier(states["phase"].shape[1], states["node_gpus"].shape[1], states["first_owner"].shape[1])


@compiled
def propose(m, kind, job, value):
    """Put a move on the list."""
    m.move_kind[m.num_moves] = kind
    m.move_job[m.num_moves] = job
    m.move_value[m.num_moves] = value
    m.num_moves += 1


@allocating
def make(s, jobs, m, kind, job, value):
    """Make a move of a job; value: its cores, 0 for what it asks for, or the level of a throttle."""
    if kind == PAUSE:
        pausing.pause(s, jobs, job)
    elif kind == CORES:
        actions.resize(s, jobs, job, value)
    elif kind == THROTTLE:
        actions.throttle(s, job, value)
    else:
        gpus = m.gpus[: m.num_gpus]
        gpus.sort()
        workers, servers = speed.resolved_shape(jobs, job, m.num_gpus, m.workers, m.servers)
        named = value > 0 and s.cpu_limited
        cores = value if named else speed.cores_asked(jobs, job, m.num_gpus, workers, servers)
        if kind == START:
            actions.start_as(s, jobs, job, gpus, workers, servers, cores, m.node)
        else:
            actions.move(s, jobs, job, gpus, workers, servers, cores, m.node)


@compiled
def carry_out(s, jobs, m, kind):
    """Make the move that is written down."""
    make(s, jobs, m, kind, m.victim if kind == PAUSE else m.move_job, 0.0)


@compiled
def carry_out_next(s, jobs, m, kind):
    """Make the move of the list that has just been decided on."""
    make(s, jobs, m, kind, m.move_job[m.next_move - 1], m.move_value[m.next_move - 1])
