"""First in, first out with head-of-line blocking: a job that does not fit blocks the later ones.

With constraints it blocks those that may use a node that it may use, with quotas those of its tenant.

General knowledge. Compared with `fifo` under the greedy discipline, it shows the cost of head-of-line blocking.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("submit", discipline="strict")
