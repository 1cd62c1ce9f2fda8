"""A backlog: 512 jobs of Philly's generator arrive within half a day and drain from 8 nodes of 8 GPUs in ten days.

All effects on GPU jobs are on. `philly` has the same jobs at a load of 1 (docs/workloads.md).
"""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario()
