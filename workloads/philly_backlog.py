"""A backlog: 512 jobs of Philly's generator arrive on 8 empty nodes of 8 GPUs, with work for nine days on average.

All effects on GPU jobs are on. `philly` has the same jobs at a load of 1 (docs/workloads.md).
"""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario()
