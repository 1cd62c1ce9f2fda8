"""What the kernel works on: a job's fixed figures, and one record that holds all that changes in an episode."""

from functools import cache
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.parameters import MAX_SHARE as MAX_SHARE
from gpu_cluster_gym.simulator.kernel.cluster.record import MAX_LEVELS as MAX_LEVELS
from gpu_cluster_gym.simulator.kernel.cluster.record import STATE
from gpu_cluster_gym.traces import COLUMNS

# Phases of a job. A paused job is QUEUED again. A RESERVED job has been given GPUs of which some are still held by
# jobs that pause for it: it starts when the last is free. A RESTARTING job has failed: it is queued again after a
# delay.
FUTURE, QUEUED, RESERVED, LOADING, RUNNING, PAUSING, DONE, RESTARTING = range(8)
PHASES = ("future", "queued", "reserved", "loading", "running", "pausing", "done", "restarting")

# What orders the jobs of a rule: smallest first, equal ones by (submit, job).
SUBMIT, ESTIMATE, REMAINING, REMAINING_AREA, LEVEL, TRUE_REMAINING, WEIGHTED = range(7)
KEYS = ("submit", "estimate", "remaining", "remaining_area", "level", "true_remaining", "weighted")

FIRST_FIT, BEST_FIT, SPREAD, POOLED = range(4)
PLACEMENTS = ("first_fit", "best_fit", "spread", "pooled")

GREEDY, STRICT, EASY = range(3)
DISCIPLINES = ("greedy", "strict", "easy")

# How a rule treats running jobs: leaves them, displaces them by its order, or displaces them if that pays.
NEVER, BY_ORDER, IF_IT_PAYS = range(3)

MOST_FAILURES = 1000  # of a job by itself or with its nodes; one that fails more often never ends

# Which job fails when the memory of a GPU runs over, in the order of `Parameters.oom_victim`.
NEWCOMER, ANYONE, GROWER = range(3)

# How jobs on a GPU slow one another, in the order of `Parameters.contention_form`.
TURNS, EXCESS = range(2)

# A generator of whole numbers that is the same everywhere (Park and Miller, CACM 31(10), 1988).
MULTIPLIER, MODULUS = 48_271, 2**31 - 1

CHARGED, GROWING = 1, 2  # memory is taken; is about to be

NOBODY, CLOSED = -1, -2  # no job holds a GPU, or has it reserved; its node is closed
UNCHANGED, LOADS, SPEEDS = range(3)  # what has changed on a node: its memory's and links' load; how jobs run
OPEN, DRAINING, DOWN = range(3)  # nodes: jobs may start; none may, those there run on; nothing runs

GPU_TYPES = ("v100", "k80", "p100", "t4", "rtx2080ti", "rtx3090", "a100")  # the first is the reference
SERVER_CORES = WORKER_CORES = 5.0  # of a parameter server, and of a worker without GPU (Aiturbo-vGPU's pods)
LEAST_CORES = 1.0  # for each GPU, or as a whole for a CPU job, where cores are allocated
ROUNDING = 1e-9  # of sums of cores and of GiB
MOST_SERVERS = 10  # of a job (as there)

DERIVED = [
    ("user", "i8"),  # number of its user; all the same where that is not known
    ("request_class", "i8"),  # jobs of one class ask for the same GPUs, memory and cores: one queue each
    (
        "cores_each",
        "f8",
    ),  # CPU cores for each GPU asked for, servers included; of the whole job where it has none
    ("gbs_each", "f8"),  # GB/s of host memory for each GPU asked for; of the whole job where it has none
    ("type_speed", "f8", (len(GPU_TYPES),)),  # of its computing on each type of GPU
    ("duty", "f8"),  # active / (active + idle), the share that it takes of a GPU that it has alone
    ("gpu_s", "f8"),  # s of an iteration on the GPU, alone
    ("push", "f8"),  # how much it slows others on a GPU: its duty, more for one that needs much memory
    ("profiled_push", "f8"),  # the same by what is profiled of it
    ("grip", "f8"),  # how long it holds a GPU that others share: gpu_s ** (1 / 4)
    ("iteration_s", "f8"),  # s of an iteration alone, with the cores asked, as close together as can be
    ("ideal_iteration_s", "f8"),  # s of the same iteration with plenty of cores
    (
        "fitted",
        "f8",
        (7,),
    ),  # coefficients of its profiled speed (`simulator.speed_model`); 0 until asked for
]
"""What the simulator keeps of a job beside the columns of the job table."""

TIMES = ("submit_s", "duration_s", "profiled_duration_s", "predicted_duration_s", "pause_s", "load_s")
MILESTONES = ("iteration_s", "predictable_from", "crash_at")
READ_AT_EACH_EVENT = (
    "num_gpus",
    "request_class",
    "gpu_memory_gib",
    "cores_each",
    "servers",
    *TIMES,
    *MILESTONES,
)
"""They come first in a job's record: two lines of the processor's cache hold them, where all take seven."""

ANY_ORDER = [
    *((column.name, "i8" if column.dtype is int else "f8") for column in COLUMNS if column.simulated),
    *DERIVED,
]
JOB_FIELDS = sorted(ANY_ORDER, key=lambda field: field[0] not in READ_AT_EACH_EVENT)
JOB = np.dtype((np.record, np.dtype(JOB_FIELDS, align=True)))


class Tier(NamedTuple):
    """Array sizes, which are part of a record's type: each tier is compiled once."""

    jobs: int
    nodes: int
    gpus: int


JOB_TIERS = (512, 4_096, 131_072, 1_048_576)
MACHINE_TIERS = ((64, 512), (1_024, 8_192))


def tier(jobs: int, nodes: int, gpus: int) -> Tier:
    """Return the smallest tier that holds so many; ValueError beyond the largest."""
    room = next((size for size in JOB_TIERS if size >= jobs), None)
    machines = next((pair for pair in MACHINE_TIERS if pair[0] >= nodes and pair[1] >= gpus), None)
    if room is None or machines is None:
        raise ValueError(
            f"{jobs} jobs on {nodes} nodes with {gpus} GPUs: at most {JOB_TIERS[-1]} jobs, "
            f"{MACHINE_TIERS[-1][0]} nodes and {MACHINE_TIERS[-1][1]} GPUs"
        )
    return Tier(room, *machines)


@cache
def state_dtype(size: Tier) -> np.dtype:
    """Return the record type of an episode's state at one tier."""
    sizes: dict[str | int, int] = {"jobs": size.jobs, "nodes": size.nodes, "gpus": size.gpus}
    sizes |= {"gpus + 1": size.gpus + 1, "slots": MAX_SHARE * size.gpus}
    shaped = [
        (name, kind, tuple(sizes.get(side, side) for side in shape[0]) if shape else ())
        for name, kind, *shape in STATE
    ]
    return np.dtype((np.record, np.dtype(shaped, align=True)))
