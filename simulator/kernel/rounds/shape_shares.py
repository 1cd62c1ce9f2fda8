"""Optimus' shapes: each job starts from the least; workers and servers then go where they cut remaining time most."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import CLOSED, MAX_SERVERS, OPEN, SERVER_CORES
from gpu_cluster_gym.simulator.kernel.cluster.queues import remaining_now
from gpu_cluster_gym.simulator.kernel.rounds.shape_memory import NEITHER, feeding_of
from gpu_cluster_gym.simulator.kernel.rule.ways import seconds_of

NOTHING, WORKER, SERVER = range(3)  # what a job may be offered one more of


@compiled
def cores_of(jobs, job, workers, servers):
    """Return the cores that a shape takes."""
    return workers * (feeding_of(jobs, job) + SERVER_CORES * servers / workers)


@compiled
def take_stock(s, m):
    """Note the GPUs and cores of nodes that are open."""
    m.left_gpus, m.left_cores = 0.0, 0.0 if s.cpu_limited else np.inf
    for gpu in range(s.num_gpus):
        m.left_gpus += s.reserved_for[gpu] != CLOSED
    for node in range(s.num_nodes):
        if s.closed[node] == OPEN:
            m.left_cores += s.node_cores[node]
    m.whole_gpus, m.whole_cores = max(m.left_gpus, 1.0), max(m.left_cores, 1.0)


@compiled
def offer(jobs, m, job, what):
    """Return what a worker or server more is worth to a job, and the GPUs and cores that it takes; 0 for no offer.

    worth = iterations x seconds saved / the larger of its shares of all GPUs and of all cores
    """
    workers, servers = np.int64(m.share_workers[job]), np.int64(m.share_servers[job])
    to_workers, to_servers = workers + (what == WORKER), servers + (what == SERVER)
    if to_workers > jobs[job].max_workers or (what == SERVER and not 0 < servers < MAX_SERVERS):
        return 0.0, 0.0, 0.0
    shorter = seconds_of(jobs, job, workers, servers, 0.0) - seconds_of(
        jobs, job, to_workers, to_servers, 0.0
    )
    gain = m.iterations[job] * shorter
    if not gain > 0:
        return 0.0, 0.0, 0.0
    gpus = float(to_workers - workers)
    cores = cores_of(jobs, job, to_workers, to_servers) - cores_of(jobs, job, workers, servers)
    return gain / max(gpus / m.whole_gpus, cores / m.whole_cores), gpus, cores


@compiled
def best_offer(jobs, m, job):
    """Return what a job makes most of among what is left, a worker before a server, and what that is worth."""
    best, most = NOTHING, 0.0
    for what in (WORKER, SERVER):
        worth, gpus, cores = offer(jobs, m, job, what)
        if worth > most and gpus <= m.left_gpus and cores <= m.left_cores:
            best, most = what, worth
    return best, most


@compiled
def comes_before(m, a, b):
    """Tell whether a job's best offer comes before another's: worth more, or as much to the earlier job."""
    return m.worth[a] > m.worth[b] or (m.worth[a] == m.worth[b] and a < b)


@compiled
def sink(m, size, at):
    """Move a job down the heap to where it belongs."""
    job = m.heap[at]
    child = 2 * at + 1
    while child < size:
        if child + 1 < size and comes_before(m, m.heap[child + 1], m.heap[child]):
            child += 1
        if not comes_before(m, m.heap[child], job):
            break
        m.heap[at] = m.heap[child]
        at = child
        child = 2 * at + 1
    m.heap[at] = job


@compiled
def start_from_least(s, jobs, m):
    """Give jobs, in the order of arrival, the least that they can run with, as far as there is room; return how many.

    Those are on the heap.
    """
    count = 0
    for k in range(m.num_present):
        job = m.present[k]
        m.has_share[job] = 0
        if jobs[job].num_gpus == 0:
            continue
        workers, servers = int(jobs[job].min_workers), int(jobs[job].servers > 0)
        cores = cores_of(jobs, job, workers, servers)
        as_asked = seconds_of(jobs, job, jobs[job].num_gpus, jobs[job].servers, 0.0)
        m.iterations[job] = remaining_now(s, jobs, job) * m.error[job] / as_asked
        if workers > m.left_gpus or cores > m.left_cores:
            continue
        m.left_gpus -= workers
        m.left_cores -= cores
        m.share_workers[job], m.share_servers[job], m.has_share[job] = workers, servers, 1
        m.heap[count] = job
        count += 1
    return count


@compiled
def give_more(jobs, m, job, what):
    """Give a job a worker or a server more."""
    _, gpus, cores = offer(jobs, m, job, what)
    m.left_gpus -= gpus
    m.left_cores -= cores
    m.share_workers[job] += what == WORKER
    m.share_servers[job] += what == SERVER


@compiled
def divide(s, jobs, m):
    """Share the cluster out anew. What does not fit never will, so only the top of the heap is looked at again."""
    take_stock(s, m)
    size = start_from_least(s, jobs, m)
    for k in range(size):
        m.worth[m.heap[k]] = best_offer(jobs, m, m.heap[k])[1]
    for at in range(size // 2 - 1, -1, -1):
        sink(m, size, at)
    while size > 0 and m.worth[m.heap[0]] > 0:
        job = m.heap[0]
        what, worth = best_offer(jobs, m, job)
        if what != NOTHING and worth == m.worth[job]:
            give_more(jobs, m, job, what)
            worth = best_offer(jobs, m, job)[1]
        m.worth[job] = worth
        sink(m, size, 0)


@compiled
def wish_shares(s, jobs, m):
    """Note which shapes would do: a job's share, else the least, and fewer workers; those with shares come first."""
    for k in range(m.num_present):
        job = m.present[k]
        if jobs[job].num_gpus == 0:
            continue
        least, servers = jobs[job].min_workers, int(jobs[job].servers > 0)
        has = m.has_share[job] > 0
        m.wish_workers[job] = m.share_workers[job] if has else least
        m.wish_servers[job] = m.share_servers[job] if has else servers
        m.least[job], m.bearable_s[job], m.own_shape[job] = least, 0.0, NEITHER


@compiled
def order_by_shares(m):
    """Put jobs, which come by number, in order: those first that have shares."""
    count, jobs = 0, m.heap  # which is of no use now
    for has in (1, 0):
        for k in range(m.num_order):
            if m.has_share[m.order[k]] == has:
                jobs[count] = m.order[k]
                count += 1
    for k in range(count):
        m.order[k] = jobs[k]
