"""Which jobs to pause so that enough GPUs come free, at the least cost."""

import numpy as np

from simulator.kernel._compile import allocating, compiled
from simulator.kernel.layout import NOBODY


@compiled
def is_less(cost, size, left, k, new_cost, new_size, new_left):
    """Tell whether what costs so much, has so many jobs, and most left, is better than the k-th."""
    if new_cost != cost[k]:
        return new_cost < cost[k]
    if new_size != size[k]:
        return new_size < size[k]
    return new_left > left[k]


@allocating
def cheapest(wanted, offered, offers_gpus, own_cost, own_left, victims):
    """Find the cheapest of all sets of the jobs offered that free so many GPUs; return their number, cost and rest.

    They are noted in `victims`; their number is 0 where none does. A knapsack: `cost[k]` is that of the best set that
    frees k GPUs, the last one at least so many. The best of several costs least, has fewest jobs, and most left in sum.
    Jobs are offered the last first, each with the GPUs it would free, its cost and what it has left.
    """
    cost = np.full(wanted + 1, np.inf)
    left = np.zeros(wanted + 1)
    size = np.zeros(wanted + 1, np.int64)
    sets = np.full((wanted + 1, len(offered) + 1), NOBODY, np.int32)
    cost[0] = 0.0
    for at in range(len(offered)):
        for freed in range(wanted - 1, -1, -1):
            if cost[freed] == np.inf:
                continue
            total = min(freed + offers_gpus[at], wanted)
            new_cost, new_left = cost[freed] + own_cost[at], left[freed] + own_left[at]
            if is_less(cost, size, left, total, new_cost, size[freed] + 1, new_left):
                cost[total], left[total] = new_cost, new_left
                sets[total] = sets[freed]
                sets[total, size[freed]] = offered[at]
                size[total] = size[freed] + 1
    if cost[wanted] == np.inf:
        return 0, np.inf, 0.0
    for k in range(size[wanted]):
        victims[k] = sets[wanted, k]
    return size[wanted], cost[wanted], left[wanted]
