"""Which jobs to pause so that enough GPUs come free, at the least cost."""

from typing import NamedTuple

import numpy as np

from simulator.kernel._compile import allocating, compiled
from simulator.kernel.rule_memory import MOST_WANTED


class Table(NamedTuple):
    """By GPUs freed: what the best set costs, how long its jobs have to go, how many they are, and which."""

    cost: np.ndarray
    left: np.ndarray
    size: np.ndarray
    sets: np.ndarray


@compiled
def is_less(cost, size, left, k, new_cost, new_size, new_left):
    """Tell whether what costs so much, has so many jobs, and most left, is better than the k-th."""
    if new_cost != cost[k]:
        return new_cost < cost[k]
    if new_size != size[k]:
        return new_size < size[k]
    return new_left > left[k]


@allocating
def cheapest_of_many(s, jobs, m, wanted, num_offers):
    """Do what `cheapest` does, with room for as many GPUs and jobs as there are."""
    cost, left = np.zeros(wanted + 1), np.zeros(wanted + 1)
    size = np.zeros(wanted + 1, np.int32)
    sets = np.zeros((wanted + 1, num_offers + 1), np.int32)
    return fill(s, jobs, m, wanted, num_offers, Table(cost, left, size, sets))


@compiled
def cheapest(s, jobs, m, wanted, num_offers):
    """Find the cheapest of all sets of the jobs offered that free so many GPUs; return their number in `victims`.

    It is 0 where none does. A knapsack: `cost[k]` is that of the best set that frees k GPUs, the last one at least so
    many. What a job costs is the GPU-seconds of its pause and load. The best of several costs least, has fewest jobs,
    most time to go. Jobs are offered the last first.
    """
    if wanted > MOST_WANTED or num_offers > MOST_WANTED:
        return cheapest_of_many(s, jobs, m, wanted, num_offers)
    return fill(s, jobs, m, wanted, num_offers, Table(m.set_cost, m.set_left, m.set_size, m.sets))


@compiled
def fill(s, jobs, m, wanted, num_offers, table):
    """Fill the table of the best sets for each number of GPUs, and list the last; return how many jobs it has."""
    cost, left, size, sets = table
    for k in range(wanted + 1):
        cost[k] = np.inf
        size[k] = 0
    cost[0] = 0.0
    left[0] = 0.0
    for at in range(num_offers):
        job = m.offered[at]
        own = (jobs[job].pause_s + jobs[job].load_s) * s.width[job]
        for freed in range(wanted - 1, -1, -1):
            if cost[freed] == np.inf:
                continue
            total = min(freed + m.offers_gpus[at], wanted)
            new_cost, new_left = cost[freed] + own, left[freed] + m.left_s[job]
            if is_less(cost, size, left, total, new_cost, size[freed] + 1, new_left):
                cost[total], left[total] = new_cost, new_left
                for k in range(size[freed]):
                    sets[total, k] = sets[freed, k]
                sets[total, size[freed]] = job
                size[total] = size[freed] + 1
    if cost[wanted] == np.inf:
        return 0
    for k in range(size[wanted]):
        m.victims[k] = sets[wanted, k]
    return size[wanted]
