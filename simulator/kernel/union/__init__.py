"""The rule `union`, compiled: share, preempt, size jobs, use GPU types and divide cores, by weights.

At each instant `decide` looks for the next moves and makes them, until nothing is left to do. Its levers, in order:

1. Start CPU jobs, then jobs with GPUs, in the order of `state_cache.order_key`; offer free GPUs to running jobs that
   could use more as well. `candidates` compares placements by their cost at the current price of GPUs: shapes
   (`job_shapes`), exclusive GPUs or share slots (`seats`), GPU types.
2. Pause running jobs for one of the first in order, if it gains more than they lose (`preemption`).
3. Start jobs on slow GPU types while they wait for fast ones (`candidates`).
4. Move the running job that gains most by empty GPUs, once no job waits (`candidates`); see `seats` for a second node.
5. Divide cores and throttle CPU jobs (`simulator.kernel.cores`).

`weights` declares the weights and the memory of an episode. `estimates` holds the run times and core needs that the
rule believes. `load` describes the load, and `steering` runs the rule under weights that are set between intervals.

The package is in the kernel, not beside `baselines/union.py`, because the environments, `simulator.kernel.moves` and
the policies of `simulator.rule_policy` are built on it: imports point from baselines to the simulator.
"""
