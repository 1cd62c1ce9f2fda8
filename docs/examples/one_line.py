"""Least remaining time x square root of GPUs first, and pauses where they pay four times over."""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("weighted", "cost_aware", exponent=0.5, margin=4.0)
