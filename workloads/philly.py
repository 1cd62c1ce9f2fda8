"""The default: jobs like Philly's on 128 busy GPUs, 24 days at a load of 1, from a cluster in use.

Run times are capped at two days, a usual limit of batch queues, since the few longer ones are most of the work.
docs/workloads.md has the measurements behind the choice.
"""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario(
    cluster="16x8",
    physics="exclusive",
    jobs=4_400,
    steady_load=1.0,
    warm_days=7.0,
    counted_days=3.0,
    after_days=14.0,
    max_duration=2 * 86_400.0,
)
