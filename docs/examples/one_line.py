"""Smallest remaining time x square root of GPUs first; a job is paused where that pays four times its overhead."""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("weighted", "cost_aware", exponent=0.5, margin=4.0)
