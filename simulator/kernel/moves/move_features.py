"""What is told of a move: the row of numbers that describes it."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, QUEUED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.queues import attained_now
from gpu_cluster_gym.simulator.kernel.cluster.readings import as_time, largest_memory
from gpu_cluster_gym.simulator.kernel.moves.move_list import (
    DISPLACE,
    FEATURES,
    MOVE,
    NAMED,
    PAUSE,
    START,
    servers_of,
)
from gpu_cluster_gym.simulator.kernel.rule.seats import crowded, harm_s
from gpu_cluster_gym.simulator.kernel.rule.trust import cores_wanted
from gpu_cluster_gym.simulator.kernel.rule.type_speeds import left_at_best, slow_on
from gpu_cluster_gym.simulator.kernel.rule.ways import duty_of, pace_of

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


@compiled
def as_signed_time(seconds):
    """Bring a time that may be negative onto the scale of the others."""
    return as_time(seconds) if seconds >= 0 else -as_time(-seconds)


@compiled
def describe_job(s, jobs, m, job, out):
    """Write what is told of the job of a move."""
    out[AS_ASKED] = as_time(m.left_s[job])
    out[RESTART] = as_time(jobs[job].pause_s + jobs[job].load_s)
    out[WANTS] = cores_wanted(s, jobs, m, job) / 8.0
    out[HAS] = s.core_count[job] / 8.0 if s.phase[job] == RUNNING else 0.0
    out[AGE] = as_time(s.clock - jobs[job].submit_s)
    out[ATTAINED] = as_time(attained_now(s, job))
    out[DOUBTFUL] = not s.predictable[job]
    out[PREEMPTIONS] = min(s.preemptions[job] / 5.0, 1.0)
    out[DUTY] = duty_of(jobs, job)
    out[MEMORY] = jobs[job].profiled_memory_gib / largest_memory(s)


@compiled
def is_its_own(s, job, gpu):
    """Tell whether a job holds a GPU."""
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        if s.job_in[slot] == job:
            return True
    return False


@compiled
def describe_gpus(s, jobs, m, job, gpus, out):
    """Write what is told of the GPUs of a start or a move; return the slowdown there, and the GPUs had alone.

    Those that victims leave count as they are now, for demand and memory.
    """
    slow, owned, slack, demand = 1.0, 0, np.inf, 0.0
    for gpu in gpus:
        own = is_its_own(s, job, gpu)
        others = s.num_jobs_on[gpu] - own
        more = 0.0 if own else duty_of(jobs, job)
        memory = 0.0 if own else jobs[job].profiled_memory_gib
        owned += others == 0
        by_type = slow_on(s, jobs, m, job, s.gpu_node[gpu])
        slow = max(slow, crowded(m.demand[gpu] + more, others) * by_type)
        demand = max(demand, m.demand[gpu] + more)
        slack = min(slack, m.room_gib[gpu] - memory)
    out[SLACK] = min(max(slack / largest_memory(s), -1.0), 1.0)
    out[DEMAND] = demand / 2.0
    return slow, owned


@compiled
def describe_cores(s, gpus, out):
    """Write how many cores a worker the node of the first of these GPUs could give."""
    node = s.gpu_node[gpus[0]]
    count = 0
    for gpu in gpus:
        count += s.gpu_node[gpu] == node
    out[CORES] = min((s.unreserved_cores[node] + count) / count / 8.0, 4.0)


@compiled
def describe_move(s, jobs, m, v, k, slow, won, relief):
    """Write what is told of the k-th move. slow: slowdown where victims have left, else 0. won, relief: s."""
    out, job, kind = v.features[k], v.job[k], v.kind[k]
    out[KIND + kind] = 1.0
    out[WAITING] = np.log1p(m.num_order) / 6.0
    if job == NOBODY:
        return
    describe_job(s, jobs, m, job, out)
    out[WON] = as_signed_time(won)
    out[RELIEF] = as_time(relief)
    if kind == PAUSE or v.num_gpus[k] == 0:
        out[ON_CORES] = kind == START and v.seating[k] == NAMED
        return
    gpus = v.gpus[k, : v.num_gpus[k]]
    there, owned = describe_gpus(s, jobs, m, job, gpus, out)
    if slow > 0:
        there, owned = slow, len(gpus) if slow == 1.0 else 0
    describe_cores(s, gpus, out)
    pace = pace_of(jobs, job, len(gpus), servers_of(jobs, v, k))
    left = m.left_s[job] if s.phase[job] == QUEUED else left_at_best(s, jobs, m, job)
    harm = harm_s(s, jobs, m, job, gpus, there) if kind == START else 0.0
    takes = pace * there * left
    out[GPUS] = np.log2(1.0 + len(gpus)) / 7.0
    out[WORKERS] = np.log2(len(gpus) / jobs[job].num_gpus) / 4.0
    out[OWNED] = owned / len(gpus)
    out[TAKES] = as_time(takes)
    out[SLOWDOWN] = there - 1.0
    out[PACE] = np.log2(pace) / 4.0
    out[COST] = np.log1p(pace * there * (1 + m.price_now * owned) + harm / max(left, 1.0)) / 4.0
    out[HARM] = as_time(harm)
    out[PRICE] = as_time(m.price_now * owned * takes)
    if kind in (DISPLACE, MOVE):
        describe_victims(s, jobs, m, v, k, out)


@compiled
def describe_victims(s, jobs, m, v, k, out):
    """Write what is told of the victims of a move."""
    restart, least = 0.0, np.inf
    for at in range(v.num_victims[k]):
        victim = v.victims[k, at]
        restart += jobs[victim].pause_s + jobs[victim].load_s
        least = min(least, m.left_s[victim])
    if v.num_victims[k] > 0:
        out[VICTIMS] = v.num_victims[k] / 4.0
        out[VICTIMS_RESTART] = as_time(restart)
        out[VICTIMS_LEFT] = as_time(least)
