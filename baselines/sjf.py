"""Shortest job first: by estimated run time, no job is paused.

General knowledge. What selective preemption must beat where preemption overhead is high.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("estimate")
