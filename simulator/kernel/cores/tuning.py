"""How many CPU cores a job needs for each of its GPUs, found by trying: CODA's adaptive allocator, inferred.

A reading is the share of a window in which a job's GPUs were busy, the job having the same number of cores all the
while. The least number with a reading about as good as the best is searched for: upwards while readings rise, in
proportion to what is missing to busy GPUs; then downwards between a number that was too small and one that is enough.
What has been tried is remembered, so that nothing is tried twice.
"""

import math

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.readings import busy_read, is_short_of_bandwidth, read_bandwidth
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers
from gpu_cluster_gym.simulator.kernel.cores.core_memory import MOST_TRIED

GROWTH = 1.5  # at least, from one number of cores to the next; our choice


@compiled
def feeding_now(s, job):
    """Cores a GPU of a running job that are not its parameter servers'."""
    return s.core_count[job] - cores_of_servers(s.servers[job], s.workers[job], s.width[job])


@compiled
def is_known(m, job):
    """Tell whether anything has been kept of a job since readings were last taken."""
    return m.watched_at[job] == m.watches


@compiled
def wanted_by_trial(m, job):
    """Cores a GPU that a job wants by what has been tried."""
    return m.want[job] if is_known(m, job) else m.first_guess


@compiled
def between(own, learned, trust):
    """Return what lies between two numbers, by their logarithms: the second itself where trust is 1."""
    if own == learned or trust == 1.0:
        return learned
    return math.exp((1.0 - trust) * math.log(own) + trust * math.log(learned))


@compiled
def know(m, job):
    """Begin to keep what is learned of a job."""
    m.watched_at[job] = m.watches
    m.want[job] = m.first_guess
    m.gain[job] = 1.0
    m.window_cores[job] = 0.0
    m.num_tried[job] = 0


@compiled
def begin_window(s, m, job, busy, cores):
    """Begin a window with so many cores."""
    m.window_began[job] = s.clock
    m.window_busy[job] = busy
    m.window_cores[job] = cores


@compiled
def tried_at(m, job, cores):
    """Return the place of a number of cores among those tried, or -1."""
    for k in range(m.num_tried[job]):
        if m.tried[job, k] == cores:
            return k
    return -1


@compiled
def place_for(m, job, cores):
    """Return the place where a number of cores is kept from now on: a new one, or that of the one watched least."""
    k = m.num_tried[job]
    if k < MOST_TRIED:
        m.num_tried[job] += 1
    else:
        k = 0
        for other in range(MOST_TRIED):
            if m.tried_s[job, other] < m.tried_s[job, k]:
                k = other
    m.tried[job, k] = cores
    m.tried_s[job, k] = 0.0
    m.tried_busy[job, k] = 0.0
    return k


@compiled
def reading(m, job, k):
    """Share of time in which a job's GPUs were busy with the k-th number of cores."""
    return min(m.tried_busy[job, k] / m.tried_s[job, k], 1.0)


@compiled
def best_reading(m, job):
    """Return the greatest share."""
    best = -np.inf
    for k in range(m.num_tried[job]):
        best = max(best, reading(m, job, k))
    return best


@compiled
def enough(m, job, best):
    """Return the place of the least number of cores with a reading within `eps` of the best."""
    good = -1
    for k in range(m.num_tried[job]):
        if reading(m, job, k) >= best - m.eps and (good < 0 or m.tried[job, k] < m.tried[job, good]):
            good = k
    return good


@compiled
def next_cores(m, job, best, good):
    """Return how many cores to try next; where all is known, what is enough."""
    most = 0.0
    fewer = -1
    for k in range(m.num_tried[job]):
        most = max(most, m.tried[job, k])
        if m.tried[job, k] < m.tried[job, good] and (fewer < 0 or m.tried[job, k] > m.tried[job, fewer]):
            fewer = k
    cores = m.tried[job, good]
    if cores == most and best < 1 - m.eps:
        return np.ceil(most * max(GROWTH, (1 - m.eps) / max(best, m.eps)))
    below = m.tried[job, fewer] if fewer >= 0 else 0.0
    if cores - below <= 1:
        return np.ceil(cores)
    guess = below * (best - m.eps) / max(reading(m, job, fewer), m.eps) if fewer >= 0 else cores / 2
    return np.ceil(min(max(guess, below + 1), cores - 1))


@compiled
def end_window(s, m, job, busy):
    """Learn from a window, and begin the next; forget all others if it is far below those with these cores."""
    spent, used, cores = s.clock - m.window_began[job], busy - m.window_busy[job], m.window_cores[job]
    k = tried_at(m, job, cores)
    if k >= 0 and used / spent < m.tried_busy[job, k] / m.tried_s[job, k] - m.drop:
        m.num_tried[job] = 0
        k = -1
    if k < 0:
        k = place_for(m, job, cores)
    m.tried_s[job, k] += spent
    m.tried_busy[job, k] += used
    best = best_reading(m, job)
    good = enough(m, job, best)
    m.want[job] = next_cores(m, job, best, good)
    m.gain[job] = reading(m, job, good) / m.tried[job, good]
    begin_window(s, m, job, busy, cores)


@compiled
def watch(s, jobs, m):
    """Learn from windows that are over; to be called at an instant before anything is changed.

    What was known of jobs that do not run any more is forgotten. The running jobs have been listed.
    """
    m.watches += 1
    for at in range(m.num_running):
        job = m.running[at]
        if jobs[job].num_gpus == 0:
            continue
        if m.watched_at[job] == m.watches - 1:
            m.watched_at[job] = m.watches
        else:
            know(m, job)
        if m.window_cores[job] > 0 and s.clock - m.window_began[job] >= m.window_s:
            end_window(s, m, job, busy_read(s, job))


@compiled
def begin_windows(s, jobs, m):
    """Begin windows where cores have changed; to be called last at an instant. Tell whether any is of use.

    Readings tell nothing about cores where the memory of a node is too slow. The running jobs have been listed.
    """
    if s.bandwidth_binds:
        read_bandwidth(s, jobs, m)
    of_use = False
    for at in range(m.num_running):
        job = m.running[at]
        if jobs[job].num_gpus == 0:
            continue
        if not is_known(m, job):
            know(m, job)
        cores = feeding_now(s, job)
        in_vain = s.clock - s.phase_began[job] < m.window_s or is_short_of_bandwidth(s, m, job)
        if in_vain:
            m.window_cores[job] = 0.0
        elif m.window_cores[job] != cores:
            begin_window(s, m, job, busy_read(s, job), cores)
        of_use |= in_vain or tried_at(m, job, cores) < 0
    return of_use


@compiled
def list_running(s, m):
    """List the running jobs, by job; those of the last list are sorted already."""
    count = 0
    for at in range(m.num_running):
        job = m.running[at]
        if s.phase[job] == RUNNING:
            m.running[count] = job
            m.is_listed[job] = 1
            count += 1
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] != RUNNING or m.is_listed[job]:
            continue
        at = count
        while at > 0 and m.running[at - 1] > job:
            m.running[at] = m.running[at - 1]
            at -= 1
        m.running[at] = job
        count += 1
    m.num_running = count
    for at in range(count):
        m.is_listed[m.running[at]] = 0
