"""The classic problem on the same jobs: each GPU has one job, which nothing slows; order and preemption count."""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario(physics="exclusive")
