"""Which moves are worth considering: for the first queued jobs and for the running ones that would win most.

Of a queued job: for each number of workers its cheapest seats, and GPUs of its own; the best displacement; CPU cores
instead of GPUs; a slow type of GPU, where it had better run there than wait. Of a running job: the best other GPUs,
with more workers or without those beside it; fewer workers; a pause. To wait for the next event, or a minute.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import events, legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, MIN_CORES, NOBODY, OPEN
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_asked
from gpu_cluster_gym.simulator.kernel.cores.cores import servers_of, spread
from gpu_cluster_gym.simulator.kernel.moves.choosing_cores import add_core_moves
from gpu_cluster_gym.simulator.kernel.moves.move_features import describe_move
from gpu_cluster_gym.simulator.kernel.moves.move_list import (
    DISPLACE,
    MOVE,
    PAUSE,
    START,
    WAIT,
    WAIT_A_MINUTE,
    add,
)
from gpu_cluster_gym.simulator.kernel.rule.displacements import best_displacement
from gpu_cluster_gym.simulator.kernel.rule.levers import needs_as_asked
from gpu_cluster_gym.simulator.kernel.rule.offers import best_move_of, cost_there, may_move
from gpu_cluster_gym.simulator.kernel.rule.places import count_empty, finds_cores, list_gpus, num_places
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import MOST_GPUS, copy, insert_best
from gpu_cluster_gym.simulator.kernel.rule.rule_sight import divides
from gpu_cluster_gym.simulator.kernel.rule.seats import look_for, rank_gpus, relief_s
from gpu_cluster_gym.simulator.kernel.rule.slow_types import begin_slowly
from gpu_cluster_gym.simulator.kernel.rule.ways import EPS, find_ways, seconds_of


@compiled
def note_spare_cores(s, jobs, m):
    """Write how many cores of each node running jobs could give up, and those that nobody has."""
    copy(m.node_room, m.spare, s.num_nodes)
    if not divides(s, m):
        m.spare[: s.num_nodes] = -np.inf
        return
    for at in range(m.num_running):
        job = m.running[at]
        least = 1.0 + servers_of(s, job) if jobs[job].num_gpus > 0 else m.wish[job]
        spread(s, job, least, m.spare)


@compiled
def can_be_fed(s, m, gpus):
    """Tell whether there is a core for each worker on these GPUs, once others have given up what they can."""
    if not s.cpu_limited:
        return True
    for gpu in gpus:
        node = s.gpu_node[gpu]
        shared = 0
        for other in gpus:
            shared += s.gpu_node[other] == node and s.num_jobs_on[other] > 0
        if s.unreserved_cores[node] + EPS < shared * MIN_CORES and m.spare[node] < shared * MIN_CORES:
            return False
    return True


@compiled
def add_start(s, jobs, m, v, job, way, gpus, most):
    """List the start of a job in a way on these GPUs, if it can be fed there."""
    if not can_be_fed(s, m, gpus):
        return
    servers = m.way_servers[way]
    if servers > 0 and legality.why_no_start(s, jobs, job, legality.Seat(gpus, 0.0, NOBODY, 0, servers)) > 0:
        return
    k = add(v, START, job, gpus, most)
    if k >= 0:
        v.servers[k] = servers
        describe_move(s, jobs, m, v, k, 0.0, 0.0, 0.0)


@compiled
def add_starts(s, jobs, m, v, job, most):
    """List for each number of workers the cheapest seats of a queued job, and GPUs of its own."""
    if not look_for(s, jobs, m, job, -1):
        return
    find_ways(s, jobs, m, job)
    as_asked = needs_as_asked(s, jobs, m, job)
    for way in range(m.num_ways):
        m.way_cost[way] = np.inf
        m.way_empty[way] = s.num_gpus + 1
    for place in range(num_places(s, jobs, m, job)):
        count = list_gpus(s, m, place)
        rank_gpus(m, count)
        empty = count_empty(m, count)
        for way in range(m.num_ways):
            if m.way_workers[way] > MOST_GPUS or (as_asked and not finds_cores(s, jobs, m, job, way, count)):
                continue
            compare(s, jobs, m, job, way, count, empty)
    for way in range(m.num_ways):
        workers = m.way_workers[way]
        if m.way_cost[way] < np.inf:
            add_start(s, jobs, m, v, job, way, m.way_gpus[way, :workers], most)
        if m.way_empty[way] <= s.num_gpus:
            add_start(s, jobs, m, v, job, way, m.way_own[way, :workers], most)


@compiled
def compare(s, jobs, m, job, way, count, empty):
    """Note the GPUs of a place ranked first for a way, if they cost less, or are free and leave fewer so."""
    workers = m.way_workers[way]
    cost = cost_there(s, jobs, m, job, way, count, m.way_cost[way])
    if cost < m.way_cost[way]:
        m.way_cost[way] = cost
        copy(m.ranked, m.way_gpus[way], workers)
    if cost < np.inf and workers <= empty < m.way_empty[way]:
        m.way_empty[way] = empty
        copy(m.ranked, m.way_own[way], workers)


@compiled
def add_displacement(s, jobs, m, v, job, most):
    """List the best displacement for a queued job, whether or not it pays."""
    if m.preemption == 0 or m.kept_for != NOBODY:
        return
    won = best_displacement(s, jobs, m, job, np.inf, -np.inf)
    if won == -np.inf or m.num_evicted > MOST_GPUS:
        return
    k = add(v, DISPLACE, job, m.wanted[: m.num_wanted], most)
    if k < 0:
        return
    v.servers[k] = m.wanted_servers
    v.num_victims[k] = m.num_evicted
    for at in range(m.num_evicted):
        v.victims[k, at] = m.to_evict[at]
    describe_move(s, jobs, m, v, k, m.wanted_slowdown, won, 0.0)


@compiled
def add_start_on_cores(s, jobs, m, v, job, most):
    """List the start of a job with GPUs on CPU cores, where that is not too slow and a node has them."""
    if jobs[job].cpu_slowdown <= 0 or not s.cpu_limited:
        return
    workers, servers = jobs[job].num_gpus, jobs[job].servers
    on_gpus = seconds_of(jobs, job, workers, servers, 0.0)
    if seconds_of(jobs, job, workers, servers, 1.0) > m.most_slow * on_gpus:
        return
    asked = cores_asked(jobs, job, 0, workers, servers)
    for node in range(s.num_nodes):
        if s.closed[node] == OPEN and s.unreserved_cores[node] + EPS >= asked:
            k = add(v, START, job, m.chosen[:0], most)
            if k >= 0:
                v.node[k] = node
                describe_move(s, jobs, m, v, k, 0.0, 0.0, 0.0)
            return


@compiled
def add_slow_start(s, jobs, m, v, job, ahead, most):
    """List the start of a queued job on slow GPUs, where it had better run there than wait; see `begin_slowly`."""
    if not m.typed or not begin_slowly(s, jobs, m, job, ahead):
        return
    k = add(v, START, job, m.gpus[: m.num_gpus], most)
    if k >= 0:
        describe_move(s, jobs, m, v, k, 0.0, 0.0, 0.0)


@compiled
def add_moves_of_running(s, jobs, m, v, count, most):
    """List what could be done with the running jobs that would win most by empty GPUs."""
    listed = 0
    for at in range(m.num_running):
        job = m.running[at]
        if may_move(s, jobs, m, job):
            gain = best_move_of(s, jobs, m, job, -np.inf)
            m.key[job] = gain if gain > -np.inf else -1e9 - m.left_s[job]
            listed = insert_best(m, listed, count, job)
    for at in range(listed):
        job = m.rows[at]
        won = best_move_of(s, jobs, m, job, -np.inf)
        if won > -np.inf and m.sizing > 0 and m.num_gpus <= MOST_GPUS:
            add_move(s, jobs, m, v, job, m.gpus[: m.num_gpus], won, most)
        add_shrink(s, jobs, m, v, job, most)
        if m.preemption > 0:
            k = add(v, PAUSE, job, m.chosen[:0], most)
            if k >= 0:
                describe_move(s, jobs, m, v, k, 0.0, 0.0, relief_s(s, m, job))


@compiled
def add_move(s, jobs, m, v, job, gpus, won, most):
    """List the move of a running job to these GPUs, with the servers noted, if it is legal."""
    if legality.why_no_move(s, jobs, job, legality.Seat(gpus, 0.0, NOBODY, 0, m.servers)) > 0:
        return
    k = add(v, MOVE, job, gpus, most)
    if k >= 0:
        v.servers[k] = m.servers
        describe_move(s, jobs, m, v, k, 0.0, won, relief_s(s, m, job))


@compiled
def add_shrink(s, jobs, m, v, job, most):
    """List the next smaller number of workers for a running job, on GPUs that it has alone."""
    if m.sizing == 0 or s.width[job] > MOST_GPUS:
        return
    find_ways(s, jobs, m, job)
    fewer = 0
    for way in range(m.num_ways):
        if fewer < m.way_workers[way] < s.width[job]:
            fewer, m.servers = m.way_workers[way], m.way_servers[way]
    count = 0
    slot = s.first_slot[job]
    while slot != NOBODY and count < fewer:
        gpu = slot // MAX_SHARE
        if s.num_jobs_on[gpu] == 1:
            m.chosen[count] = gpu
            count += 1
        slot = s.next_slot[slot]
    if fewer > 0 and count == fewer:
        add_move(s, jobs, m, v, job, m.chosen[:count], 0.0, most)


@compiled
def list_moves(s, jobs, m, v, queued, running, most, cores):
    """Add to the list what could be done with so many queued and running jobs, and to wait; `most` moves in all.

    cores: whether cores and throttles are moves too. The state has been read; the rule's own choice, if it is not to
    wait, is on the list already.
    """
    note_spare_cores(s, jobs, m)
    room = most - 2
    ahead = 0
    for at in range(min(queued, m.num_order)):
        job = m.order[at]
        ahead += jobs[job].num_gpus
        if s.last_action_instant[job] == s.instant or job == m.kept_for:
            continue
        add_starts(s, jobs, m, v, job, room)
        add_displacement(s, jobs, m, v, job, room)
        add_start_on_cores(s, jobs, m, v, job, room)
        add_slow_start(s, jobs, m, v, job, ahead, room)
    add_moves_of_running(s, jobs, m, v, running, room)
    if cores:
        add_core_moves(s, jobs, m, v, running, room)
    add_waits(s, jobs, m, v, most)


@compiled
def add_waits(s, jobs, m, v, most):
    """List to wait, if time can go on, or if there is nothing else."""
    if events.next_event(s, jobs) < np.inf or v.num == 0:
        for kind in (WAIT, WAIT_A_MINUTE):
            k = add(v, kind, NOBODY, m.chosen[:0], most)
            describe_move(s, jobs, m, v, k, 0.0, 0.0, 0.0)
            if v.own < 0 and kind == WAIT:
                v.own = k
    for k in range(v.num):
        v.features[k, 0] = k == v.own
