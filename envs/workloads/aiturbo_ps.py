"""AITurbo's regime: 16 GPUs, elastic jobs with parameter servers, and cores enough to keep the servers off the GPUs.

A GPU has 16 cores, as on the prototype's testbed (two nodes of two GPUs and 32 cores): a worker's five, and the ten of
two servers, so that any job as asked fits wherever it has its GPUs. Four nodes of four GPUs are ours.
"""

from envs.scenario import Scenario

scenario = Scenario(
    trace="aiturbo_ps",
    cluster="4x4-64c",
    physics="preemption,estimates,elastic",
    jobs=120,
    all_windows=True,
)
