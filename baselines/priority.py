"""Highest priority of the log first, equal ones by submission, without preemption.

General knowledge. Jobs have priorities where `--constraints` names the column priority; else the policy is `fifo`.
"""

from gpu_cluster_gym.simulator.policy import Ranking

LEVER = "priorities"
policy = Ranking("priority")
