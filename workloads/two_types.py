"""GPUs of two generations: half V100s, half K80s, under jobs that lose very differently by the older ones.

Clusters grow by generations. Gavel (OSDI 2020) was measured on V100s, P100s and K80s, in its simulations on as many of
each (from memory, not checked against the paper). Of these the first and last are furthest apart: a K80 has 0.08 to 0.2
of a V100's speed for most models of `traces/data/models.csv`, half of it in reinforcement learning, 1.4 times it for
one recommender. P100s lie between 0.54 and 0.9 for all but that one, which leaves less to choose; most figures of later
types are estimates.

Weighted by the generator's GPU-seconds a K80 is about 0.2 of a V100, so these 64 GPUs are worth 38. `philly` has eight
jobs for each of its GPUs; 304 are eight for each V100's worth here, as they come and as long as they are. Windows
are not chosen: the measure by which they would be takes all GPUs to be alike. A K80 has 12 GB, so some jobs must have
a V100. Locality is off: the placement rules keep whatever fits a node on one, so that it would change little.
"""

from gpu_cluster_gym.workloads._scenario import Scenario

scenario = Scenario(
    trace="philly",
    cluster="4x8+4x8-k80",
    physics="memory,preemption,estimates,gpu_types",
    jobs=304,
    all_windows=True,
    drop_too_large=True,
)
