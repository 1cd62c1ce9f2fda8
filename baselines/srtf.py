"""Shortest remaining time first: order by estimated remaining run time, and preempt later jobs for earlier ones.

General knowledge. It ignores the cost of pausing and loading, for which Xion's abstract criticises it.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("remaining", "by_order")
