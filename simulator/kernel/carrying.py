"""Moves that a policy has decided on, carried out inside the kernel.

Its memory has them as `simulator.kernel.core_memory` declares: one written down at a time, or a list.
"""

from simulator.kernel import actions, pausing, shapes
from simulator.kernel._compile import allocating, compiled
from simulator.kernel.core_memory import CORES, PAUSE, START, THROTTLE


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
        workers, servers = shapes.meant(jobs, job, m.num_gpus, m.workers, m.servers)
        named = value > 0 and s.cpu_limited
        cores = value if named else shapes.cores_asked(jobs, job, m.num_gpus, workers, servers)
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
