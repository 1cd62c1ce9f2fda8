"""Cores and throttles as moves of their own, where they are to be chosen: one job, one core or level at a time."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import decided
from gpu_cluster_gym.simulator.kernel.cluster.laws import may_resize
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.readings import drawn_read
from gpu_cluster_gym.simulator.kernel.cores.sharing import LEVELS, servers_of
from gpu_cluster_gym.simulator.kernel.moves.move_features import describe_move
from gpu_cluster_gym.simulator.kernel.moves.move_list import (
    DIVIDE,
    FEWER_CORES,
    MORE_CORES,
    RELEASE,
    THROTTLE,
    add,
)
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import insert_best
from gpu_cluster_gym.simulator.kernel.rule.trust import cores_wanted

MOST_AT_ONCE = 32  # such moves at an instant, so that it ends
FULL_MEMORY = 8.0  # cores that a CPU job's drawing all of its node's memory bandwidth counts as


@compiled
def is_division(m):
    """Tell whether what the rule has decided on is about cores or a throttle alone."""
    last = m.move_kind[m.num_moves - 1]
    return last in (decided.CORES, decided.THROTTLE)


@compiled
def put_division(s, jobs, m, v):
    """Put what the rule would divide first on the list; it stays decided on until another move is chosen."""
    v.own = add(v, DIVIDE, NOBODY, m.chosen[:0], 1)
    describe_move(s, jobs, m, v, v.own, 0.0, 0.0, 0.0)


@compiled
def value_of(s, kind, job):
    """Return the cores a GPU, or as a whole, or the level of the throttle, that a job would have after such a move."""
    if kind in (THROTTLE, RELEASE):
        return (round(s.throttle[job] * LEVELS) + (1 if kind == RELEASE else -1)) / LEVELS
    return s.core_count[job] + (1.0 if kind == MORE_CORES else -1.0)


@compiled
def propose_cores(s, m, kind, job):
    """Decide on such a move."""
    act = decided.THROTTLE if kind in (THROTTLE, RELEASE) else decided.CORES
    decided.propose(m, act, job, value_of(s, kind, job))


@compiled
def is_possible(s, jobs, kind, job):
    """Tell whether such a move of a running job is legal now."""
    value = value_of(s, kind, job)
    if kind in (MORE_CORES, FEWER_CORES):
        return may_resize(s, jobs, job, value)
    return s.bandwidth_binds and jobs[job].num_gpus == 0 and 1.0 / LEVELS <= value <= 1.0


@compiled
def has_core_move(s, jobs, job):
    """Tell whether any such move of a job is possible."""
    if s.phase[job] != RUNNING:
        return False
    for kind in (MORE_CORES, FEWER_CORES, THROTTLE, RELEASE):
        if is_possible(s, jobs, kind, job):
            return True
    return False


@compiled
def distance(s, jobs, m, job):
    """Return how many cores a GPU a job is from what it wants; of a CPU job as a whole, and how it fills its memory."""
    if jobs[job].num_gpus > 0:
        return abs(cores_wanted(s, jobs, m, job) + servers_of(s, job) - s.core_count[job])
    filled = drawn_read(s, jobs, m, job) / s.node_gbs if s.bandwidth_binds else 0.0
    return abs(jobs[job].cores_each - s.core_count[job]) + 1.0 - s.throttle[job] + FULL_MEMORY * filled


@compiled
def add_core_moves(s, jobs, m, v, count, most):
    """List these moves of so many running jobs: those whose cores are furthest from what they are known to want.

    A CPU job wants what it asks for, and comes the sooner the more of its node's memory bandwidth it draws.
    """
    if v.core_instant != s.instant:
        v.core_instant = s.instant
        v.core_moves = 0
    if not s.cpu_limited or v.core_moves >= MOST_AT_ONCE:
        return
    listed = 0
    for at in range(m.num_running):
        job = m.running[at]
        if has_core_move(s, jobs, job):
            m.key[job] = distance(s, jobs, m, job)
            listed = insert_best(m, listed, count, job)
    for at in range(listed):
        job = m.rows[at]
        for kind in (MORE_CORES, FEWER_CORES, THROTTLE, RELEASE):
            if is_possible(s, jobs, kind, job):
                k = add(v, kind, job, m.chosen[:0], most)
                if k >= 0:
                    describe_move(s, jobs, m, v, k, 0.0, 0.0, 0.0)
