"""The moves that are worth considering now: what each does, and a row of numbers that describe it."""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import MOST_GPUS

MOST_MOVES = 40
(NAMED, PLACED, SEATED) = range(3)
"""Where a job goes: to the GPUs named, where the scenario's rule places it, or where the rule over moves seats it."""

KINDS = (
    "wait",
    "start",
    "displace",
    "move",
    "pause",
    "wait_a_minute",
    "divide",  # cores as the rule would, or a throttle; this and the next four only where cores are chosen too
    "more_cores",  # one more a GPU of a running job, or for a CPU job
    "fewer_cores",
    "throttle",  # a CPU job's memory bandwidth by a level
    "release",
)
(WAIT, START, DISPLACE, MOVE, PAUSE, WAIT_A_MINUTE, DIVIDE, MORE_CORES, FEWER_CORES, THROTTLE, RELEASE) = (
    range(len(KINDS))
)

FEATURES = (
    "own_choice",  # whether it is what the rule would do
    *KINDS,
    "on_cores",  # whether the workers of a job with GPUs have CPU cores instead
    "gpus",  # log2(1 + GPUs) / 7
    "workers",  # log2 of workers over those asked for, / 4
    "owned",  # share of its GPUs that it has alone
    "takes",  # estimated s to go there, time
    "as_asked",  # estimated s to go as asked and alone, or where it runs as it does; time
    "slowdown",  # by those beside it, less 1
    "pace",  # log2 of the time with so many workers over that as asked, / 4
    "cost",  # the rule's, log1p / 4
    "won",  # s, as the rule counts: signed time
    "harm",  # s that others lose, time
    "relief",  # s that those win whom it leaves, time
    "price",  # of its GPU time, time
    "restart",  # its own pause and load, time
    "victims",  # / 4
    "victims_restart",  # sum of their pauses and loads, time
    "victims_left",  # the least they have to go, time
    "slack",  # memory left on its fullest GPU, over the largest GPU's
    "demand",  # on its busiest GPU, / 2
    "cores",  # a worker that its node could give, / 8
    "wants_cores",  # as far as is known, / 8
    "has_cores",  # a GPU of a running job, or as a CPU job, / 8
    "age",  # since its submission, time
    "attained",  # time
    "doubtful",  # whether its estimate is not good
    "preemptions",  # / 5, at most 1
    "duty",
    "memory",  # over the largest GPU's
    "rank",  # its place in the order / 16, at most 1
    "waiting",  # queued jobs, log1p / 6
)
"""What is told of a move; times are log1p(s / 60) / 4, signed ones with the sign of what they measure."""

LIST = (
    ("num", "i8"),
    ("own", "i8"),  # the place of the rule's own choice
    ("waits", "i1"),  # whether to wait has been chosen
    ("longest_wait", "f8"),  # s
    ("core_instant", "i8"),  # the last one at which moves of cores were listed
    ("core_moves", "i8"),  # made at it
    ("default_spent", "f8"),  # job-seconds of the default run so far
    ("kind", "i1", (MOST_MOVES,)),
    ("job", "i4", (MOST_MOVES,)),
    ("node", "i4", (MOST_MOVES,)),  # of a job that starts without GPUs
    ("seating", "i1", (MOST_MOVES,)),  # NAMED, PLACED or SEATED
    ("servers", "i4", (MOST_MOVES,)),  # -1 for those asked for
    ("num_gpus", "i4", (MOST_MOVES,)),
    ("gpus", "i4", (MOST_MOVES, MOST_GPUS)),
    ("num_victims", "i4", (MOST_MOVES,)),
    ("victims", "i4", (MOST_MOVES, MOST_GPUS)),
    ("features", "f4", (MOST_MOVES, len(FEATURES))),
    # what looking ahead finds of each move: see `simulator.kernel.moves.look_ahead`
    ("tried", "i1", (MOST_MOVES,)),  # whether it is carried on in the futures that are drawn next
    ("futures", "i8", (MOST_MOVES,)),  # in which it was carried on
    ("won", "f8", (MOST_MOVES,)),  # job-seconds in all of them, over the rule's own choice
    ("won_squared", "f8", (MOST_MOVES,)),
)


@cache
def list_dtype() -> np.dtype:
    """Return the record type of a list of moves."""
    return np.dtype((np.record, np.dtype(list(LIST), align=True)))


@compiled
def clear(v):
    """Empty the list."""
    v.num = 0
    v.own = -1


@compiled
def servers_of(jobs, v, k):
    """Return the servers that the job of the k-th move would have."""
    if v.job[k] < 0:
        return 0
    return jobs[v.job[k]].servers if v.servers[k] < 0 else v.servers[k]


@compiled
def is_like(v, k, kind, job, gpus):
    """Tell whether the k-th move is of this kind, for this job and with these GPUs, in whatever order."""
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
def add(v, kind, job, gpus, most):
    """Put a move on the list and return its place; -1 where it is there already, does not fit or names too many GPUs.

    most: moves that the list may have.
    """
    if v.num >= most or len(gpus) > MOST_GPUS:
        return -1
    for k in range(v.num):
        if is_like(v, k, kind, job, gpus):
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
