"""Monitor readings of running jobs, with measurement errors: busy GPUs, bandwidth demand, and estimated core demand.

Measurement errors are normal numbers that belong to a reading, an instant and a job, independent of the reader.
They are not drawn in sequence: each is a hash of what it belongs to. The mixing function is `lowbias32` (C.
Wellons, "Prospecting for hash functions", 2018); two of its values make a normal number (Box and Muller, 1958).

The core demand of a job is estimated from its GPU utilisation. It is read where a job has had its GPUs
exclusively, in the shape it asks for, for at least a minute: GPUs that are busy for a fraction b of the time
with c cores each need g c / b cores if b is below g = TARGET_BUSY_SHARE, and no more than c otherwise. Times
with b below g, which are more informative, are accumulated separately from the others: otherwise a surplus of
cores at one time would hide a shortage at another. Times in which host memory or inter-node links are
overloaded are excluded, since GPUs then wait for other reasons; monitors of memory and links would show that.
"""

import math

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, MAX_SHARE, MIN_CORES, NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.speed import demand_on, drawn_by_each

BUSY, DRAWN = range(2)  # kinds of readings: busy seconds of GPUs, demanded host-memory bandwidth
READINGS = ("busy_s", "drawn_gbs")
WORD = 0xFFFFFFFF
BUSY_ERROR_S = 0.85  # standard error of busy seconds: 2 points of utilisation over 60 s; our assumption
LARGEST_ERROR = 7.0  # exceeds any result of `error_at`: (66 ln 2)^(1/2) = 6.8, from 32-bit numbers
BANDWIDTH_ERROR = 0.02  # relative standard error of a bandwidth reading; our assumption
TARGET_BUSY_SHARE = 0.96  # target of busy share relative to the best, as in our version of CODA's tuner
MIN_READING_S = 60.0  # minimum time of exclusive GPUs before a reading: the tuner's window
NO_INSTANT = -1  # instant to which the errors of finished jobs' readings belong, so that they stay constant


@compiled
def mixed(word):
    """Return a 32-bit word of which every bit depends on all bits of the argument."""
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
    # Two uniform numbers in (0, 1), then the Box-Muller transform.
    first = (mixed(word ^ 0x9E3779B9) + 0.5) / 2.0**32
    second = (mixed(word ^ 0x3C6EF372) + 0.5) / 2.0**32
    return np.sqrt(-2.0 * np.log(first)) * np.cos(2.0 * np.pi * second)


@compiled
def error_of(s, reading, job):
    """Return the standard normal error of a reading of a job at the current instant."""
    return error_at(s, reading, int(s.instant), job)


@entry
def errors(states, e, reading, out):
    """Write the errors of a reading of every arrived job."""
    for job in range(states[e].num_arrived):
        out[job] = error_of(states[e], reading, job)


@compiled
def is_read(s, job):
    """Return whether a running job's GPUs can currently wait for nothing but cores."""
    return s.shared_fraction[job] == 0 and s.undisturbed[job]


@compiled
def bank_readings(s, job):
    """Accumulate a running job's reading time, the busy time of its GPUs, and the core-seconds per GPU."""
    if is_read(s, job):
        spent = s.clock - s.read_at[job]
        short = int(s.efficiency[job] < TARGET_BUSY_SHARE)
        s.read_s[job, short] += spent
        s.read_busy_s[job, short] += s.efficiency[job] * spent
        s.read_core_s[job, short] += s.core_count[job] * spent
    s.read_at[job] = s.clock


@compiled
def read_now(s, job, short):
    """Return a job's reading time so far, the busy time of its GPUs, s, and the core-seconds per GPU."""
    seconds, busy, cores = s.read_s[job, short], s.read_busy_s[job, short], s.read_core_s[job, short]
    if s.phase[job] == RUNNING and is_read(s, job) and int(s.efficiency[job] < TARGET_BUSY_SHARE) == short:
        spent = s.clock - s.read_at[job]
        return seconds + spent, busy + s.efficiency[job] * spent, cores + s.core_count[job] * spent
    return seconds, busy, cores


@compiled
def reading(s, jobs, job):
    """Return the busy share of a job's GPUs, the logarithm of the cores per GPU that they need, and its standard error.

    Zeros if the GPUs were read for less than a minute, or if the job has parameter servers, whose cores cannot
    be separated. The busy share is the difference of two readings of busy seconds, with the errors of this
    instant.
    """
    short = 1
    seconds, busy, cores = read_now(s, job, short)
    if seconds < MIN_READING_S:
        short = 0
        seconds, busy, cores = read_now(s, job, short)
    if jobs[job].num_gpus == 0 or jobs[job].servers > 0 or seconds < MIN_READING_S:
        return 0.0, 0.0, 0.0
    done = s.phase[job] == DONE
    normal = error_at(s, BUSY, NO_INSTANT, job) if done else error_of(s, BUSY, job)
    # The difference of two readings has sqrt(2) times the error of one.
    error = math.sqrt(2.0) * BUSY_ERROR_S / seconds
    share = min(max(busy / seconds + error * normal, error), 1.0)
    share = min(share, TARGET_BUSY_SHARE - 1e-9) if short else max(share, TARGET_BUSY_SHARE)
    # Cores that would bring the busy share to TARGET_BUSY_SHARE, if it is proportional to cores.
    need = math.log(max(TARGET_BUSY_SHARE * cores / seconds / share, MIN_CORES))
    return share, need, error / share


@compiled
def is_informative(share, need, believed):
    """Return whether a reading is informative: it shows a shortage of cores, or a smaller need than is believed."""
    return share > 0 and (share < TARGET_BUSY_SHARE or need < believed)


@compiled
def busy_read(s, job):
    """Return the seconds that a running job's GPUs were busy so far, as a monitor reads it."""
    busy = s.busy_s[job] + s.efficiency[job] * (s.clock - s.banked[job])
    return busy + BUSY_ERROR_S * error_of(s, BUSY, job) if busy > 0 else busy


@compiled
def error_drawn(s, m, job):
    """Return the standard normal error of a job's bandwidth reading at this instant; cached in `m`."""
    if m.error_seed != s.seed:
        m.error_seed = s.seed
        m.error_at[:] = -1
    if m.error_at[job] != s.instant:
        m.error_at[job] = s.instant
        m.error_drawn[job] = error_of(s, DRAWN, job)
    return m.error_drawn[job]


@compiled
def drawn_read(s, jobs, m, job):
    """Return the host-memory bandwidth that a running job demands per GPU, or in total without GPUs, GB/s, as read."""
    drawn = jobs[job].gbs_each
    if jobs[job].num_gpus == 0:
        drawn = drawn * (s.core_count[job] / max(jobs[job].cores_each, 1e-9)) * s.throttle[job]
    elif s.width[job] > 0:
        drawn = drawn_by_each(s, jobs, job)
    else:
        return 0.0
    return drawn * (1.0 + BANDWIDTH_ERROR * error_drawn(s, m, job))


@compiled
def is_surely_enough(s, jobs, m, share):
    """Return whether no error could lift a node's demand above a share of its bandwidth, and no CPU job is throttled.

    Writes the demand on each node without errors: as found for the speeds if nothing has changed since.
    """
    for at in range(m.num_running):
        if s.throttle[m.running[at]] < 1.0:
            return False
    for node in range(s.num_nodes):
        m.drawn[node] = s.demanded_gbs[node]
        if s.changed[node] or not s.varying:
            m.drawn[node] = demand_on(s, jobs, node)
        if m.drawn[node] * (1.0 + BANDWIDTH_ERROR * LARGEST_ERROR) > share * s.node_gbs:
            return False
    return True


@compiled
def read_bandwidth(s, jobs, m, share):
    """Write the bandwidth that the listed running jobs demand on each node, with errors only if they matter.

    share: share of a node's bandwidth above which demand matters.
    """
    if is_surely_enough(s, jobs, m, share):
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
    """Return whether, as read, more bandwidth is demanded on one of a job's nodes than it has."""
    if not s.bandwidth_binds:
        return False
    slot = s.first_slot[job]
    while slot != NOBODY:
        if m.drawn[s.gpu_node[slot // MAX_SHARE]] > s.node_gbs:
            return True
        slot = s.next_slot[slot]
    return False


@compiled
def as_time(seconds):
    """Return a time scaled to about [0, 1], for features."""
    return np.log1p(max(seconds, 0.0) / 60.0) / 4.0


@compiled
def largest_memory(s):
    """Return the memory of the largest GPU, GiB."""
    return s.group_memory[s.num_groups - 1]
