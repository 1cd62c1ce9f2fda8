"""Shortest remaining time first: by estimated remaining run time, pausing the jobs that come later.

General knowledge. Blind to what pausing and loading cost: the order that Xion's abstract argues against.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("remaining", "by_order")
