"""Shortest job first: start jobs in the order of estimated run time, without preemption.

General knowledge. With high preemption overhead it is the policy that selective preemption must beat.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("estimate")
