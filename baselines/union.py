"""`union`: sharing, preemption, sizing, GPU types and CPU cores in one rule; the strongest hand-designed policy here.

It makes no claim of its own: it combines the mechanisms of several papers.

- Sharing, as in Xonar and Lucid: a job shares GPUs with those jobs with which both sides lose least, by profiled GPU
  utilisation and within the profiled memory; exclusive GPUs are better where the queue is short.
- Preemption, by Xion's derived rule: one of the first jobs in order of remaining time may displace one or several
  running jobs, if its gain exceeds `caution` times the loss of these and of all waiting jobs. If other jobs wait too,
  they get the next free GPUs; the job is then assumed to wait for as long as its victims would run (`backlog`), as
  preemption by shortest remaining time assumes. The same holds for a gang that needs several nodes.
- Sizing, as in AITurbo and Optimus, by speeds fitted to profiles: a job starts with the number of workers, and of
  parameter servers on CPU cores, that costs it and the waiting jobs least. A job that started with few workers takes
  free GPUs before queued jobs with much more remaining time (`widening`); once no job waits, the job that gains most by
  more GPUs, or by exclusive ones, restarts there. Workers with servers, which run equally fast anywhere, may be on
  several nodes; others get a second node only if a weight permits it (`spanning`).
- GPU types, as in Gavel, by profiled speeds: fast GPUs are for the first jobs in order, queued or running on slow GPUs,
  which they leave if that gains more than the restart costs; other jobs run on slow GPUs if that gains more than
  waiting.
- Cores, as in CODA: the need of each job is found by trial, whatever it requests, and jobs release cores that they do
  not need; CPU jobs keep what they request, and are throttled only if the memory of a node is too slow.

Co-located jobs are assumed to slow each other down by the demand beyond a GPU (`--contention-form excess`), with the
figures of `mixed`; where they take turns the slowdown is larger, so GPUs are shared only up to a demand of 1.7.

Our choice: the combination, and the price of a GPU (`simulator.kernel.union.candidates`). Left out: workers on CPU
cores, which could gain 0.5 % at most; parameter servers that need more than a fair share of the cores; GPU types for
jobs of more than 16 GPUs that fit no node. The defaults were found on training windows, first of `mixed`, then of nine
workloads.

The policy is `simulator.rule_policy.Rule` with default weights; sharing, preemption, sizing and cores are each switched
off by a weight of 0: `Rule(sharing=0)`. The compiled algorithm is the package `simulator.kernel.union`, whose
`__init__.py` lists its mechanisms and the file of each.
"""

from gpu_cluster_gym.simulator.rule_policy import Rule

policy = Rule()
GRID = {
    "price": (0.75, 1.5, 3.0, 6.0),
    "caution": (0.25, 0.5, 1.0, 2.0),
    "growth": (1.0, 2.0, 4.0),
    "most_slow": (2.0, 3.0, 5.0),
}
