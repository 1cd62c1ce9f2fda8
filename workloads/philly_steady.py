"""Jobs like Philly's on a busy cluster of 256 GPUs: days at a stated load, from a cluster already in use."""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario(cluster="32x8", physics="exclusive", steady_load=1.0)
