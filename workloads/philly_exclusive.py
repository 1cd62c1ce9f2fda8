"""The classic problem on the jobs of `philly`: exclusive GPUs and constant speed; order and preemption matter."""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario(physics="exclusive")
