"""Order jobs by remaining time x square root of GPUs; pause a job if this gains four times its cost."""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("weighted", "cost_aware", exponent=0.5, margin=4.0)
