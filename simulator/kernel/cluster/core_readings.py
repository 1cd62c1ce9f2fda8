"""How many cores the GPUs of a job need, as a monitor reads it that knows how busy they are and how many they have.

It is read where a job has had its GPUs alone, in the shape it asks for, for a minute: GPUs that are busy for a share b
of the time with c cores each need GOOD c / b of them where b is below GOOD, and no more than that in any case. Times
with b below GOOD, which tell more, are counted apart from the others: else the cores that are too many at one time
would make those look too few that are so at another. Left out are times in which the memory of a node, or the links
between nodes, are asked for more than they give, which monitors of these would tell: then GPUs wait for other reasons.
"""

import math

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, LEAST_CORES, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.noise import BUSY, BUSY_ERROR_S, error_at, error_of

GOOD = 0.96  # busy share that cores are to reach, over the best: as CODA's tuner here
LEAST_READ_S = 60.0  # of having GPUs alone: the tuner's window
NO_INSTANT = -1  # that errors of ended jobs' readings belong to: they stay as they are


@compiled
def is_read(s, job):
    """Tell whether a running job's GPUs wait for nothing but cores, as things are."""
    return s.shared_fraction[job] == 0 and s.undisturbed[job]


@compiled
def bank_readings(s, job):
    """Bank how long a running job's GPUs have been read, how busy they were, and its cores for each."""
    if is_read(s, job):
        spent = s.clock - s.read_at[job]
        short = int(s.efficiency[job] < GOOD)
        s.read_s[job, short] += spent
        s.read_busy_s[job, short] += s.efficiency[job] * spent
        s.read_core_s[job, short] += s.core_count[job] * spent
    s.read_at[job] = s.clock


@compiled
def read_now(s, job, short):
    """Return how long a job's GPUs have been read so far, how busy they were, s, and its core-seconds for each."""
    seconds, busy, cores = s.read_s[job, short], s.read_busy_s[job, short], s.read_core_s[job, short]
    if s.phase[job] == RUNNING and is_read(s, job) and int(s.efficiency[job] < GOOD) == short:
        spent = s.clock - s.read_at[job]
        return seconds + spent, busy + s.efficiency[job] * spent, cores + s.core_count[job] * spent
    return seconds, busy, cores


@compiled
def reading(s, jobs, job):
    """Return how busy the GPUs of a job were that were read, a share, the log cores they need, and its error.

    0, 0, 0 where they were not for a minute, or it has parameter servers, whose cores are not told apart. As a monitor
    reads them: two readings of busy seconds, with the errors that they have at this instant.
    """
    short = 1
    seconds, busy, cores = read_now(s, job, short)
    if seconds < LEAST_READ_S:
        short = 0
        seconds, busy, cores = read_now(s, job, short)
    if jobs[job].num_gpus == 0 or jobs[job].servers > 0 or seconds < LEAST_READ_S:
        return 0.0, 0.0, 0.0
    done = s.phase[job] == DONE
    normal = error_at(s, BUSY, NO_INSTANT, job) if done else error_of(s, BUSY, job)
    error = math.sqrt(2.0) * BUSY_ERROR_S / seconds
    share = min(max(busy / seconds + error * normal, error), 1.0)
    share = min(share, GOOD - 1e-9) if short else max(share, GOOD)
    need = math.log(max(GOOD * cores / seconds / share, LEAST_CORES))
    return share, need, error / share


@compiled
def tells(share, need, believed):
    """Tell whether a reading says more than that a job needs no more cores than is believed."""
    return share > 0 and (share < GOOD or need < believed)
