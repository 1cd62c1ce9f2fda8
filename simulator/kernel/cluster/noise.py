"""Errors of measurement: normal numbers that belong to a reading, an instant and a job, whoever reads them and when.

Nothing is drawn one after the other: each number is a hash of what it belongs to. The mixing function is `lowbias32`
(C. Wellons, "Prospecting for hash functions", 2018); two of its values make a normal number (Box and Muller, 1958).
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry

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
