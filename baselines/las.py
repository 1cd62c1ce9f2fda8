"""Least attained service: three queues by GPU-seconds, FIFO within each, no estimates (Tiresias, NSDI 2019).

The limits are those in Tiresias' simulator. Our choice: which jobs to pause, as for every ranking (docs/rules.md). Left
out: its way back to the top queue for jobs that starve.
"""

from gpu_cluster_gym.simulator.policy import Ranking

LIMITS = (3250.0, 7200.0)  # attained GPU-seconds

policy = Ranking("level", "by_order", levels=LIMITS)
GRID = {
    "levels": (
        *((first,) for first in (300.0, 3600.0, 21_600.0, 86_400.0)),
        *((first, 10 * first) for first in (60.0, 600.0, 3600.0, 21_600.0)),
        *((first, 6 * first, 36 * first) for first in (100.0, 600.0, 3600.0)),
    )
}
