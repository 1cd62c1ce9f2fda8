"""Least attained service: three queues by attained GPU-seconds, FIFO within each, without estimates.

Claim: jobs with little attained service go first, in few queues, so that equal jobs do not preempt each other in turns
(Tiresias, NSDI 2019). The limits of the queues are those in Tiresias' simulator. Inferred: the choice of the jobs to
preempt, which is that of all rankings (docs/rules.md). Left out: the promotion of starving jobs to the top queue.
"""

from gpu_cluster_gym.simulator.policy import Ranking

LIMITS = (3250.0, 7200.0)  # attained GPU-seconds at which a job moves to the next queue

policy = Ranking("level", "by_order", levels=LIMITS)
GRID = {
    "levels": (
        *((first,) for first in (300.0, 3600.0, 21_600.0, 86_400.0)),
        *((first, 10 * first) for first in (60.0, 600.0, 3600.0, 21_600.0)),
        *((first, 6 * first, 36 * first) for first in (100.0, 600.0, 3600.0)),
    )
}
