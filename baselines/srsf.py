"""Shortest remaining service first: order by estimated remaining time x GPUs, and preempt later jobs for earlier ones.

General knowledge; the name is from Tiresias (NSDI 2019). It ignores the cost of pausing and loading.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("remaining_area", "by_order")
