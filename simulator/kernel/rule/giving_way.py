"""Running jobs give way to one of the first in order: on one node, or on several for a job larger than any."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import allocating, compiled
from gpu_cluster_gym.simulator.kernel.cluster.decided import PAUSE, propose
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, PAUSING, QUEUED
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers
from gpu_cluster_gym.simulator.kernel.rankings.room import (
    Pool,
    cores_to_serve,
    find_room,
    holding_nodes,
)
from gpu_cluster_gym.simulator.kernel.rule.displacements import (
    best_displacement,
    cost_of_pause,
    hold_counted,
    longest_pause,
    loss_s,
    note_displacement,
)
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import copy
from gpu_cluster_gym.simulator.kernel.rule.seats import may_be_evicted
from gpu_cluster_gym.simulator.kernel.rule.slow_types import later_end
from gpu_cluster_gym.simulator.kernel.rule.ways import is_beyond_a_node

TRIED = 8  # jobs, where types differ, of those that could gain by pauses, for which these are looked for; our choice


@allocating
def find_room_beyond(s, jobs, m, job):
    """Find the jobs to pause for a queued one that is larger than any node, as it asks; return the seconds won, or 0.

    As on one node, but that its wait is what `backlog` counts: when so many GPUs come free by themselves is not told.
    The victims and the GPUs are noted.
    """
    counted = hold_counted(m)
    m.anew_s = m.left_s[job]
    if counted == 0:
        return 0.0
    wanted = jobs[job].num_gpus
    offered, cost = np.zeros(s.num_arrived, np.bool_), np.zeros(s.num_arrived)
    for k in range(s.num_active):
        other = s.events[k]
        offered[other] = may_be_evicted(m, job, other) and is_alone(s, other)
        cost[other] = cost_of_pause(s, jobs, m, other, m.left_s[job], min(s.width[other] / wanted, 1.0))
    each = cores_of_servers(s.servers[job], s.workers[job], s.width[job])
    pool = Pool(offered, cost, m.left_s, cores_to_serve(s, each), False)
    count = find_room(s, pool, holding_nodes(s, jobs, job), wanted, each, m.victims, m.chosen)[0]
    if count <= 0:
        return 0.0
    note_displacement(m, wanted, jobs[job].servers, count, 1.0)
    held, freed = 0.0, 0
    for k in range(count):
        held += m.left_s[m.victims[k]] * s.width[m.victims[k]]
        freed += s.width[m.victims[k]]
    pause = longest_pause(jobs, m, count)
    lost = loss_s(s, jobs, m, count, m.num_order, pause + m.left_s[job])
    return max(counted * held / freed - pause - m.caution * lost, 0.0)


@compiled
def ends_waiting(s, jobs, m, at, ahead):
    """Return the seconds until a job ends that waits, by its place in order: infinite if that is still to be found.

    -1 where no pauses are to be considered: behind the first few, but where slow types of GPUs would end it sooner.
    ahead: GPUs that it and those before it ask for.
    """
    job = m.standing[at]
    ends = later_end(s, jobs, m, job, ahead) if m.typed and at > 0 else np.inf
    return np.inf if ends < 0.0 and at < m.contenders and s.phase[job] == QUEUED else ends


@compiled
def worth_displacing(s, jobs, m, job, ends):
    """Tell whether pauses pay for a job that ends then if it waits; the victims and the GPUs are noted.

    One larger than any node may start on several, or with as many workers as one has.
    """
    gain = 0.0
    if s.phase[job] == QUEUED and is_beyond_a_node(s, jobs, m, job):
        gain = find_room_beyond(s, jobs, m, job)
    return best_displacement(s, jobs, m, job, ends, gain) > 0.0


@compiled
def displace(s, jobs, m):
    """Propose the pauses by which one of the first in order gets seats, if that pays; tell whether it does.

    Where types of GPUs differ, jobs behind them may take slow GPUs that others hold.
    """
    if m.preemption == 0 or m.kept_for != NOBODY:
        return False
    ahead, tried = 0, 0
    for at in range(m.num_standing if m.typed else min(m.num_standing, int(m.contenders))):
        job = m.standing[at]
        ahead += jobs[job].num_gpus
        ends = ends_waiting(s, jobs, m, at, ahead)
        if s.last_action_instant[job] == s.instant or ends < 0.0:
            continue
        if worth_displacing(s, jobs, m, job, ends):
            m.is_choice = 1
            displace_for(m, job, m.wanted[: m.num_wanted], m.wanted_servers, m.to_evict[: m.num_evicted])
            return True
        tried += 1
        if tried >= max(TRIED, m.contenders):
            break
    return False


@compiled
def is_still_held(s, m):
    """Tell whether a GPU that is kept is held by a job that pauses."""
    for k in range(m.num_kept):
        gpu = m.kept_gpus[k]
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            if s.job_in[slot] != NOBODY and s.phase[s.job_in[slot]] == PAUSING:
                return True
    return False


@compiled
def takes_kept(s, jobs, m, job):
    """Tell whether the GPUs that were kept for a job have a seat, and memory, for it now."""
    for k in range(m.num_kept):
        gpu = m.kept_gpus[k]
        if s.num_jobs_on[gpu] >= s.max_share:
            return False
        if s.num_jobs_on[gpu] > 0 and m.room_gib[gpu] < jobs[job].profiled_memory_gib:
            return False
    return True


@compiled
def displace_for(m, job, gpus, servers, victims):
    """Propose the pauses of victims, and keep GPUs for a job, which is to have so many servers."""
    m.kept_for = job
    m.kept_servers = servers
    m.num_kept = len(gpus)
    copy(gpus, m.kept_gpus, len(gpus))
    for victim in victims:
        propose(m, PAUSE, victim, 0.0)
