"""Nodes that fail and are repaired, and drains: when, and what becomes of the jobs there.

When a node fails is drawn by node and seed, so it is the same under every policy. All times are exponential. A drain
closes a node to new jobs with notice, then takes it down; nodes are drained in turn.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.holding import fall_back, give_up, start_ready
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    CLOSED,
    DOWN,
    DRAINING,
    MODULUS,
    MULTIPLIER,
    NOBODY,
    OPEN,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import count_free, is_on, tidy_cores


@compiled
def drawn_time(s, node, mean):
    """Draw a time with this mean from the node's own numbers."""
    s.node_dice[node] = s.node_dice[node] * MULTIPLIER % MODULUS
    return -mean * np.log(s.node_dice[node] / MODULUS)


@compiled
def lay_out_outages(s):
    """Draw when each node fails first, and spread the first drains over one period."""
    for node in range(s.num_nodes):
        s.fail_at[node] = s.clock + drawn_time(s, node, s.node_mtbf)
        s.drain_at[node] = s.clock + (node + 1) / s.num_nodes * s.drain_every
    find_next(s)


@compiled
def next_change(s, node):
    """When a node changes next."""
    if s.closed[node] == DOWN:
        return s.until[node]
    if s.closed[node] == DRAINING:
        return min(s.until[node], s.fail_at[node])
    return min(s.drain_at[node], s.fail_at[node])


@compiled
def find_next(s):
    """Find when the first node changes, and when the first that is closed does: that may be waited for."""
    s.next_closing = np.inf
    s.next_opening = np.inf
    for node in range(s.num_nodes):
        s.next_closing = min(s.next_closing, next_change(s, node))
        if s.closed[node] != OPEN:
            s.next_opening = min(s.next_opening, s.until[node])


@compiled
def change_nodes(s, jobs):
    """Close and open the nodes that are due, by node."""
    for node in range(s.num_nodes):
        while next_change(s, node) <= s.clock:
            change(s, jobs, node)
            start_ready(s, jobs)
    find_next(s)


@compiled
def change(s, jobs, node):
    """Let a node do what it is due to do."""
    if s.closed[node] == DOWN:
        open_node(s, node)
    elif s.fail_at[node] <= s.clock:
        take_down(s, jobs, node, drawn_time(s, node, s.node_repair))
        s.fail_at[node] = s.until[node] + drawn_time(s, node, s.node_mtbf)
    elif s.closed[node] == DRAINING:
        take_down(s, jobs, node, s.drain_length)
        if s.fail_at[node] <= s.until[node]:
            s.fail_at[node] = s.until[node] + drawn_time(s, node, s.node_mtbf)
    else:
        close(s, jobs, node)
        s.closed[node] = DRAINING
        s.until[node] = s.clock + s.drain_notice


@compiled
def close(s, jobs, node):
    """Let nothing start on a node any more; a job that waits for its GPUs is queued again."""
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        if s.reserved_for[gpu] >= 0:
            give_up(s, jobs, s.reserved_for[gpu])
        if s.reserved_for[gpu] == CLOSED:
            continue
        if s.first_owner[gpu] == NOBODY:
            count_free(s, gpu, -1)
        s.reserved_for[gpu] = CLOSED


@compiled
def take_down(s, jobs, node, length):
    """Let a node go down for so many seconds; all its jobs fail, by job."""
    close(s, jobs, node)
    s.closed[node] = DOWN
    s.until[node] = s.clock + length
    job = first_on(s, node)
    while job != NOBODY:
        fall_back(s, jobs, job)
        job = first_on(s, node)
    while s.drain_at[node] <= s.until[node]:
        s.drain_at[node] += s.drain_every


@compiled
def first_on(s, node):
    """Return the active job with the lowest number on a node, or NOBODY."""
    first = NOBODY
    for k in range(s.num_active):
        job = s.events[k]
        if (first == NOBODY or job < first) and is_on(s, job, node):
            first = job
    return first


@compiled
def open_node(s, node):
    """Let a node be up again, all its GPUs free."""
    s.closed[node] = OPEN
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        s.reserved_for[gpu] = NOBODY
        count_free(s, gpu, 1)
    tidy_cores(s, node)
