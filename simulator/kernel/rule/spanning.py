"""Jobs across nodes: how much slower they are there is not in their profiles, so it is tried, and measured.

A running job that could use more GPUs than its node has takes those of a second one, once nobody waits; where it turns
out that it is no faster for it, it goes back. The first guess is the median of what jobs of eight GPUs of Philly's
generator lose on sixteen of two nodes, against sixteen of one (training windows 0 to 11); our choice.
"""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import count_on
from gpu_cluster_gym.simulator.kernel.cluster.queues import attained_now
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import MOST_GPUS
from gpu_cluster_gym.simulator.kernel.rule.ways import most_on_a_node, pace_of

FIRST_GUESS = 0.13  # of what is lost across nodes
WATCH_S = 600.0  # at least, for which a job is measured


@compiled
def may_span(s, jobs, m, job):
    """Tell whether a job could use more GPUs than a node has, and is put on one as it asks."""
    if m.spanning == 0 or m.typed or jobs[job].servers > 0:
        return False
    return jobs[job].num_gpus <= most_on_a_node(s, jobs, job) < min(jobs[job].max_workers, MOST_GPUS)


@compiled
def is_across(s, jobs, m, job):
    """Tell whether a job is on more nodes than it would be as it asks."""
    return s.span[job] > 1 and may_span(s, jobs, m, job)


@compiled
def slow_across(m, job):
    """Return how much slower a job is across nodes than its pace: as measured, or as guessed."""
    return m.slow_across[job] if m.slow_across[job] > 0 else 1 + FIRST_GUESS / m.spanning


@compiled
def watch_across(s, jobs, m, job):
    """Measure by what it attains how much slower a job across nodes is than its pace, while it is alone there."""
    if s.phase[job] != RUNNING or m.crowd[job] > 1:
        m.across_since[job] = -1
    elif m.across_since[job] < s.phase_began[job]:
        m.across_since[job], m.across_from[job] = s.clock, attained_now(s, job)
    elif s.clock - m.across_since[job] >= WATCH_S:
        attained = attained_now(s, job) - m.across_from[job]
        if attained > 0:
            taken = (s.clock - m.across_since[job]) / attained
            m.slow_across[job] = taken / pace_of(jobs, job, s.workers[job], s.servers[job])


@compiled
def emptiest_node(s, jobs, m, job, but):
    """Return the node, other than one, with most empty GPUs that can hold a job; NOBODY where none has any."""
    best, most = NOBODY, 0
    for node in range(s.num_nodes):
        if node != but and m.empties[node] > most and s.node_memory[node] >= jobs[job].gpu_memory_gib:
            best, most = node, m.empties[node]
    return best


@compiled
def choose_across(s, jobs, m, job, workers):
    """Choose a job's GPUs, empty ones beside them, and those of the emptiest other node; return their number."""
    home = s.gpu_node[s.first_slot[job] // MAX_SHARE]
    count = choose_on(s, m, job, home, 0, workers)
    other = emptiest_node(s, jobs, m, job, home)
    return count if other == NOBODY else choose_on(s, m, job, other, count, workers)


@compiled
def choose_on(s, m, job, node, count, most):
    """Choose a job's own GPUs of a node, then empty ones, beside those chosen, so many in all; return how many are."""
    for own in (True, False):
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            has = count_on(s, gpu, job) > 0
            if count < most and has == own and (own or m.is_empty[gpu]):
                m.chosen[count] = gpu
                count += 1
    return count


@compiled
def choose_home(s, m, job):
    """Choose a job's own GPUs on the node where it has most of them, the first of equals; return their number."""
    home, most = 0, 0
    for node in range(s.num_nodes):
        own = 0
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            own += count_on(s, gpu, job) > 0
        if own > most:
            home, most = node, own
    return choose_on(s, m, job, home, 0, most)
