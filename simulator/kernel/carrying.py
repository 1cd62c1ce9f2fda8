"""Moves that a policy has written down, carried out inside the kernel.

Its memory has what is named here by these names.
"""

from simulator.kernel import actions, shapes
from simulator.kernel._compile import allocating
from simulator.kernel.core_memory import START


@allocating
def carry_out(s, jobs, m, kind, workers, servers):
    """Start or move the job that is written down; workers, servers: 0 and -1 where they are left open."""
    job, gpus = m.move_job, m.gpus[: m.num_gpus]
    gpus.sort()
    workers, servers = shapes.meant(jobs, job, len(gpus), workers, servers)
    cores = shapes.cores_asked(jobs, job, len(gpus), workers, servers)
    if kind == START:
        actions.start_as(s, jobs, job, gpus, workers, servers, cores, m.node)
    else:
        actions.move(s, jobs, job, gpus, workers, servers, cores, m.node)
