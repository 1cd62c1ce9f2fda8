"""Which jobs to pause so that enough GPUs come free, at the least cost."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled

COST, SIZE, LEFT = range(
    3
)  # of a set of jobs: what it costs, how many they are, and what they have left in sum


@compiled
def is_less(best, k, cost, size, left):
    """Tell whether what costs so much, has so many jobs, and most left, is better than the k-th of the best sets."""
    if cost != best[k, COST]:
        return cost < best[k, COST]
    if size != best[k, SIZE]:
        return size < best[k, SIZE]
    return left > best[k, LEFT]


@compiled
def cheapest_in(wanted, offered, offers_gpus, own_cost, own_left, best, sets):
    """Find the cheapest of all sets of the jobs offered that free so many GPUs; return its number, 0 if there is none.

    A knapsack: `best[k]` and the first `best[k, SIZE]` of `sets[k]` are the best set that frees k GPUs, the last one at
    least so many. The best of several costs least, has fewest jobs, and most left in sum.
    """
    for k in range(wanted + 1):
        best[k, COST], best[k, SIZE], best[k, LEFT] = np.inf, 0.0, 0.0
    best[0, COST] = 0.0
    for at in range(len(offered)):
        for freed in range(wanted - 1, -1, -1):
            if best[freed, COST] == np.inf:
                continue
            total, size = min(freed + offers_gpus[at], wanted), int(best[freed, SIZE])
            cost, left = best[freed, COST] + own_cost[at], best[freed, LEFT] + own_left[at]
            if is_less(best, total, cost, size + 1.0, left):
                best[total, COST], best[total, SIZE], best[total, LEFT] = cost, size + 1.0, left
                for k in range(size):
                    sets[total, k] = sets[freed, k]
                sets[total, size] = offered[at]
    return int(best[wanted, SIZE])


@allocating
def cheapest(wanted, offered, offers_gpus, own_cost, own_left, victims):
    """Find the cheapest of all sets of the jobs offered that free so many GPUs; return their number, cost and rest.

    They are noted in `victims`; their number is 0 where none does. Jobs are offered the last first, each with the GPUs
    it would free, its cost and what it has left.
    """
    best, sets = np.empty((wanted + 1, 3)), np.empty((wanted + 1, wanted + 1), np.int32)
    count = cheapest_in(wanted, offered, offers_gpus, own_cost, own_left, best, sets)
    for k in range(count):
        victims[k] = sets[wanted, k]
    return count, best[wanted, COST], best[wanted, LEFT]
