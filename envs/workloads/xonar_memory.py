"""Xonar's experiment: ten jobs at once, each of more than 8 GB, on one pair of 32 GB GPUs, at most two on each.

Two that want more than a GPU slow each other down in proportion, and by 4 % for the company. Where memory runs over
anybody on the GPU may be the unlucky one.
"""

from envs.scenario import Scenario

scenario = Scenario(
    trace="xonar_memory",
    cluster="1x2-32gb",
    physics="memory,sharing",
    max_share=2,
    contention=1.0,
    contention_loss=0.04,
    oom_victim="random",
    restart_delay=25.0,
    jobs=10,
    all_windows=True,
)
