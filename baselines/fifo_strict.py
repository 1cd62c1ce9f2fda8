"""First in, first out, without exception: a head that does not fit blocks all behind it.

General knowledge; against `fifo` under the greedy discipline it shows what head-of-line blocking costs.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("submit", discipline="strict")
