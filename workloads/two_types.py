"""GPUs of two generations, half V100s and half K80s, with jobs that differ in their slowdown on the older ones.

Clusters grow by generations. Gavel (OSDI 2020) was measured on V100s, P100s and K80s, and simulated equal numbers of
each (from memory, not checked against the paper). The first and the last differ most: a K80 has 0.08 to 0.2 of a V100's
speed for most models of `traces/data/models.csv`, half of it in reinforcement learning, 1.4 times it for one
recommender. P100s lie between 0.54 and 0.9 for all but that model, which leaves less to choose; most figures of later
types are estimates.

Weighted by the generator's GPU-seconds a K80 is about 0.2 of a V100, so these 64 GPUs are worth 38. `philly` has eight
jobs per GPU; 304 jobs are eight per V100-equivalent here. Arrivals and run times are unscaled. All windows count,
because the measure of acceptance assumes equal GPUs. A K80 has 12 GB, so some jobs require a V100. Locality is off: the
placement rules keep every job that fits on one node there, so that it would change little.
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
