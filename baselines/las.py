"""Least attained service: three queues by GPU-seconds, FIFO within each, no estimates (Tiresias, NSDI 2019).

The limits are those in Tiresias' simulator. Left out: its way back to the top queue for jobs that starve.
"""

from envs.policy import Ranking

LIMITS = (3250.0, 7200.0)  # attained GPU-seconds

policy = Ranking("level", "by_order", levels=LIMITS)
