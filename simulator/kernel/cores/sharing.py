"""CPU cores divided among running jobs, and CPU jobs throttled: CODA's multi-array scheduler and eliminator, inferred.

On each node some cores for each GPU are reserved for jobs with GPUs, the rest is for CPU jobs. Each side borrows what
the other leaves idle, and gives it back by shrinking, without a pause: a job that has more than the reserve of its GPUs
shrinks when a CPU job comes, and the CPU job that came last when a job with GPUs needs its reserve. The number of cores
that a job needs is found by `tuning`. Moves are proposed, not made. `union` uses the same functions.
"""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, OPEN, Tier
from gpu_cluster_gym.simulator.kernel.cluster.placement import may_use
from gpu_cluster_gym.simulator.kernel.cluster.plan import (
    CORES,
    LIST_FIELDS,
    START,
    THROTTLE,
    Fields,
    dtype_of,
    propose,
)
from gpu_cluster_gym.simulator.kernel.cluster.readings import drawn_read, read_bandwidth
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers
from gpu_cluster_gym.simulator.kernel.cores.tuning import (
    TUNING_FIELDS,
    begin_windows,
    between,
    is_known,
    know,
    list_running,
    wanted_by_trial,
    watch,
)

WHOLE = 1.0  # share of the cores it requests that a CPU job keeps: all
MIN_SHARE = 0.5  # the same where another CPU job comes; our choice
EPS = 1e-6  # of sums of cores
MIN_GAIN = 1e-9
LEVELS = 10  # of Intel's memory bandwidth allocation, in steps of 10 %; from memory, not checked against the manual
RELAXED = 0.95  # share of the limit of throttling below which a CPU job is released

WINDOW_S = 60.0  # shortest time for which a number of cores is watched; the first after a start is not read
TOLERANCE = 0.04  # by which GPUs may be less busy than at best
DROP = 0.1  # a job that is so much less busy than it was with the same cores is tuned again

CORE_FIELDS: Fields = (
    ("instant", "i8"),  # of the last look
    *LIST_FIELDS,
    *TUNING_FIELDS,
    # errors of readings of bandwidth
    ("error_seed", "i8"),
    ("error_at", "i8", ("jobs",)),  # instant of the error that was drawn last
    ("error_drawn", "f8", ("jobs",)),
    # scratch: jobs
    ("num_by_gain", "i8"),
    ("by_gain", "i4", ("jobs",)),  # running jobs with GPUs, by the gain of a core
    ("rows", "i4", ("jobs",)),
    ("key", "f8", ("jobs",)),
    (
        "left_s",
        "f8",
        ("jobs",),
    ),  # seconds left: of a queued job as requested and alone, of others as things are
    (
        "learned",
        "f8",
        ("jobs",),
    ),  # cores per GPU that a job needs, predicted from finished jobs; 0 if unknown
    ("wish", "f8", ("jobs",)),  # cores per GPU, servers included; of the whole job if it has no GPU
    ("given", "f8", ("jobs",)),  # cores of each job in the division
    # scratch: nodes
    ("node_room", "f8", ("nodes",)),  # cores that running jobs hold or could hold
    ("room_left", "f8", ("nodes",)),
    ("lacking", "f8", ("nodes",)),  # cores that running jobs must give up
    ("drawn", "f8", ("nodes",)),  # GB/s, as read
)

OWN_FIELDS: Fields = (
    ("reserve", "f8"),  # guaranteed cores per GPU of a job with GPUs
    ("first_guess", "f8"),  # cores per GPU that a job is assumed to need before anything is known
    ("shorter_first", "f8"),  # exponent of the seconds left, by which gains are divided; 0 here
    ("trust_cores", "f8"),  # weight of predictions from finished jobs relative to trial; 0 here
    (
        "surplus",
        "f8",
    ),  # maximum of what a job is given, relative to what it wants; no more than that if 0, as here
)
"""Fields that `union` has among its weights, and that other policies add to their memory."""


@cache
def core_dtype(size: Tier) -> np.dtype:
    """Return the record type of the memory of a policy that divides cores, at a tier."""
    return dtype_of((*OWN_FIELDS, *CORE_FIELDS), size)


def init_tuning(
    memory: np.ndarray, window_s: float = WINDOW_S, eps: float = TOLERANCE, drop: float = DROP
) -> None:
    """Write the settings of the tuner into a memory of zeros, and that nothing has been read."""
    memory["window_s"], memory["eps"], memory["drop"] = window_s, eps, drop
    memory["instant"] = memory["node"] = memory["servers"] = memory["watched_at"] = memory["error_at"] = -1


# Cores wanted, and space for them.


@compiled
def servers_of(s, job):
    """Return the cores of the parameter servers of a running job, for each of its GPUs."""
    return cores_of_servers(s.servers[job], s.workers[job], s.width[job])


@compiled
def spread(s, job, cores, room):
    """Subtract cores for each GPU of a running job, or for the job as a whole, from `room[node]`."""
    if s.node_of[job] != NOBODY:
        room[s.node_of[job]] -= cores
    slot = s.first_slot[job]
    while slot != NOBODY:
        room[s.gpu_node[slot // MAX_SHARE]] -= cores
        slot = s.next_slot[slot]


@compiled
def more_cores(s, job, room):
    """Return the number of whole cores more that a running job could have for each of its GPUs, or as a whole."""
    if s.node_of[job] != NOBODY:
        return np.floor(room[s.node_of[job]])
    least = np.inf
    slot = s.first_slot[job]
    while slot != NOBODY:
        node = s.gpu_node[slot // MAX_SHARE]
        count = 0
        while slot != NOBODY and s.gpu_node[slot // MAX_SHARE] == node:  # a chain goes from node to node
            count += 1
            slot = s.next_slot[slot]
        least = min(least, np.floor(room[node] / count))
    return least if least < np.inf else 0.0


@compiled
def note_wishes(s, jobs, m):
    """Write the cores that each running job wants, and those of each node that running jobs have or could have."""
    for node in range(s.num_nodes):
        m.node_room[node] = s.unreserved_cores[node] + EPS
    for at in range(m.num_running):
        job = m.running[at]
        wanted = wanted_by_trial(m, job)
        if m.learned[job] > 0.0:  # between trial and the prediction from finished jobs, by its trust
            wanted = np.ceil(between(wanted, m.learned[job], m.trust_cores) - EPS)
        if jobs[job].num_gpus == 0:
            wanted = jobs[job].cores_each
        m.wish[job] = max(wanted, 1.0) + servers_of(s, job)
        spread(s, job, -s.core_count[job], m.node_room)


@compiled
def insert_by_key(m, listed, count, job):
    """Insert a job into a list that is sorted by (key, job)."""
    at = count
    while at > 0:
        before = listed[at - 1]
        if m.key[before] < m.key[job] or (m.key[before] == m.key[job] and before < job):
            break
        listed[at] = before
        at -= 1
    listed[at] = job


@compiled
def sort_rows(m, count):
    """Sort the first of `rows` by their keys, equal ones as they are."""
    for k in range(1, count):
        job = m.rows[k]
        at = k
        while at > 0 and m.key[m.rows[at - 1]] > m.key[job]:
            m.rows[at] = m.rows[at - 1]
            at -= 1
        m.rows[at] = job


@compiled
def give(s, m, job, most):
    """Raise the cores of a job to `most`, as far as there is space."""
    given = min(most - m.given[job], more_cores(s, job, m.room_left))
    if given > 0:
        m.given[job] += given
        spread(s, job, given, m.room_left)


@compiled
def list_cpu_jobs(s, jobs, m):
    """List the running CPU jobs in the order of their starts; return their number."""
    count = 0
    for at in range(m.num_running):
        job = m.running[at]
        if jobs[job].num_gpus == 0:
            m.rows[count] = job
            m.key[job] = s.phase_began[job]
            count += 1
    sort_rows(m, count)
    return count


@compiled
def gain_of(s, m, job):
    """Return the gain of a core for a running job with GPUs: the share of time that it makes a GPU busy."""
    gain = m.gain[job] if is_known(m, job) else 1.0
    if m.learned[job] > 0.0:
        each = 1.0 / (m.learned[job] * s.width[job])  # as if each of the needed cores did as much
        gain = between(max(gain, MIN_GAIN), each, m.trust_cores)
    return gain / max(m.left_s[job], 1.0) ** m.shorter_first if m.shorter_first != 0.0 else gain


@compiled
def list_by_gain(s, jobs, m):
    """List the running jobs with GPUs by the gain of a core, the largest first; the last order is nearly sorted."""
    for at in range(m.num_running):
        job = m.running[at]
        if jobs[job].num_gpus > 0:
            m.key[job] = -gain_of(s, m, job)
            m.is_listed[job] = 1
    before, m.num_by_gain = m.num_by_gain, 0
    for at in range(before):
        list_by_key(m, m.by_gain[at])
    for at in range(m.num_running):
        list_by_key(m, m.running[at])


@compiled
def list_by_key(m, job):
    """Insert a job into the list by gain if it is to be listed and is not yet."""
    if m.is_listed[job]:
        m.is_listed[job] = 0
        insert_by_key(m, m.by_gain, m.num_by_gain, job)
        m.num_by_gain += 1


@compiled
def divide(s, jobs, m, min_share):
    """Write the cores of each running job in a new division, whole numbers, into `given`.

    Each job has one and those of its servers, CPU jobs a minimum share of their request; then the reserve is given,
    then CPU jobs get what they request, in the order of their starts, then, by marginal gain per core, the others what
    they want, then what is left, up to `surplus` times that. `lacking[node]` cores are kept for other jobs. Needs
    `note_wishes`.
    """
    for node in range(s.num_nodes):
        m.room_left[node] = m.node_room[node] - m.lacking[node]
    for at in range(m.num_running):
        job = m.running[at]
        m.given[job] = 1.0 + servers_of(s, job)
        if jobs[job].num_gpus == 0:
            m.given[job] = min(max(np.ceil(min_share * m.wish[job]), 1.0), m.wish[job])
        spread(s, job, m.given[job], m.room_left)
    for at in range(m.num_running):
        job = m.running[at]
        if jobs[job].num_gpus > 0:
            give(s, m, job, min(m.wish[job], m.reserve + servers_of(s, job)))
    for at in range(list_cpu_jobs(s, jobs, m)):
        give(s, m, m.rows[at], m.wish[m.rows[at]])
    list_by_gain(s, jobs, m)
    for at in range(m.num_by_gain):
        give(s, m, m.by_gain[at], m.wish[m.by_gain[at]])
    if m.surplus > 1.0:
        give_surplus(s, m)


@compiled
def give_surplus(s, m):
    """Give the listed jobs with GPUs the cores that no job wants, up to `surplus` times what they want."""
    for at in range(m.num_by_gain):
        job = m.by_gain[at]
        servers = servers_of(s, job)
        give(s, m, job, np.ceil(m.surplus * (m.wish[job] - servers) - EPS) + servers)


@compiled
def change_cores(s, m, shrinks, keeps_servers):
    """Propose the changes to the new division, those that free cores first.

    shrinks: only where a job has less than before. keeps_servers: only of jobs without parameter servers.
    """
    count = 0
    for at in range(m.num_running):
        job = m.running[at]
        change = m.given[job] - s.core_count[job]
        if (shrinks and change > 0) or (keeps_servers and servers_of(s, job) > 0):
            continue
        if abs(change) > EPS:
            m.rows[count] = job
            m.key[job] = change
            count += 1
    sort_rows(m, count)
    for at in range(count):
        propose(m, CORES, m.rows[at], m.given[m.rows[at]])


@compiled
def node_for_cores(s, jobs, m, job):
    """Return the node, the first of equals, where a CPU job leaves most cores that no job wants, or NOBODY.

    It must fit beside the reserves. Needs `note_wishes`.
    """
    asked = max(jobs[job].cores_each, 1.0)
    sure, left = m.room_left, m.lacking  # scratch: cores beyond the reserves, and beyond what all jobs want
    for node in range(s.num_nodes):
        sure[node] = m.node_room[node]
        left[node] = m.node_room[node]
    for at in range(m.num_running):
        other = m.running[at]
        want = m.wish[other]
        spread(s, other, want, left)
        if jobs[other].num_gpus > 0:
            want = min(want, m.reserve + servers_of(s, other))
        spread(s, other, want, sure)
    best = NOBODY
    for node in range(s.num_nodes):
        if (
            sure[node] + EPS >= asked
            and s.closed[node] == OPEN
            and may_use(s, jobs, job, node)
            and (best == NOBODY or left[node] > left[best] + EPS)
        ):
            best = node
    return best


@compiled
def start_beside_reserves(s, jobs, m, job):
    """Propose the start of a CPU job beside the reserves, after what others give back; return whether it fits.

    Needs `note_wishes`. `lacking` is left as it is needed for this start.
    """
    node = node_for_cores(s, jobs, m, job)
    m.lacking[: s.num_nodes] = 0.0
    if node == NOBODY:
        return False
    m.lacking[node] = max(jobs[job].cores_each, 1.0)
    divide(s, jobs, m, MIN_SHARE)
    change_cores(s, m, True, False)
    m.num_gpus = 0
    m.node = node
    propose(m, START, job, 0.0)
    return True


# Throttling.


@compiled
def throttle_one(s, jobs, m, share):
    """Propose one step of throttling or releasing a CPU job; return whether there is one.

    Where more than a share of the bandwidth of a node's memory is drawn, and jobs on its GPUs may suffer, the CPU job
    that draws most goes down a level. A job goes up a level if the node's traffic then stays below
    RELAXED times that share.
    """
    if not s.bandwidth_binds:
        return False
    read_bandwidth(s, jobs, m, share)
    limit = share * s.node_gbs
    down, up = NOBODY, NOBODY
    most, lowest = 0.0, 2.0
    for at in range(m.num_running):
        job = m.running[at]
        if jobs[job].num_gpus > 0:
            continue
        node, level, drawn = s.node_of[job], s.throttle[job], drawn_read(s, jobs, m, job)
        slow = m.drawn[node] > limit and s.free[node] < s.node_gpus[node]
        if slow and drawn > most and level > 1.5 / LEVELS:
            most, down = drawn, job
        if level < min(lowest, 1.0) and m.drawn[node] + drawn / (level * LEVELS) <= RELAXED * limit:
            lowest, up = level, job
    job = down if down != NOBODY else up
    if job == NOBODY:
        return False
    step = -1 if down != NOBODY else 1
    propose(m, THROTTLE, job, (np.round(s.throttle[job] * LEVELS) + step) / LEVELS)
    return True


@compiled
def any_throttled(s, m):
    """Return whether any of the listed running jobs is throttled."""
    for at in range(m.num_running):
        if s.throttle[m.running[at]] < 1:
            return True
    return False


# Pieces for policies, and entries for policies in Python.


@compiled
def read(s, jobs, m, tunes, is_new):
    """Take readings if the instant is new, note what the running jobs want, and clear the proposals."""
    list_running(s, m)
    if is_new and tunes:
        watch(s, jobs, m)
    if not tunes:
        for at in range(m.num_running):
            know(m, m.running[at])
            m.want[m.running[at]] = jobs[m.running[at]].cores_each
    note_wishes(s, jobs, m)
    m.num_moves = 0


@compiled
def start_first_on_cores(s, jobs, m, queue):
    """Propose the start of the first CPU job of a queue that fits beside the reserves, after what others give back.

    Return whether there is one.
    """
    for job in queue:
        barred = jobs[job].num_gpus > 0 or s.last_action_instant[job] == s.instant
        if not barred and start_beside_reserves(s, jobs, m, job):
            return True
    return False


@compiled
def share_again(s, jobs, m, min_share):
    """Propose the changes of a new division of the cores, those that free cores first; see `divide`."""
    m.lacking[: s.num_nodes] = 0.0
    divide(s, jobs, m, min_share)
    change_cores(s, m, False, False)


@compiled
def watch_on(s, jobs, m, tunes):
    """Begin windows where cores have changed; return whether any is of use, or a job is throttled."""
    list_running(s, m)
    of_use = tunes and begin_windows(s, jobs, m)
    return of_use or any_throttled(s, m)


@entry
def look(states, e, memory, k, jobs, tunes):
    """Take readings, once an instant, note what the running jobs want, and clear the proposals.

    tunes: whether numbers of cores are found by trying; otherwise each job wants what it requests.
    """
    s, m = states[e], memory[k]
    is_new = m.instant != s.instant
    m.instant = s.instant
    read(s, jobs, m, tunes, is_new)


@entry
def start_on_cores(states, e, memory, k, jobs, queue, reserve):
    """Propose the start of the first CPU job of a queue that fits beside the reserves; see `start_first_on_cores`."""
    memory[k].reserve = reserve
    start_first_on_cores(states[e], jobs, memory[k], queue)


@entry
def share(states, e, memory, k, jobs, reserve, min_share):
    """Propose the changes of a new division of the cores, those that free cores first."""
    memory[k].reserve = reserve
    share_again(states[e], jobs, memory[k], min_share)


@entry
def throttle(states, e, memory, k, jobs, share):
    """Propose one step of throttling or releasing a CPU job, as the only move; return whether there is one.

    share: share of a node's bandwidth above which CPU jobs are throttled.
    """
    memory[k].num_moves = 0
    return throttle_one(states[e], jobs, memory[k], share)


@entry
def end_instant(states, e, memory, k, jobs, tunes):
    """Begin windows where cores have changed; return whether any is of use, or a job is throttled."""
    return watch_on(states[e], jobs, memory[k], tunes)
