"""Xion's regime: two slots, short jobs of like length, pauses and loads that cost a fifth of a job.

A slot is a slot wherever it is: a paused job may resume in either, and SRTF always pauses the job with most left.
"""

from envs.scenario import Scenario

scenario = Scenario(
    trace="xion_small",
    cluster="1x2",
    placement="pooled",
    physics="preemption",
    jobs=120,
    all_windows=True,
)
