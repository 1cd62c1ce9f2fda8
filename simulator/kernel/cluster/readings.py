"""Errors of measurement: normal numbers that belong to a reading, an instant and a job, whoever reads them and when.

Nothing is drawn one after the other: each number is a hash of what it belongs to. The mixing function is `lowbias32`
(C. Wellons, "Prospecting for hash functions", 2018); two of its values make a normal number (Box and Muller, 1958).
"""

import math

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, LEAST_CORES, MAX_SHARE, NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.speed import demand_on, drawn_by_each

BUSY, DRAWN = range(2)  # readings: how busy GPUs were, what is drawn from host memory
READINGS = ("busy_s", "drawn_gbs")
WORD = 0xFFFFFFFF
BUSY_ERROR_S = (
    0.85  # standard error of a reading of busy seconds: 2 points of utilisation over 60 s; our assumption
)
LARGEST_ERROR = 7.0  # more than `error_at` can return: (66 ln 2)^(1/2) = 6.8, from numbers of 32 bits
BANDWIDTH_ERROR = 0.02  # standard error of a reading of bandwidth, as a share of it; our assumption


@compiled
def mixed(word):
    """Return 32 bits that all depend on all of 32."""
    word ^= word >> 16
    word = word * 0x7FEB352D & WORD
    word ^= word >> 15
    word = word * 0x846CA68B & WORD
    return word ^ word >> 16


@compiled
def error_at(s, reading, instant, job):
    """Return the standard normal error of a reading of a job at an instant."""
    seed = int(s.seed)
    word = mixed(seed & WORD)
    word = mixed(word ^ seed >> 32 & WORD)
    word = mixed(word ^ (2 * instant + reading & WORD))
    word = mixed(word ^ int(job))
    first = (mixed(word ^ 0x9E3779B9) + 0.5) / 2.0**32
    second = (mixed(word ^ 0x3C6EF372) + 0.5) / 2.0**32
    return np.sqrt(-2.0 * np.log(first)) * np.cos(2.0 * np.pi * second)


@compiled
def error_of(s, reading, job):
    """Return the standard normal error of a reading of a job at this instant."""
    return error_at(s, reading, int(s.instant), job)


@entry
def errors(states, e, reading, out):
    """Write the errors of a reading of every job that has arrived."""
    for job in range(states[e].num_arrived):
        out[job] = error_of(states[e], reading, job)


# FROM simulator/kernel/cluster/core_readings.py
# How many cores the GPUs of a job need, as a monitor reads it that knows how busy they are and how many they have.
#
# It is read where a job has had its GPUs alone, in the shape it asks for, for a minute: GPUs that are busy for a share b
# of the time with c cores each need GOOD c / b of them where b is below GOOD, and no more than that in any case. Times
# with b below GOOD, which tell more, are counted apart from the others: else the cores that are too many at one time
# would make those look too few that are so at another. Left out are times in which the memory of a node, or the links
# between nodes, are asked for more than they give, which monitors of these would tell: then GPUs wait for other reasons.


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


# FROM simulator/kernel/cluster/readings.py
# What a monitor reads of running jobs, each reading with its error: busy GPUs, bandwidth drawn from host memory.


@compiled
def busy_read(s, job):
    """Seconds that a running job's GPUs were busy with it so far, as a monitor reads it."""
    busy = s.busy_s[job] + s.efficiency[job] * (s.clock - s.banked[job])
    return busy + BUSY_ERROR_S * error_of(s, BUSY, job) if busy > 0 else busy


@compiled
def error_drawn(s, m, job):
    """Return the standard normal error of what is read of a job's bandwidth at this instant; found once for each."""
    if m.error_seed != s.seed:
        m.error_seed = s.seed
        m.error_at[:] = -1
    if m.error_at[job] != s.instant:
        m.error_at[job] = s.instant
        m.error_drawn[job] = error_of(s, DRAWN, job)
    return m.error_drawn[job]


@compiled
def drawn_read(s, jobs, m, job):
    """GB/s of host memory that a running job draws on each of its GPUs' behalf, as a whole if it has none."""
    drawn = jobs[job].gbs_each
    if jobs[job].num_gpus == 0:
        drawn = drawn * (s.core_count[job] / max(jobs[job].cores_each, 1e-9)) * s.throttle[job]
    elif s.width[job] > 0:
        drawn = drawn_by_each(s, jobs, job)
    else:
        return 0.0
    return drawn * (1.0 + BANDWIDTH_ERROR * error_drawn(s, m, job))


@compiled
def is_surely_enough(s, jobs, m):
    """Tell whether no error could make a node's memory seem to give too little, and no CPU job is throttled.

    What is drawn is written without errors: as it was found for the speeds, where nothing has changed since.
    """
    for at in range(m.num_running):
        if s.throttle[m.running[at]] < 1.0:
            return False
    for node in range(s.num_nodes):
        m.drawn[node] = s.demanded_gbs[node]
        if s.changed[node] or not s.varying:
            m.drawn[node] = demand_on(s, jobs, node)
        if m.drawn[node] * (1.0 + BANDWIDTH_ERROR * LARGEST_ERROR) > s.node_gbs:
            return False
    return True


@compiled
def read_bandwidth(s, jobs, m):
    """Write what running jobs, which have been listed, draw from each node's memory, with errors if they matter."""
    if is_surely_enough(s, jobs, m):
        return
    m.drawn[: s.num_nodes] = 0.0
    for at in range(m.num_running):
        job = m.running[at]
        if s.node_of[job] != NOBODY:
            m.drawn[s.node_of[job]] += drawn_read(s, jobs, m, job)
    for slot in range(MAX_SHARE * s.num_gpus):
        job = s.job_in[slot]
        if job != NOBODY and s.phase[job] == RUNNING:
            m.drawn[s.gpu_node[slot // MAX_SHARE]] += drawn_read(s, jobs, m, job)


@compiled
def is_short_of_bandwidth(s, m, job):
    """Tell whether the memory of one of a job's nodes gives less than is drawn from it; that has been read."""
    if not s.bandwidth_binds:
        return False
    slot = s.first_slot[job]
    while slot != NOBODY:
        if m.drawn[s.gpu_node[slot // MAX_SHARE]] > s.node_gbs:
            return True
        slot = s.next_slot[slot]
    return False


# FROM simulator/kernel/cluster/scales.py
# Scales of what agents see: every time and memory comes into about [0, 1].


@compiled
def as_time(seconds):
    """Bring a time onto the scale of the other features."""
    return np.log1p(max(seconds, 0.0) / 60.0) / 4.0


@compiled
def largest_memory(s):
    """Memory of the largest GPU, GiB."""
    return s.level_memory[s.num_levels - 1]
