"""First in, first out: start jobs in the order of submission, without preemption.

General knowledge. The discipline of the scenario decides whether a head of the queue that does not fit blocks later
jobs.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("submit")
