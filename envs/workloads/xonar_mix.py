"""Xonar's experiment: ten jobs at once on one pair of 32 GB GPUs, at most two on each."""

from envs.scenario import Scenario

scenario = Scenario(
    trace="xonar_mix", cluster="1x2-32gb", physics="memory,sharing", max_share=2, jobs=10, all_windows=True
)
