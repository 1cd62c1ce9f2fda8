"""All levers at once, sharing, preemption, sizing, types of GPU and CPU cores: the strongest policy made by hand.

Claims nothing of its own: it puts together what the papers do one by one, where all of it counts (`docs/mixed.md`).

- Sharing, as Xonar and Lucid: a job runs beside those with which it loses least by profiled duty, and they least by it,
  never beyond the profiled memory; GPUs of its own are better where the queue is short.
- Preemption, by Xion's derived rule: one of the first in order of remaining time may take the place of a running job,
  or of several, if its gain exceeds `caution` times the loss of these and of all that wait. Where others wait too,
  what opens next is theirs: then a job is taken to wait for as long as its victims would go on (`backlog`), which is
  what preemption by shortest remaining time counts. So does a gang that needs several nodes.
- Sizing, as AITurbo and Optimus by speeds fitted to profiles: a job starts with as many workers, and parameter servers
  on CPU cores, as cost it and those that wait least. One that began with few takes GPUs that come free before queued
  ones with much more to go (`widening`); once no job waits, the one that gains most by more GPUs, or by its own,
  restarts there. Workers with servers, as fast wherever they are, may be on several nodes; others are not given a
  second node unless a weight says so (`spanning`).
- Types of GPU, as Gavel by profiled speeds: fast ones are for the first in order, be they queued or running on slow
  ones, from which they move where that wins more than the restart; others run on slow ones while they wait, where that
  wins more.
- Cores, as CODA: what each job needs is found by trying, whatever it asks for, and others give up what they do not
  need; CPU jobs keep what they ask for, and are throttled only where a node's memory is too slow.

It takes jobs that share a GPU to slow each other by what they demand beyond it (`--contention-form excess`), with the
figures of `mixed`; where they take turns each costs the other more, so it shares up to a demand of 1.7 only.

Our choice: how they fit together, and the price of a GPU (`simulator.kernel.rule.offers`). Left out: workers on CPU
cores, which could win .5 % at most (`docs/negative_results.md`); servers for which a fair share of the cores is
not enough; types of GPU for jobs of more than 16 GPUs that no node has. The defaults were found on training windows,
at first of `mixed` (`docs/mixed.md`), then of nine workloads (`docs/learning.md`).

It is the rule over moves (`simulator.rule`) with its default weights; sharing, preemption, sizing and cores are each
switched off by a weight of 0: `Rule(sharing=0)`.
"""

from gpu_cluster_gym.simulator.rule import Rule

policy = Rule()
GRID = {
    "price": (0.75, 1.5, 3.0, 6.0),
    "caution": (0.25, 0.5, 1.0, 2.0),
    "growth": (1.0, 2.0, 4.0),
    "most_slow": (2.0, 3.0, 5.0),
}
