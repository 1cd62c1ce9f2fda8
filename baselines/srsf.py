"""Shortest remaining service first: by estimated remaining time x GPUs, pausing the jobs that come later.

General knowledge; the name is Tiresias' (NSDI 2019). Blind to what pausing and loading cost.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("remaining_area", "by_order")
