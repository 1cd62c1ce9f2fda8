"""Outages of nodes: failures, drains with notice, and repairs.

Failure times of a node are drawn from the seed and the node, so that they are the same under every policy.
Times between failures and repair times are exponential. A drain closes a node to new jobs with notice, then
takes it down; the drains of all nodes are spread evenly over one period.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.holding import (
    cancel_reservation,
    fail_to_checkpoint,
    start_ready,
)
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    CLOSED,
    DOWN,
    DRAINING,
    MODULUS,
    MULTIPLIER,
    NOBODY,
    OPEN,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import count_free, is_on, reset_core_rounding


@compiled
def drawn_time(s, node, mean):
    """Draw an exponential time with this mean from the node's own random numbers, s."""
    s.node_rng_state[node] = s.node_rng_state[node] * MULTIPLIER % MODULUS
    return -mean * np.log(s.node_rng_state[node] / MODULUS)


@compiled
def lay_out_outages(s):
    """Draw the first failure of each node, and spread the first drains over one period."""
    for node in range(s.num_nodes):
        s.fail_at[node] = s.clock + drawn_time(s, node, s.node_mtbf)
        s.drain_at[node] = s.clock + (node + 1) / s.num_nodes * s.drain_every
    find_next(s)


@compiled
def next_change(s, node):
    """Return the time of a node's next change."""
    if s.closed[node] == DOWN:
        return s.until[node]
    if s.closed[node] == DRAINING:
        return min(s.until[node], s.fail_at[node])
    return min(s.drain_at[node], s.fail_at[node])


@compiled
def find_next(s):
    """Find the next change of any node, and the next change of a closed node, for which a policy may wait."""
    s.next_closing = np.inf
    s.next_opening = np.inf
    for node in range(s.num_nodes):
        s.next_closing = min(s.next_closing, next_change(s, node))
        if s.closed[node] != OPEN:
            s.next_opening = min(s.next_opening, s.until[node])


@compiled
def change_nodes(s, jobs):
    """Close and open the nodes that are due, in order of node."""
    for node in range(s.num_nodes):
        while next_change(s, node) <= s.clock:
            change(s, jobs, node)
            start_ready(s, jobs)
    find_next(s)


@compiled
def change(s, jobs, node):
    """Carry out the due change of a node."""
    if s.closed[node] == DOWN:
        open_node(s, node)
    # A failure interrupts a drain's notice, too.
    elif s.fail_at[node] <= s.clock:
        shut_down(s, jobs, node, drawn_time(s, node, s.node_repair))
        s.fail_at[node] = s.until[node] + drawn_time(s, node, s.node_mtbf)
    elif s.closed[node] == DRAINING:
        shut_down(s, jobs, node, s.drain_length)
        if s.fail_at[node] <= s.until[node]:
            s.fail_at[node] = s.until[node] + drawn_time(s, node, s.node_mtbf)
    else:
        close(s, jobs, node)
        s.closed[node] = DRAINING
        s.until[node] = s.clock + s.drain_notice


@compiled
def close(s, jobs, node):
    """Close a node to new jobs; a job with a reservation there is queued again."""
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        if s.reserved_for[gpu] >= 0:
            cancel_reservation(s, jobs, s.reserved_for[gpu])
        if s.reserved_for[gpu] == CLOSED:
            continue
        if s.first_owner[gpu] == NOBODY:
            count_free(s, gpu, -1)
        s.reserved_for[gpu] = CLOSED


@compiled
def shut_down(s, jobs, node, length):
    """Take a node down for `length` seconds; all its jobs fail, in order of job."""
    close(s, jobs, node)
    s.closed[node] = DOWN
    s.until[node] = s.clock + length
    job = first_on(s, node)
    while job != NOBODY:
        fail_to_checkpoint(s, jobs, job)
        job = first_on(s, node)
    # Drains due while the node is down are skipped.
    while s.drain_at[node] <= s.until[node]:
        s.drain_at[node] += s.drain_every


@compiled
def first_on(s, node):
    """Return the active job with the lowest index on a node, or NOBODY."""
    first = NOBODY
    for k in range(s.num_active):
        job = s.events[k]
        if (first == NOBODY or job < first) and is_on(s, job, node):
            first = job
    return first


@compiled
def open_node(s, node):
    """Open a node again, with all its GPUs free."""
    s.closed[node] = OPEN
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        s.reserved_for[gpu] = NOBODY
        count_free(s, gpu, 1)
    reset_core_rounding(s, node)
