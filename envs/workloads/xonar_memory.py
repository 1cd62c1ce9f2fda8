"""Xonar's experiment with jobs above 8 GB alone: every third pair would overflow a GPU."""

from envs.scenario import Scenario

scenario = Scenario(
    trace="xonar_memory", cluster="1x2-32gb", physics="memory,sharing", max_share=2, jobs=10, all_windows=True
)
