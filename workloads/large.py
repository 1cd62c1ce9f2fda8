"""Large windows: 1,024 jobs on 12 nodes of 8 GPUs."""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario(trace="philly", cluster="12x8", jobs=1024, physics="exclusive")
