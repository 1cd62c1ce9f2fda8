"""CODA's regime: a day of training and CPU jobs on ten nodes of eight GPUs and 40 cores."""

from envs.scenario import Scenario

scenario = Scenario(
    trace="coda_mix",
    cluster="10x8-40c",
    physics="memory,preemption,locality,cores,bandwidth,cpu_jobs",
    jobs=4_000,  # more than a day brings, which is 1,700: all of them
    all_windows=True,
)
