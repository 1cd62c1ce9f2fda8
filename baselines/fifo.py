"""First in, first out: by submission, no job is paused.

General knowledge. Whether a head that does not fit blocks those behind it is the scenario's discipline.
"""

from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("submit")
