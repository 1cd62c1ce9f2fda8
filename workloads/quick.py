"""Small windows: 256 jobs on 4 nodes of 8 GPUs, without the few gangs that do not fit."""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario(trace="philly", cluster="4x8", jobs=256, physics="exclusive", drop_too_large=True)
