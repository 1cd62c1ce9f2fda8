"""First in, first out with head-of-line blocking: a head that does not fit blocks all later jobs.

General knowledge. Compared with `fifo` under the greedy discipline, it shows the cost of head-of-line blocking.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("submit", discipline="strict")
