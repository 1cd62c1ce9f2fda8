"""Shortest remaining time first, an oracle that uses the true remaining time: what perfect estimates would give SRTF.

General knowledge. No scheduler has this information, hence the name's ending. Blind to the cost of pauses.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("true_remaining", "by_order")
