"""Number of CPU cores that a job needs for each of its GPUs, found by trying: CODA's adaptive allocator, inferred.

A reading is the share of a window in which a job's GPUs were busy, while the job had the same number of cores. The
search looks for the smallest number with a reading about as good as the best: upwards while readings rise, in
proportion to what is missing to busy GPUs; then downwards between a number that was too small and one that is enough.
Readings are kept, so that no number is tried twice.
"""

import math

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.plan import Fields
from gpu_cluster_gym.simulator.kernel.cluster.readings import busy_read, is_short_of_bandwidth, read_bandwidth
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers

GROWTH = 1.5  # smallest factor from one number of cores to the next; our choice
MAX_TRIED = 16  # numbers of cores that are kept for a job; the one watched least makes space for another

TUNING_FIELDS: Fields = (
    ("window_s", "f8"),
    ("eps", "f8"),  # by which GPUs may be less busy than at best
    ("drop", "f8"),  # by which GPUs must be less busy than before for a job to be tuned again
    ("watches", "i8"),  # number of instants at which readings were taken
    ("watched_at", "i8", ("jobs",)),  # the last of these at which the job ran
    ("want", "f8", ("jobs",)),  # cores per GPU
    ("gain", "f8", ("jobs",)),  # share of time that a GPU is busy for each core
    ("window_began", "f8", ("jobs",)),  # time, s
    ("window_busy", "f8", ("jobs",)),  # busy seconds read then
    ("window_cores", "f8", ("jobs",)),  # cores per GPU since then; 0 outside of windows
    ("num_tried", "i4", ("jobs",)),
    ("tried", "f8", ("jobs", MAX_TRIED)),  # cores per GPU
    ("tried_s", "f8", ("jobs", MAX_TRIED)),  # seconds in windows with this number of cores
    ("tried_busy", "f8", ("jobs", MAX_TRIED)),  # busy seconds in them
    # scratch: the running jobs
    ("num_running", "i8"),
    ("running", "i4", ("jobs",)),  # by job
    ("is_listed", "i1", ("jobs",)),
)


@compiled
def feeding_now(s, job):
    """Return the cores per GPU of a running job without those of its parameter servers."""
    return s.core_count[job] - cores_of_servers(s.servers[job], s.workers[job], s.width[job])


@compiled
def is_known(m, job):
    """Return whether the job ran when readings were last taken, so that its readings are valid."""
    return m.watched_at[job] == m.watches


@compiled
def wanted_by_trial(m, job):
    """Return the cores per GPU that a job wants by what has been tried."""
    return m.want[job] if is_known(m, job) else m.first_guess


@compiled
def between(own, learned, trust):
    """Return the weighted geometric mean of two numbers; trust: weight of the second."""
    if own == learned or trust == 1.0:
        return learned
    return math.exp((1.0 - trust) * math.log(own) + trust * math.log(learned))


@compiled
def know(m, job):
    """Begin to keep the readings of a job."""
    m.watched_at[job] = m.watches
    m.want[job] = m.first_guess
    m.gain[job] = 1.0
    m.window_cores[job] = 0.0
    m.num_tried[job] = 0


@compiled
def begin_window(s, m, job, busy, cores):
    """Begin a window of a job; busy: its busy seconds so far; cores: for each GPU."""
    m.window_began[job] = s.clock
    m.window_busy[job] = busy
    m.window_cores[job] = cores


@compiled
def tried_at(m, job, cores):
    """Return the place of a number of cores among those tried, -1 if there is none."""
    for k in range(m.num_tried[job]):
        if m.tried[job, k] == cores:
            return k
    return -1


@compiled
def place_for(m, job, cores):
    """Return a place for a number of cores: a new one, or that of the number watched least."""
    k = m.num_tried[job]
    if k < MAX_TRIED:
        m.num_tried[job] += 1
    else:
        k = 0
        for other in range(MAX_TRIED):
            if m.tried_s[job, other] < m.tried_s[job, k]:
                k = other
    m.tried[job, k] = cores
    m.tried_s[job, k] = 0.0
    m.tried_busy[job, k] = 0.0
    return k


@compiled
def reading(m, job, k):
    """Return the share of time in which a job's GPUs were busy with the k-th number of cores."""
    return min(m.tried_busy[job, k] / m.tried_s[job, k], 1.0)


@compiled
def best_reading(m, job):
    """Return the largest reading of a job."""
    best = -np.inf
    for k in range(m.num_tried[job]):
        best = max(best, reading(m, job, k))
    return best


@compiled
def enough(m, job, best):
    """Return the place of the smallest number of cores with a reading within `eps` of the best."""
    good = -1
    for k in range(m.num_tried[job]):
        if reading(m, job, k) >= best - m.eps and (good < 0 or m.tried[job, k] < m.tried[job, good]):
            good = k
    return good


@compiled
def next_cores(m, job, best, good):
    """Return the number of cores to try next; the smallest that is enough where all is known."""
    most = 0.0
    fewer = -1
    for k in range(m.num_tried[job]):
        most = max(most, m.tried[job, k])
        if m.tried[job, k] < m.tried[job, good] and (fewer < 0 or m.tried[job, k] > m.tried[job, fewer]):
            fewer = k
    cores = m.tried[job, good]
    # The largest number tried is the best so far: try more, in proportion to the idle share of the GPUs.
    if cores == most and best < 1 - m.eps:
        return np.ceil(most * max(GROWTH, (1 - m.eps) / max(best, m.eps)))
    below = m.tried[job, fewer] if fewer >= 0 else 0.0
    if cores - below <= 1:
        return np.ceil(cores)
    # Too few cores: GPUs are busy in proportion to them. Guess the number at which the best reading is reached.
    guess = below * (best - m.eps) / max(reading(m, job, fewer), m.eps) if fewer >= 0 else cores / 2
    return np.ceil(min(max(guess, below + 1), cores - 1))


@compiled
def end_window(s, m, job, busy):
    """Add the reading of a window and begin the next; forget all others if it is far below earlier ones like it."""
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
    """Read windows that are over; to be called at an instant before anything is changed.

    Readings of jobs that do not run any more are forgotten. Needs `list_running`.
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
    """Begin windows where cores have changed, as the last step of an instant; return whether any window is of use.

    Where the memory of a node is too slow, a reading says nothing about cores. Needs `list_running`.
    """
    if s.bandwidth_binds:
        read_bandwidth(s, jobs, m, 1.0)
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
    """List the running jobs, by job; those of the last list are already sorted."""
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
