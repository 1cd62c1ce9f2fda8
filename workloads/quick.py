"""As `philly`, small and short: jobs like Philly's on 32 busy GPUs, seven days at a load of 1, one of which counts.

Run times are capped at half a day, so that two days suffice for a queue to form (docs/workloads.md).
"""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario(
    trace="philly",
    cluster="4x8",
    physics="exclusive",
    jobs=700,
    steady_load=1.0,
    warm_days=2.0,
    counted_days=1.0,
    after_days=4.0,
    max_duration=43_200.0,
)
