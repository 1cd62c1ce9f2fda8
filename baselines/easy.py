"""First in, first out, with backfilling: later jobs pass a blocked head if that does not delay it.

EASY (Lifka, JSSPP 1995): one reservation, the head's, by estimated ends; wrong estimates can still delay it. Inferred:
head and reservation are found anew after each start.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("submit", discipline="easy")
