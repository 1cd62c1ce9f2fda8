"""Candidate moves of `union`: a list, and a row of features for each, for agents and for look-ahead.

Of each of the first queued jobs: for each number of workers the cheapest seats, and exclusive GPUs; the best
displacement; CPU cores instead of GPUs; a slow GPU type, if running there beats waiting. Of each of the running jobs
that would gain most: the best other GPUs, with more workers or without co-located jobs; fewer workers; a pause. And to
wait, for the next event or a minute. Where cores are chosen too, single changes of cores and throttles are moves of
their own: one job, one core or level at a time.
"""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import events, legality, plan
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    MAX_SHARE,
    MIN_CORES,
    NOBODY,
    OPEN,
    QUEUED,
    RUNNING,
)
from gpu_cluster_gym.simulator.kernel.cluster.legality import may_resize
from gpu_cluster_gym.simulator.kernel.cluster.machines import count_on
from gpu_cluster_gym.simulator.kernel.cluster.placement import may_use
from gpu_cluster_gym.simulator.kernel.cluster.queues import attained_now
from gpu_cluster_gym.simulator.kernel.cluster.readings import as_time, drawn_read, largest_memory
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_asked
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_take_these
from gpu_cluster_gym.simulator.kernel.cores.sharing import LEVELS, servers_of, spread
from gpu_cluster_gym.simulator.kernel.union.candidates import find_best_move, finds_slow_start, placement_cost
from gpu_cluster_gym.simulator.kernel.union.decide import needs_requested_cores
from gpu_cluster_gym.simulator.kernel.union.estimates import believed_need, left_on_fastest
from gpu_cluster_gym.simulator.kernel.union.job_shapes import (
    CORE_EPS,
    MAX_NAMED_GPUS,
    find_shapes,
    gpu_utilization,
    iteration_seconds,
    relative_time,
    type_slowdown_on,
)
from gpu_cluster_gym.simulator.kernel.union.preemption import find_best_displacement
from gpu_cluster_gym.simulator.kernel.union.seats import (
    colocation_slowdown,
    count_empty,
    find_seats,
    harm_s,
    has_requested_cores,
    list_gpus,
    num_places,
    rank_gpus,
    relief_s,
)
from gpu_cluster_gym.simulator.kernel.union.state_cache import divides_cores, may_move
from gpu_cluster_gym.simulator.kernel.union.weights import copy_entries, insert_best

MAX_MOVES = 40
MAX_CORE_MOVES = 32  # at an instant, so that it ends
SATURATED_CORES = 8.0  # distance in cores of a CPU job that draws all of its node's memory bandwidth
(NAMED, PLACED, SEATED) = range(3)
"""Where a job goes: to the named GPUs, where the scenario's rule places it, or where `union` seats it."""

KINDS = (
    "wait",  # kind, one-hot: wait for the next event
    "start",  # kind: start a job on free or shared GPUs
    "displace",  # kind: start it in place of others
    "move",  # kind: move a running job
    "pause",  # kind: pause one
    "wait_a_minute",  # kind: wait a minute
    "divide",  # kind, with `cores=True`: divide the cores as the rule would
    "more_cores",  # the same: a core more per GPU of a running job, or for a CPU job
    "fewer_cores",  # the same: a core less
    "throttle",  # the same: throttle a CPU job by one level
    "release",  # the same: release it by one level
)
(WAIT, START, DISPLACE, MOVE, PAUSE, WAIT_A_MINUTE, DIVIDE, MORE_CORES, FEWER_CORES, THROTTLE, RELEASE) = (
    range(len(KINDS))
)

FEATURES = (
    "own_choice",  # 1 for the rule's own choice
    *KINDS,
    "on_cores",  # 1 if the workers of a job with GPUs run on CPU cores
    "gpus",  # GPUs of the move; log2(1 + GPUs) / 7
    "workers",  # log2 of (workers / requested workers) / 4
    "owned",  # share of its GPUs that it has exclusively
    "takes",  # estimated seconds until its end after the move; time
    "as_asked",  # the same with the requested shape and exclusive GPUs, or in its current place; time
    "slowdown",  # slowdown by co-located jobs, minus 1
    "pace",  # log2 of (time with this number of workers / time as requested) / 4
    "cost",  # cost according to the rule; log1p / 4
    "won",  # job-seconds gained according to the rule; signed time
    "harm",  # seconds that other jobs lose; time
    "relief",  # seconds gained by the jobs that it leaves; time
    "price",  # price of its GPU time; time
    "restart",  # its own pause and load; time
    "victims",  # jobs paused for it / 4
    "victims_restart",  # sum of their pauses and loads; time
    "victims_left",  # shortest remaining time among them; time
    "slack",  # memory left on its fullest GPU / the largest GPU's memory
    "demand",  # sum of duties on its busiest GPU / 2
    "cores",  # cores that its node could give per worker / 8
    "wants_cores",  # cores that it needs, as far as known / 8
    "has_cores",  # cores per GPU of the running job, or cores of a CPU job / 8
    "age",  # time since submission; time
    "attained",  # run time so far; time
    "doubtful",  # 1 if its estimate is not accurate
    "preemptions",  # number of preemptions / 5, at most 1
    "duty",  # its profiled duty
    "memory",  # its memory / the largest GPU's memory
    "rank",  # position in the order / 16, at most 1
    "waiting",  # queued jobs; log1p / 6
)
"""Features of a move; times are log1p(s / 60) / 4, signed times with the sign of the quantity."""
(OWN, KIND) = (0, 1)
ON_CORES, GPUS, WORKERS, OWNED, TAKES, AS_ASKED, SLOWDOWN, PACE, COST, WON, HARM, RELIEF, PRICE = range(
    12, 25
)
RESTART, VICTIMS, VICTIMS_RESTART, VICTIMS_LEFT, SLACK, DEMAND, CORES, WANTS, HAS, AGE, ATTAINED = range(
    25, 36
)
DOUBTFUL, PREEMPTIONS, DUTY, MEMORY, RANK, WAITING = range(36, 42)
assert FEATURES[ON_CORES] == "on_cores"
assert FEATURES[RESTART] == "restart"
assert FEATURES[DOUBTFUL] == "doubtful"
assert len(FEATURES) == WAITING + 1

LIST_FIELDS = (
    ("num", "i8"),
    ("own", "i8"),  # position of the choice of `union`
    ("waits", "i1"),  # whether waiting has been chosen
    ("max_wait_s", "f8"),
    ("core_instant", "i8"),  # the last instant at which moves of cores were listed
    ("core_moves", "i8"),  # number made at it
    ("default_spent", "f8"),  # job-seconds of the default run so far
    ("kind", "i1", (MAX_MOVES,)),
    ("job", "i4", (MAX_MOVES,)),
    ("node", "i4", (MAX_MOVES,)),  # of a job that starts without GPUs
    ("seating", "i1", (MAX_MOVES,)),  # NAMED, PLACED or SEATED
    ("servers", "i4", (MAX_MOVES,)),  # -1 for those requested
    ("num_gpus", "i4", (MAX_MOVES,)),
    ("gpus", "i4", (MAX_MOVES, MAX_NAMED_GPUS)),
    ("num_victims", "i4", (MAX_MOVES,)),
    ("victims", "i4", (MAX_MOVES, MAX_NAMED_GPUS)),
    ("features", "f4", (MAX_MOVES, len(FEATURES))),
    # evaluation by rollouts: see `simulator.kernel.moves.rollouts`
    ("is_evaluated", "i1", (MAX_MOVES,)),  # whether it is tried in the next futures
    ("num_futures", "i8", (MAX_MOVES,)),  # in which it was tried
    ("advantage_sum", "f8", (MAX_MOVES,)),  # job-seconds gained over the choice of `union`, in all of them
    ("advantage_squares", "f8", (MAX_MOVES,)),
)


@cache
def list_dtype() -> np.dtype:
    """Return the record type of a list of moves."""
    return np.dtype((np.record, np.dtype(list(LIST_FIELDS), align=True)))


# The list.


@compiled
def clear_list(v):
    """Empty the list."""
    v.num = 0
    v.own = -1


@compiled
def servers_of_move(jobs, v, k):
    """Return the servers that the job of the k-th move would have."""
    if v.job[k] < 0:
        return 0
    return jobs[v.job[k]].servers if v.servers[k] < 0 else v.servers[k]


@compiled
def is_same_move(v, k, kind, job, gpus):
    """Return whether the k-th move is of this kind, for this job and with these GPUs, in any order."""
    if v.seating[k] != NAMED or v.kind[k] != kind or v.job[k] != job or v.num_gpus[k] != len(gpus):
        return False
    for gpu in gpus:
        found = False
        for at in range(v.num_gpus[k]):
            found |= v.gpus[k, at] == gpu
        if not found:
            return False
    return True


@compiled
def append_move(v, kind, job, gpus, max_moves):
    """Append a move and return its position; -1 if it is listed already, the list is full or it has too many GPUs."""
    if v.num >= max_moves or len(gpus) > MAX_NAMED_GPUS:
        return -1
    for k in range(v.num):
        if is_same_move(v, k, kind, job, gpus):
            return -1
    k = v.num
    v.num += 1
    v.kind[k] = kind
    v.job[k] = job
    v.node[k] = -1
    v.servers[k] = -1
    v.seating[k] = NAMED
    v.num_gpus[k] = len(gpus)
    for at in range(len(gpus)):
        v.gpus[k, at] = gpus[at]
    v.num_victims[k] = 0
    v.features[k] = 0.0
    return k


# Features.


@compiled
def as_signed_time(seconds):
    """Scale a time that may be negative."""
    return as_time(seconds) if seconds >= 0 else -as_time(-seconds)


@compiled
def describe_job(s, jobs, m, job, out):
    """Write the features of the job of a move."""
    out[AS_ASKED] = as_time(m.left_s[job])
    out[RESTART] = as_time(jobs[job].pause_s + jobs[job].load_s)
    out[WANTS] = believed_need(s, jobs, m, job) / 8.0
    out[HAS] = s.core_count[job] / 8.0 if s.phase[job] == RUNNING else 0.0
    out[AGE] = as_time(s.clock - jobs[job].submit_s)
    out[ATTAINED] = as_time(attained_now(s, job))
    out[DOUBTFUL] = not s.predictable[job]
    out[PREEMPTIONS] = min(s.preemptions[job] / 5.0, 1.0)
    out[DUTY] = gpu_utilization(jobs, job)
    out[MEMORY] = jobs[job].profiled_memory_gib / largest_memory(s)


@compiled
def describe_gpus(s, jobs, m, job, gpus, out):
    """Write the features of the GPUs of a start or a move; return the slowdown there, and the number of exclusive GPUs.

    Demand and memory are the current ones, victims included.
    """
    slow, owned, slack, demand = 1.0, 0, np.inf, 0.0
    for gpu in gpus:
        own = count_on(s, gpu, job) > 0
        others = s.num_jobs_on[gpu] - own
        added = 0.0 if own else gpu_utilization(jobs, job)
        memory = 0.0 if own else jobs[job].profiled_memory_gib
        owned += others == 0
        type_slowdown = type_slowdown_on(s, jobs, m, job, s.gpu_node[gpu])
        slow = max(slow, colocation_slowdown(m.demand[gpu] + added, others) * type_slowdown)
        demand = max(demand, m.demand[gpu] + added)
        slack = min(slack, m.free_memory_gib[gpu] - memory)
    out[SLACK] = min(max(slack / largest_memory(s), -1.0), 1.0)
    out[DEMAND] = demand / 2.0
    return slow, owned


@compiled
def describe_cores(s, gpus, out):
    """Write the cores per worker that the node of the first of these GPUs could give."""
    node = s.gpu_node[gpus[0]]
    count = 0
    for gpu in gpus:
        count += s.gpu_node[gpu] == node
    out[CORES] = min((s.unreserved_cores[node] + count) / count / 8.0, 4.0)


@compiled
def describe_move(s, jobs, m, v, k, slow, gain, relief):
    """Write the features of the k-th move.

    slow: slowdown once victims have own_left, else 0. gain, relief: s.
    """
    out, job, kind = v.features[k], v.job[k], v.kind[k]
    out[KIND + kind] = 1.0
    out[WAITING] = np.log1p(m.num_order) / 6.0
    if job == NOBODY:
        return
    describe_job(s, jobs, m, job, out)
    out[WON] = as_signed_time(gain)
    out[RELIEF] = as_time(relief)
    if kind == PAUSE or v.num_gpus[k] == 0:
        out[ON_CORES] = kind == START and v.seating[k] == NAMED
        return
    gpus = v.gpus[k, : v.num_gpus[k]]
    slowdown, owned = describe_gpus(s, jobs, m, job, gpus, out)
    if slow > 0:
        slowdown, owned = slow, len(gpus) if slow == 1.0 else 0
    describe_cores(s, gpus, out)
    time = relative_time(jobs, job, len(gpus), servers_of_move(jobs, v, k))
    own_left = m.left_s[job] if s.phase[job] == QUEUED else left_on_fastest(s, jobs, m, job)
    harm = harm_s(s, jobs, m, job, gpus, slowdown) if kind == START else 0.0
    takes = time * slowdown * own_left
    out[GPUS] = np.log2(1.0 + len(gpus)) / 7.0
    out[WORKERS] = np.log2(len(gpus) / jobs[job].num_gpus) / 4.0
    out[OWNED] = owned / len(gpus)
    out[TAKES] = as_time(takes)
    out[SLOWDOWN] = slowdown - 1.0
    out[PACE] = np.log2(time) / 4.0
    out[COST] = np.log1p(time * slowdown * (1 + m.gpu_price * owned) + harm / max(own_left, 1.0)) / 4.0
    out[HARM] = as_time(harm)
    out[PRICE] = as_time(m.gpu_price * owned * takes)
    if kind in (DISPLACE, MOVE):
        describe_victims(s, jobs, m, v, k, out)


@compiled
def describe_victims(s, jobs, m, v, k, out):
    """Write the features of the victims of a move."""
    restart, min_left = 0.0, np.inf
    for at in range(v.num_victims[k]):
        victim = v.victims[k, at]
        restart += jobs[victim].pause_s + jobs[victim].load_s
        min_left = min(min_left, m.left_s[victim])
    if v.num_victims[k] > 0:
        out[VICTIMS] = v.num_victims[k] / 4.0
        out[VICTIMS_RESTART] = as_time(restart)
        out[VICTIMS_LEFT] = as_time(min_left)


# Starts and displacements of queued jobs.


@compiled
def note_spare_cores(s, jobs, m):
    """Note the cores of each node that running jobs could give up, and those that nobody has."""
    copy_entries(m.node_room, m.spare_cores, s.num_nodes)
    if not divides_cores(s, m):
        m.spare_cores[: s.num_nodes] = -np.inf
        return
    for at in range(m.num_running):
        job = m.running[at]
        min_cores = 1.0 + servers_of(s, job) if jobs[job].num_gpus > 0 else m.wish[job]
        spread(s, job, min_cores, m.spare_cores)


@compiled
def has_cores_for(s, m, gpus):
    """Return whether there is a core for each worker on these GPUs, once others have given up what they can."""
    if not s.cpu_limited:
        return True
    for gpu in gpus:
        node = s.gpu_node[gpu]
        shared = 0
        for other in gpus:
            shared += s.gpu_node[other] == node and s.num_jobs_on[other] > 0
        if (
            s.unreserved_cores[node] + CORE_EPS < shared * MIN_CORES
            and m.spare_cores[node] < shared * MIN_CORES
        ):
            return False
    return True


@compiled
def add_start(s, jobs, m, v, job, shape, gpus, max_moves):
    """List the start of a job in a shape on these GPUs, if there are cores for it and its tenant may have them."""
    if not has_cores_for(s, m, gpus) or not may_take_these(s, jobs, job, gpus):
        return
    servers = m.shape_servers[shape]
    if servers > 0 and legality.why_no_start(s, jobs, job, legality.Seat(gpus, 0.0, NOBODY, 0, servers)) > 0:
        return
    k = append_move(v, START, job, gpus, max_moves)
    if k >= 0:
        v.servers[k] = servers
        describe_move(s, jobs, m, v, k, 0.0, 0.0, 0.0)


@compiled
def add_starts(s, jobs, m, v, job, max_moves):
    """List, for each number of workers, the cheapest seats of a queued job, and exclusive GPUs."""
    if not find_seats(s, jobs, m, job, -1):
        return
    find_shapes(s, jobs, m, job)
    as_asked = needs_requested_cores(s, jobs, m, job)
    for shape in range(m.num_shapes):
        m.shape_cost[shape] = np.inf
        m.shape_empty[shape] = s.num_gpus + 1
    for place in range(num_places(s, jobs, m, job)):
        count = list_gpus(s, m, place)
        rank_gpus(m, count)
        empty = count_empty(m, count)
        for shape in range(m.num_shapes):
            if m.shape_workers[shape] > MAX_NAMED_GPUS or (
                as_asked and not has_requested_cores(s, jobs, m, job, shape, count)
            ):
                continue
            note_if_cheaper(s, jobs, m, job, shape, count, empty)
    for shape in range(m.num_shapes):
        workers = m.shape_workers[shape]
        if m.shape_cost[shape] < np.inf:
            add_start(s, jobs, m, v, job, shape, m.shape_gpus[shape, :workers], max_moves)
        if m.shape_empty[shape] <= s.num_gpus:
            add_start(s, jobs, m, v, job, shape, m.shape_own_gpus[shape, :workers], max_moves)


@compiled
def note_if_cheaper(s, jobs, m, job, shape, count, empty):
    """Note the best-ranked GPUs of a place for a shape if they cost less, or are empty on a fuller place."""
    workers = m.shape_workers[shape]
    cost = placement_cost(s, jobs, m, job, shape, count, m.shape_cost[shape])
    if cost < m.shape_cost[shape]:
        m.shape_cost[shape] = cost
        copy_entries(m.ranked, m.shape_gpus[shape], workers)
    if cost < np.inf and workers <= empty < m.shape_empty[shape]:
        m.shape_empty[shape] = empty
        copy_entries(m.ranked, m.shape_own_gpus[shape], workers)


@compiled
def add_displacement(s, jobs, m, v, job, max_moves):
    """List the best displacement for a queued job, whether or not it pays."""
    if m.preemption == 0 or m.pending_job != NOBODY:
        return
    gain = find_best_displacement(s, jobs, m, job, np.inf, -np.inf)
    if gain == -np.inf or m.num_best_victims > MAX_NAMED_GPUS:
        return
    k = append_move(v, DISPLACE, job, m.best_gpus[: m.num_best_gpus], max_moves)
    if k < 0:
        return
    v.servers[k] = m.best_servers
    v.num_victims[k] = m.num_best_victims
    for at in range(m.num_best_victims):
        v.victims[k, at] = m.best_victims[at]
    describe_move(s, jobs, m, v, k, m.best_slowdown, gain, 0.0)


@compiled
def add_start_on_cpu(s, jobs, m, v, job, max_moves):
    """List the start of a job with GPUs on CPU cores, if that is not too slow and a node has them."""
    if jobs[job].cpu_slowdown <= 0 or not s.cpu_limited:
        return
    workers, servers = jobs[job].num_gpus, jobs[job].servers
    on_gpus = iteration_seconds(jobs, job, workers, servers, 0.0)
    if iteration_seconds(jobs, job, workers, servers, 1.0) > m.most_slow * on_gpus:
        return
    asked = cores_asked(jobs, job, 0, workers, servers)
    for node in range(s.num_nodes):
        open_to_it = s.closed[node] == OPEN and may_use(s, jobs, job, node)
        if open_to_it and s.unreserved_cores[node] + CORE_EPS >= asked:
            k = append_move(v, START, job, m.chosen[:0], max_moves)
            if k >= 0:
                v.node[k] = node
                describe_move(s, jobs, m, v, k, 0.0, 0.0, 0.0)
            return


@compiled
def add_slow_start(s, jobs, m, v, job, ahead, max_moves):
    """List the start of a queued job on slow GPUs, if running there beats waiting; see `finds_slow_start`."""
    if not m.typed or not finds_slow_start(s, jobs, m, job, ahead):
        return
    k = append_move(v, START, job, m.gpus[: m.num_gpus], max_moves)
    if k >= 0:
        describe_move(s, jobs, m, v, k, 0.0, 0.0, 0.0)


# Moves of running jobs.


@compiled
def add_moves_of_running(s, jobs, m, v, count, max_moves):
    """List the moves of the running jobs that would gain most by empty GPUs."""
    listed = 0
    for at in range(m.num_running):
        job = m.running[at]
        if may_move(s, jobs, m, job):
            gain = find_best_move(s, jobs, m, job, -np.inf)
            # Jobs without a move to empty GPUs come last, the shortest first.
            m.key[job] = gain if gain > -np.inf else -1e9 - m.left_s[job]
            listed = insert_best(m, listed, count, job)
    for at in range(listed):
        job = m.rows[at]
        gain = find_best_move(s, jobs, m, job, -np.inf)
        if gain > -np.inf and m.sizing > 0 and m.num_gpus <= MAX_NAMED_GPUS:
            add_relocation(s, jobs, m, v, job, m.gpus[: m.num_gpus], gain, max_moves)
        add_shrink(s, jobs, m, v, job, max_moves)
        if m.preemption > 0:
            k = append_move(v, PAUSE, job, m.chosen[:0], max_moves)
            if k >= 0:
                describe_move(s, jobs, m, v, k, 0.0, 0.0, relief_s(s, m, job))


@compiled
def add_relocation(s, jobs, m, v, job, gpus, gain, max_moves):
    """List the move of a running job to these GPUs, with the noted servers, if it is legal."""
    if legality.why_no_move(s, jobs, job, legality.Seat(gpus, 0.0, NOBODY, 0, m.servers)) > 0:
        return
    k = append_move(v, MOVE, job, gpus, max_moves)
    if k >= 0:
        v.servers[k] = m.servers
        describe_move(s, jobs, m, v, k, 0.0, gain, relief_s(s, m, job))


@compiled
def add_shrink(s, jobs, m, v, job, max_moves):
    """List the next smaller number of workers for a running job, on its exclusive GPUs."""
    if m.sizing == 0 or s.width[job] > MAX_NAMED_GPUS:
        return
    find_shapes(s, jobs, m, job)
    workers = 0
    for shape in range(m.num_shapes):
        if workers < m.shape_workers[shape] < s.width[job]:
            workers, m.servers = m.shape_workers[shape], m.shape_servers[shape]
    count = 0
    slot = s.first_slot[job]
    while slot != NOBODY and count < workers:
        gpu = slot // MAX_SHARE
        if s.num_jobs_on[gpu] == 1:
            m.chosen[count] = gpu
            count += 1
        slot = s.next_slot[slot]
    if workers > 0 and count == workers:
        add_relocation(s, jobs, m, v, job, m.chosen[:count], 0.0, max_moves)


# Cores and throttles.


@compiled
def is_division(m):
    """Return whether the proposal of `union` is about cores or a throttle alone."""
    last = m.move_kind[m.num_moves - 1]
    return last in (plan.CORES, plan.THROTTLE)


@compiled
def list_own_division(s, jobs, m, v):
    """List the division of cores that `union` proposes first; it stays proposed until another move is chosen."""
    v.own = append_move(v, DIVIDE, NOBODY, m.chosen[:0], 1)
    describe_move(s, jobs, m, v, v.own, 0.0, 0.0, 0.0)


@compiled
def new_value(s, kind, job):
    """Return a job's cores, per GPU unless it is a CPU job, or its throttle level after a move of this kind."""
    if kind in (THROTTLE, RELEASE):
        return (round(s.throttle[job] * LEVELS) + (1 if kind == RELEASE else -1)) / LEVELS
    return s.core_count[job] + (1.0 if kind == MORE_CORES else -1.0)


@compiled
def propose_core_move(s, m, kind, job):
    """Propose a change of a job's cores or throttle."""
    act = plan.THROTTLE if kind in (THROTTLE, RELEASE) else plan.CORES
    plan.propose(m, act, job, new_value(s, kind, job))


@compiled
def is_core_move_legal(s, jobs, kind, job):
    """Return whether a change of a running job's cores or throttle is legal now."""
    value = new_value(s, kind, job)
    if kind in (MORE_CORES, FEWER_CORES):
        return may_resize(s, jobs, job, value)
    return s.bandwidth_binds and jobs[job].num_gpus == 0 and 1.0 / LEVELS <= value <= 1.0


@compiled
def has_core_move(s, jobs, job):
    """Return whether any change of a job's cores or throttle is legal now."""
    if s.phase[job] != RUNNING:
        return False
    for kind in (MORE_CORES, FEWER_CORES, THROTTLE, RELEASE):
        if is_core_move_legal(s, jobs, kind, job):
            return True
    return False


@compiled
def distance_from_need(s, jobs, m, job):
    """Return the distance of a job's cores from its need; of a CPU job also its share of the memory bandwidth."""
    if jobs[job].num_gpus > 0:
        return abs(believed_need(s, jobs, m, job) + servers_of(s, job) - s.core_count[job])
    filled = drawn_read(s, jobs, m, job) / s.node_gbs if s.bandwidth_binds else 0.0
    return abs(jobs[job].cores_each - s.core_count[job]) + 1.0 - s.throttle[job] + SATURATED_CORES * filled


@compiled
def add_core_moves(s, jobs, m, v, count, max_moves):
    """List changes of cores and throttles of `count` running jobs: those whose cores are furthest from their need.

    A CPU job needs what it asks for, and ranks higher the more of its node's memory bandwidth it draws.
    """
    if v.core_instant != s.instant:
        v.core_instant = s.instant
        v.core_moves = 0
    if not s.cpu_limited or v.core_moves >= MAX_CORE_MOVES:
        return
    listed = 0
    for at in range(m.num_running):
        job = m.running[at]
        if has_core_move(s, jobs, job):
            m.key[job] = distance_from_need(s, jobs, m, job)
            listed = insert_best(m, listed, count, job)
    for at in range(listed):
        job = m.rows[at]
        for kind in (MORE_CORES, FEWER_CORES, THROTTLE, RELEASE):
            if is_core_move_legal(s, jobs, kind, job):
                k = append_move(v, kind, job, m.chosen[:0], max_moves)
                if k >= 0:
                    describe_move(s, jobs, m, v, k, 0.0, 0.0, 0.0)


# All moves.


@compiled
def list_moves(s, jobs, m, v, queued, running, max_moves, cores):
    """Add the moves of this number of queued and running jobs to the list, and to wait; `max_moves` in all.

    cores: whether cores and throttles are moves too. The state has been read; the choice of `union`, unless it is to
    wait, is on the list already.
    """
    note_spare_cores(s, jobs, m)
    max_listed = max_moves - 2  # the last two positions are for waiting
    ahead = 0
    for at in range(min(queued, m.num_order)):
        job = m.order[at]
        ahead += jobs[job].num_gpus
        if s.last_action_instant[job] == s.instant or job == m.pending_job:
            continue
        add_starts(s, jobs, m, v, job, max_listed)
        add_displacement(s, jobs, m, v, job, max_listed)
        add_start_on_cpu(s, jobs, m, v, job, max_listed)
        add_slow_start(s, jobs, m, v, job, ahead, max_listed)
    add_moves_of_running(s, jobs, m, v, running, max_listed)
    if cores:
        add_core_moves(s, jobs, m, v, running, max_listed)
    add_waits(s, jobs, m, v, max_moves)


@compiled
def add_waits(s, jobs, m, v, max_moves):
    """List to wait, if time can go on or there is nothing else."""
    if events.next_event(s, jobs) < np.inf or v.num == 0:
        for kind in (WAIT, WAIT_A_MINUTE):
            k = append_move(v, kind, NOBODY, m.chosen[:0], max_moves)
            describe_move(s, jobs, m, v, k, 0.0, 0.0, 0.0)
            if v.own < 0 and kind == WAIT:
                v.own = k
    for k in range(v.num):
        v.features[k, 0] = k == v.own
