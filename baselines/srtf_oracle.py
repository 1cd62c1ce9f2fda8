"""Oracle of shortest remaining time first: SRTF with true remaining times, as if estimates were perfect.

General knowledge. No real scheduler has this information, hence the suffix. It ignores the cost of pausing and loading.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("true_remaining", "by_order")
