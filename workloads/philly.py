"""The default: windows of 512 jobs of Philly's generator on 8 nodes of 8 GPUs, with all effects on GPU jobs."""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario()
