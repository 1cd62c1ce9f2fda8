"""The fields of an episode's record, in groups: name, type, and shape in the sizes of a tier.

They lie one behind the other in this order; no name is in two groups, so that code reads `s.phase[job]`.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.parameters import FIELDS
from gpu_cluster_gym.simulator.kernel.cluster.parameters import MAX_SHARE as MAX_SHARE
from gpu_cluster_gym.traces import COLUMNS

MOST_BLOCKED = 64  # request classes of which the first job may be remembered as blocked
MAX_LEVELS = 8  # distinct GPU memory sizes of a cluster, and limits of a ranking by level

Field = tuple[str, str] | tuple[str, str, tuple[str | int, ...]]
Group = tuple[Field, ...]

CLOCK: Group = (
    ("clock", "f8"),  # s
    ("instant", "i8"),  # how many instants have been handled
    ("ticks", "i8"),  # of these, how many were but a tick on the way to an event
    ("wake", "f8"),  # s; the end of a timed wait, else infinite
    ("tick", "f8"),  # s between ticks; 0 for none
    ("present_seconds", "f8"),  # integral of the number of jobs present
    ("num_jobs", "i8"),
    ("num_nodes", "i8"),
    ("num_gpus", "i8"),
    ("num_classes", "i8"),
    ("num_arrived", "i8"),
    ("num_queued", "i8"),
    ("num_active", "i8"),  # jobs that hold GPUs, each with its next event
    ("num_done", "i8"),
    ("num_free", "i8"),  # GPUs neither held nor reserved
    ("num_shared", "i8"),  # GPUs that several jobs hold
    ("num_spanning", "i8"),  # active jobs that hold GPUs of several nodes
    ("num_on_cores", "i8"),  # active jobs that hold no GPU
    ("num_joins", "i8"),  # how often a job has joined the queue
    ("num_pauses", "i8"),  # preemptions so far
)
"""Where the episode is, and how many jobs are where."""

PHYSICS: Group = (
    ("exact", "i8"),  # 1 where estimates equal the truth
    ("pooled", "i8"),  # 1 where GPUs are one pool, of no nodes
    *FIELDS,  # the parameters, as they are declared
    ("cpu_limited", "i8"),  # 1 where no job gets cores that are not there
    ("varying", "i8"),  # 1 where the speed of a running job may change
    ("bandwidth_binds", "i8"),  # 1 where host memory can be short of bandwidth
    ("shares_links", "i8"),  # 1 where jobs share the links between nodes
    ("intra_gbs", "f8"),  # GB/s between GPUs of a node
    ("inter_gbs", "f8"),  # GB/s between nodes
    ("intra_s", "f8"),  # s of an iteration for each further GPU of a node
    ("inter_s", "f8"),  # s of an iteration for each further node
    ("node_gbs", "f8"),  # GB/s of a node's memory
    ("typed", "i8"),  # 1 where GPUs differ in speed
    ("failing", "i8"),  # 1 where nodes close
)
"""What holds for the whole episode."""

CHANCE: Group = (
    ("endless", "i8"),  # 1 once a job has failed MOST_FAILURES times
    ("next_closing", "f8"),  # s; when the first node changes
    ("next_opening", "f8"),  # s; when the first that is closed goes down, or is up again
    ("busy_until", "f8"),  # s; the last submission, up to which busy GPUs count as used well
    ("seed", "i8"),
    ("dice", "i8"),  # the last number drawn
    ("num_begun", "i8"),  # starts so far
)
"""Outages, how long they are drawn and counted, and the random numbers drawn."""

RANKING: Group = (
    ("key", "i8"),
    ("exponent", "f8"),
    ("margin", "f8"),
    ("preempt", "i8"),
    ("discipline", "i8"),
    ("placement", "i8"),
    ("num_limits", "i8"),
    ("limits", "f8", (MAX_LEVELS,)),  # attained GPU-seconds at which a job's level rises
)
"""The active ranking: what orders the queue, and what a scheduling pass does."""

JOBS: Group = (
    ("phase", "i1", ("jobs",)),
    ("level", "i1", ("jobs",)),
    ("last_action_instant", "i8", ("jobs",)),  # the instant of its last start or pause
    ("phase_began", "f8", ("jobs",)),  # s; begin of its present phase
    ("attained_s", "f8", ("jobs",)),  # s of progress banked
    ("banked", "f8", ("jobs",)),  # s; when that was
    ("rate", "f8", ("jobs",)),  # s of progress a second
    ("efficiency", "f8", ("jobs",)),  # speed over that with plenty of cores, alone and close together
    ("delay_s", "f8", ("jobs",)),  # s of running, banked, beyond the progress made
    ("lost_s", "f8", ("jobs",)),  # s of running whose progress was lost
    ("checkpointed_s", "f8", ("jobs",)),  # s of progress that a failure leaves in any case
    ("checkpointed_wall_s", "f8", ("jobs",)),  # s of running, attained + delay, at that point
    ("run_gpu_s", "f8", ("jobs",)),  # GPU-seconds of running, banked, whose progress was not lost
    ("overhead_gpu_s", "f8", ("jobs",)),  # GPU-seconds pausing and loading
    ("lost_gpu_s", "f8", ("jobs",)),  # GPU-seconds of running whose progress was lost
    ("workers", "i4", ("jobs",)),  # that an active job has; else that it asks for, like the next two
    ("servers", "i4", ("jobs",)),
    ("width", "i4", ("jobs",)),  # GPUs; 0 on CPU workers; more than workers where servers have GPUs too
    ("next_workers", "i4", ("jobs",)),  # of a job that is reserved, or moves: what it will have
    ("next_servers", "i4", ("jobs",)),
    ("next_width", "i4", ("jobs",)),
    ("next_node", "i4", ("jobs",)),
    ("next_cores", "f8", ("jobs",)),
    ("moves", "i1", ("jobs",)),  # 1 where it pauses to go on elsewhere
    ("resizes", "i4", ("jobs",)),  # how often it has done so
    ("predictable", "i1", ("jobs",)),  # whether its estimate has become good
    ("crashed", "i1", ("jobs",)),
    ("failures", "i4", ("jobs",)),  # how often it failed by itself or with a node
    ("busy_s", "f8", ("jobs",)),  # s its GPUs were in use, banked
    ("busy_gpu_s", "f8", ("jobs",)),  # the same up to the last submission
    ("shared_s", "f8", ("jobs",)),  # s of its GPUs beside another job, banked
    ("shared_gpu_s", "f8", ("jobs",)),  # GPU-seconds beside another job, banked
    # of its GPUs while they waited for nothing but cores, in column 1 where they did so; see `core_readings`
    ("undisturbed", "i1", ("jobs",)),  # 1 where only cores can be what they wait for
    ("read_s", "f8", ("jobs", 2)),  # s, banked
    ("read_busy_s", "f8", ("jobs", 2)),  # s of those they were in use
    ("read_core_s", "f8", ("jobs", 2)),  # core-seconds of those, for each GPU
    ("read_at", "f8", ("jobs",)),  # s; when these three were
    ("shared_fraction", "f8", ("jobs",)),  # share of its GPUs that others hold too
    ("core_s", "f8", ("jobs",)),  # banked
    ("began", "i8", ("jobs",)),  # the number of its last start
    ("counted", "f8", ("jobs",)),  # s; when its core-seconds were banked
    ("core_count", "f8", ("jobs",)),  # cores a GPU that it holds; of the whole job where it has no GPU
    ("throttle", "f8", ("jobs",)),  # level of a CPU job: 1 is none
    ("node_of", "i4", ("jobs",)),  # node of an active job that has no GPU
    ("span", "i4", ("jobs",)),  # nodes of an active job
    ("saved", "i1", ("jobs",)),  # 1 where progress was saved by a pause, which must be loaded
    ("charged", "i1", ("jobs",)),  # whether its peak memory is taken
    ("oom_restarts", "i4", ("jobs",)),  # how often it ran out of memory
    ("loading_s", "f8", ("jobs",)),  # s that its last start holds, or held, GPUs before it runs
    ("start_s", "f8", ("jobs",)),  # s; first start, nan before
    ("finish_s", "f8", ("jobs",)),  # s; nan before
    ("wait_s", "f8", ("jobs",)),  # s over all stays in the queue
    ("overhead_s", "f8", ("jobs",)),  # s pausing and loading
    ("preemptions", "i4", ("jobs",)),
    ("first_slot", "i4", ("jobs",)),  # chain of the slots it holds
    ("awaited", "i4", ("jobs",)),  # reserved GPUs that are still held
    ("order", "f8", ("jobs",)),  # its key under the active ranking
    ("place_in_queue", "i4", ("jobs",)),
    ("event_at", "f8", ("jobs",)),  # s; its next event
    ("place_in_events", "i4", ("jobs",)),
)
"""What changes of each job."""

QUEUES: Group = (
    ("queue", "i4", ("jobs",)),
    ("joined", "i4", ("jobs",)),  # the jobs that have joined it, the last over the first
    ("queue_start", "i4", ("jobs",)),
    ("queue_size", "i4", ("jobs",)),
    ("exhausted", "i1", ("jobs",)),  # request classes that found no place in the present pass, and why
    ("events", "i4", ("jobs",)),  # heap of the active jobs by their next event
    ("done_in_order", "i4", ("jobs",)),  # the jobs that have ended, the first first
)
"""A heap for each request class, one behind the other; that of the next events; who has ended."""

GPUS: Group = (
    ("first_owner", "i4", ("gpus",)),  # the job that has held it longest
    ("num_jobs_on", "i4", ("gpus",)),
    ("job_in", "i4", ("slots",)),
    ("next_slot", "i4", ("slots",)),  # of the same job
    ("reserved_for", "i4", ("gpus",)),  # the job it is reserved for; CLOSED where its node is
    ("gpu_node", "i4", ("gpus",)),
    ("free_memory", "f8", ("gpus",)),  # GiB
)
"""Who holds each GPU."""

NODES: Group = (
    ("node_gpus", "i4", ("nodes",)),
    ("node_first", "i4", ("nodes",)),  # its lowest GPU
    ("node_memory", "f8", ("nodes",)),  # GiB a GPU
    ("node_cores", "f8", ("nodes",)),
    ("node_level", "i4", ("nodes",)),  # rank of its memory size
    ("node_type", "i4", ("nodes",)),  # of its GPUs, a number of GPU_TYPES
    ("closed", "i1", ("nodes",)),  # OPEN, DRAINING or DOWN
    ("until", "f8", ("nodes",)),  # s; end of a drain's notice, or of being down
    ("fail_at", "f8", ("nodes",)),  # s; next failure
    ("drain_at", "f8", ("nodes",)),  # s; next drain
    ("node_dice", "i8", ("nodes",)),
    ("free", "i4", ("nodes",)),  # GPUs neither held nor reserved
    ("free_cores", "f8", ("nodes",)),
    ("unreserved_cores", "f8", ("nodes",)),  # those not kept for GPUs without a job, one each
    ("demanded_gbs", "f8", ("nodes",)),  # GB/s that running jobs draw
    ("links_busy", "f8", ("nodes",)),  # sum of the shares of time that running jobs need its links
    ("changed", "i1", ("nodes",)),  # UNCHANGED, LOADS or SPEEDS
    ("changes", "i4", ("nodes",)),  # list of those
    ("num_changes", "i8"),
    ("stamp", "i8"),  # counts the changes of nodes that may make room
    ("node_stamp", "i8", ("nodes",)),  # the last of a node
)
"""What is free on each node, and which have changed."""

BLOCKED: Group = (
    ("blocked_job", "i4", (MOST_BLOCKED,)),
    ("blocked_key", "f8", (MOST_BLOCKED,)),  # its order
    ("blocked_stamp", "i8", (MOST_BLOCKED,)),  # of the last change that has been looked at
    ("blocked_until", "f8", (MOST_BLOCKED,)),  # s
)
"""Of each of the first request classes, the head known to be blocked: see `simulator.kernel.rankings.blocked`."""

BOUNDS: Group = (
    ("used_up_at", "f8", ("nodes",)),  # s; when their estimates are used up, at the latest
    ("runs_since", "f8", ("nodes",)),  # s; now less what one of them has attained, at the earliest
    ("least_overhead", "f8", ("nodes",)),  # s that pausing one of them and loading it again costs at least
    ("widest", "i4", ("nodes",)),  # GPUs of the widest of them
)
"""Bounds on what the jobs that run on a node have left: see `simulator.kernel.cluster.bounds`."""

LEVELS: Group = (
    ("num_levels", "i8"),
    ("level_memory", "f8", (MAX_LEVELS,)),  # GiB, ascending
    ("level_largest", "i4", (MAX_LEVELS,)),  # GPUs of the largest node with at least that memory
    ("bucket", "i4", (MAX_LEVELS, "gpus + 1")),  # nodes of a memory size with so many free GPUs
)
"""Nodes by the memory of their GPUs and by how many are free."""

SCRATCH: Group = (
    ("room", "i4", (3, "nodes")),  # GPUs a node could give: free; free or pausing; all not granted
    ("core_room", "f8", (3, "nodes")),  # unreserved cores to go with them
    ("open", "i1", ("gpus",)),  # the least stage at which a held GPU may be granted, 0 for none; GRANTED
    ("refused", "i4", (3, MAX_LEVELS)),  # GPUs that no node with at least that memory has at a stage
    ("taken", "i1", ("nodes",)),
    ("chosen_node", "i4", ("nodes",)),
    ("chosen_gpus", "i4", ("nodes",)),
    ("num_chosen", "i8"),
    ("gpus", "i4", ("gpus",)),  # the GPUs of a placement, or of all placements of a pass
    ("inherited", "i4", ("gpus",)),
    ("candidates", "i4", ("jobs",)),  # running jobs that a pass may displace
    ("granted", "i4", ("jobs",)),
    ("granted_from", "i4", ("jobs",)),
    ("victims", "i4", ("gpus",)),
    ("marked", "i1", ("jobs",)),
    ("noted", "i4", ("jobs",)),
    ("ready", "i4", ("gpus",)),  # jobs whose reserved GPUs are all there
    ("num_ready", "i8"),
    ("left", "f8", ("jobs",)),  # s remaining of an active job that may be displaced, else -1
)
"""What a scheduling pass works with."""

STATE: Group = (
    *CLOCK,
    *PHYSICS,
    *CHANCE,
    *RANKING,
    *JOBS,
    *QUEUES,
    *GPUS,
    *NODES,
    *BLOCKED,
    *BOUNDS,
    *LEVELS,
    *SCRATCH,
)
"""All of them."""


# FROM simulator/kernel/cluster/layout.py
# What the kernel works on: a job's fixed figures, and one record that holds all that changes in an episode.


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


def dtype_of(fields: Group, size: Tier) -> np.dtype:
    """Return the record type of some fields at one tier."""
    sizes: dict[str | int, int] = {"jobs": size.jobs, "nodes": size.nodes, "gpus": size.gpus}
    sizes |= {"gpus + 1": size.gpus + 1, "slots": MAX_SHARE * size.gpus}
    shaped = [
        (name, kind, tuple(sizes.get(side, side) for side in shape[0]) if shape else ())
        for name, kind, *shape in fields
    ]
    return np.dtype((np.record, np.dtype(shaped, align=True)))


@cache
def state_dtype(size: Tier) -> np.dtype:
    """Return the record type of an episode's state at one tier."""
    return dtype_of(STATE, size)
