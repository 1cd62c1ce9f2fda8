"""As `philly`, on a larger cluster: jobs like Philly's on 192 busy GPUs, 24 days at a load of 1.

On more GPUs at this load, windows have more than 16,384 jobs, and an environment takes 59 MB of records instead of 4.
"""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario(
    trace="philly",
    cluster="24x8",
    physics="exclusive",
    jobs=6_700,
    steady_load=1.0,
    warm_days=7.0,
    counted_days=3.0,
    after_days=14.0,
    max_duration=2 * 86_400.0,
)
