"""GPUs of two generations, half V100s and half K80s, with jobs that differ in their slowdown on the older ones.

Clusters grow by generations. Gavel (OSDI 2020) was measured on V100s, P100s and K80s, and simulated equal numbers of
each (from memory, not checked against the paper). The first and the last differ most: a K80 has 0.08 to 0.2 of a V100's
speed for most models of `traces/data/models.csv`, half of it in reinforcement learning, 1.4 times it for one
recommender. P100s lie between 0.54 and 0.9 for all but that model, which leaves less to choose; most figures of later
types are estimates.

The load counts each GPU as one, and run times are those on a V100: weighted by the generator's GPU-seconds a K80 is
about 0.2 of a V100, so a load of 0.5 on these 128 GPUs is one of 0.83 on the 77 V100s that they are worth. Run times
are capped at a day, since a job may take five times as long on a K80 (docs/workloads.md). A K80 has 12 GB, so some jobs
require a V100; jobs that require more than all V100s are dropped. Locality is off: the placement rules keep every job
that fits on one node there, so that it would change little.
"""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario(
    trace="philly",
    cluster="8x8+8x8-k80",
    physics="memory,preemption,estimates,gpu_types",
    jobs=4_200,
    steady_load=0.5,
    warm_days=7.0,
    counted_days=3.0,
    after_days=14.0,
    max_duration=86_400.0,
    drop_too_large=True,
)
