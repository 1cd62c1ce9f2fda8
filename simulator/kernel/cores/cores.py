"""How many CPU cores each running job gets of those that all want: the reserves and loans of CODA's arrays, inferred.

On each node some cores for each GPU are reserved for jobs with GPUs, the rest is for CPU jobs. What one side leaves
idle the other borrows, and gives back by shrinking, without a pause: a job that has more than the reserve of its
GPUs when a CPU job comes, the CPU job that came last when a job with GPUs needs its reserve.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.decided import CORES, START, propose
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, OPEN
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers
from gpu_cluster_gym.simulator.kernel.cores.tuning import between, is_known, wanted_by_trial

WHOLE = 1.0  # of the cores a CPU job asks for: it keeps all
LEAST_SHARE = 0.5  # of them, that it keeps where another CPU job comes; our choice
EPS = 1e-6  # of sums of cores
LEAST_GAIN = 1e-9


@compiled
def servers_of(s, job):
    """Cores beside each GPU of a running job that are its parameter servers'."""
    return cores_of_servers(s.servers[job], s.workers[job], s.width[job])


@compiled
def spread(s, job, cores, room):
    """Take so many cores for each GPU of a running job, or for it as a whole, from `room[node]`."""
    if s.node_of[job] != NOBODY:
        room[s.node_of[job]] -= cores
    slot = s.first_slot[job]
    while slot != NOBODY:
        room[s.gpu_node[slot // MAX_SHARE]] -= cores
        slot = s.next_slot[slot]


@compiled
def there(s, job, room):
    """Return how many more cores, whole ones, a running job could have for each of its GPUs, or as a whole."""
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
    """Write what each running job wants, and the cores of each node that running jobs have or could have."""
    for node in range(s.num_nodes):
        m.node_room[node] = s.unreserved_cores[node] + EPS
    for at in range(m.num_running):
        job = m.running[at]
        wanted = wanted_by_trial(m, job)
        if m.learned[job] > 0.0:
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
    """Raise what a job is given to `most`, as far as there is room."""
    given = min(most - m.given[job], there(s, job, m.room_left))
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
    """Return what a core makes of a running job with GPUs."""
    gain = m.gain[job] if is_known(m, job) else 1.0
    if m.learned[job] > 0.0:
        each = 1.0 / (m.learned[job] * s.width[job])
        gain = between(max(gain, LEAST_GAIN), each, m.trust_cores)
    return gain / max(m.left_s[job], 1.0) ** m.shorter_first if m.shorter_first != 0.0 else gain


@compiled
def list_by_gain(s, jobs, m):
    """List the running jobs with GPUs by what a core makes of them, the most first; the last order is nearly right."""
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
    """Put a job into its place by gain if it is to be listed and is not yet."""
    if m.is_listed[job]:
        m.is_listed[job] = 0
        insert_by_key(m, m.by_gain, m.num_by_gain, job)
        m.num_by_gain += 1


@compiled
def divide(s, jobs, m, least_share):
    """Write the cores that each running job is to have, in whole numbers, into `given`.

    Each job has one and its servers', CPU jobs the least share of what they ask for; then the reserve is given, then
    CPU jobs get what they ask for, in the order of their starts, then, by marginal gain per core, the others what
    they want, then what is left, up to `surplus` times that. `lacking[node]` cores go to others. The wishes have been
    noted.
    """
    for node in range(s.num_nodes):
        m.room_left[node] = m.node_room[node] - m.lacking[node]
    for at in range(m.num_running):
        job = m.running[at]
        m.given[job] = 1.0 + servers_of(s, job)
        if jobs[job].num_gpus == 0:
            m.given[job] = min(max(np.ceil(least_share * m.wish[job]), 1.0), m.wish[job])
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
    """Give jobs with GPUs, which have been listed, what no job wants, up to so many times what they want."""
    for at in range(m.num_by_gain):
        job = m.by_gain[at]
        servers = servers_of(s, job)
        give(s, m, job, np.ceil(m.surplus * (m.wish[job] - servers) - EPS) + servers)


@compiled
def change_cores(s, m, shrinks, keeps_servers):
    """Put on the list of moves the changes to what has been divided, those that free cores first.

    shrinks: only where a job is to have less. keeps_servers: only those of jobs without parameter servers.
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
    """Return the node, the first of several, for a CPU job where it leaves most cores that nobody wants, or NOBODY.

    It fits beside the reserves. The wishes have been noted.
    """
    asked = max(jobs[job].cores_each, 1.0)
    sure, left = m.room_left, m.lacking  # scratch
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
            and (best == NOBODY or left[node] > left[best] + EPS)
        ):
            best = node
    return best


@compiled
def start_beside_reserves(s, jobs, m, job):
    """Propose the start of a CPU job beside the reserves, after what others give back; tell whether it fits.

    The wishes have been noted. `lacking` is left as it is needed for this start.
    """
    node = node_for_cores(s, jobs, m, job)
    m.lacking[: s.num_nodes] = 0.0
    if node == NOBODY:
        return False
    m.lacking[node] = max(jobs[job].cores_each, 1.0)
    divide(s, jobs, m, LEAST_SHARE)
    change_cores(s, m, True, False)
    m.num_gpus = 0
    m.node = node
    propose(m, START, job, 0.0)
    return True
