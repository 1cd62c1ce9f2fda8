"""First in, first out with EASY backfilling: later jobs pass a blocked head if that does not delay it.

EASY (Lifka, JSSPP 1995): one reservation, for the head of the queue, at the estimated ends of running jobs; wrong
estimates can still delay the head. Inferred: head and reservation are recomputed after each start.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("submit", discipline="easy")
