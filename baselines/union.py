"""Share GPUs, preempt, size jobs and divide CPU cores, all at once: the strongest policy made by hand.

Claims nothing of its own: it puts together what the papers do one by one, where all of it counts (`docs/mixed.md`).

- Sharing, as Xonar and Lucid: a job runs beside those with which it loses least by profiled duty, and they least by it,
  never beyond the profiled memory; GPUs of its own are better where the queue is short.
- Preemption, by Xion's derived rule: one of the first in order of remaining time may take the place of a running job,
  or of several, if its gain exceeds `caution` times the loss of these and of all that wait. Where others wait too,
  what opens next is theirs: then a job is taken to wait for as long as its victims would go on (`backlog`), which is
  what preemption by shortest remaining time counts. So does a gang that needs several nodes.
- Sizing, as AITurbo and Optimus by speeds fitted to profiles: a job starts with as many workers as cost it and those
  that wait least; once no job waits, the one that gains most by more GPUs, or by GPUs of its own, restarts there.
- Cores, as CODA: what each job needs is found by trying, whatever it asks for, and others give up what they do not
  need; CPU jobs keep what they ask for, and are throttled only where a node's memory is too slow.

It takes jobs that share a GPU to slow each other by what they demand beyond it (`--contention-form excess`), with the
figures of `mixed`; where they take turns each costs the other more, so it shares up to a demand of 1.7 only.

Our choice: how they fit together, and the price of a GPU (`simulator.kernel.offers`). Left out: servers and workers on
CPUs, types of GPUs. The defaults were found on training windows, at first of `mixed` (`docs/mixed.md`), then of nine
workloads (`docs/learning.md`).

It is the rule over moves (`simulator.rule`) with its default weights; each lever is switched off by a weight of 0:
`Rule(sharing=0)`.
"""

from simulator.rule import Rule

policy = Rule()
GRID = {
    "price": (1.0, 2.0, 4.0, 8.0),
    "caution": (0.0, 0.25, 0.5, 1.0),
    "growth": (1.0, 2.0, 4.0),
    "most_slow": (2.0, 3.0, 5.0),
}
