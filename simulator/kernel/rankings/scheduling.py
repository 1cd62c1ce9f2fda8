"""The active ranking: take it on, carry it out at an instant, and run it to the end of an episode."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.events import advance
from gpu_cluster_gym.simulator.kernel.cluster.layout import BY_ORDER, EASY, IF_IT_PAYS
from gpu_cluster_gym.simulator.kernel.cluster.queues import reorder
from gpu_cluster_gym.simulator.kernel.rankings.cost_aware import walk_paying
from gpu_cluster_gym.simulator.kernel.rankings.easy import walk_easy
from gpu_cluster_gym.simulator.kernel.rankings.pooled_gpus import walk_pool
from gpu_cluster_gym.simulator.kernel.rankings.rankings import walk_all, walk_queue


@compiled
def walk(s, jobs):
    """Carry out the active ranking at this instant."""
    if s.num_queued == 0:
        return
    if s.preempt == IF_IT_PAYS:
        walk_paying(s, jobs)
    elif s.preempt == BY_ORDER:
        if s.pooled:
            walk_pool(s, jobs)
        else:
            walk_all(s, jobs)
    elif s.discipline == EASY:
        walk_easy(s, jobs)
    else:
        walk_queue(s, jobs)


@compiled
def adopt(s, jobs, key, exponent, margin, preempt):
    """Take on another rule."""
    s.key = key
    s.exponent = exponent
    s.margin = margin
    s.preempt = preempt
    reorder(s, jobs)


@compiled
def run_rule(s, jobs):
    """Carry out the active ranking from here until every job is done."""
    while s.num_done < s.num_jobs:
        if not advance(s, jobs):
            return False
        walk(s, jobs)
    return True
