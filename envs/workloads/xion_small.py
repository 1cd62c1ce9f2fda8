"""Xion's regime: two slots, short jobs of like length, pauses and loads that cost a fifth of a job."""

from envs.scenario import Scenario

scenario = Scenario(trace="xion_small", cluster="1x2", physics="preemption", jobs=120, all_windows=True)
