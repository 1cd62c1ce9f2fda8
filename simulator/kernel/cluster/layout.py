"""Data layout of the kernel: the fields of a job and of an episode's state record, and the codes stored in them.

Fields are declared in groups as (name, type, shape), the shape in the sizes of a `Tier`. They are stored in
this order, and names are unique across groups, so that code reads `s.phase[job]`.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.parameters import FIELDS
from gpu_cluster_gym.simulator.kernel.cluster.parameters import MAX_SHARE as MAX_SHARE
from gpu_cluster_gym.traces import COLUMNS

MAX_BLOCKED_CLASSES = 64  # request classes whose first job may be cached as blocked
MAX_LEVELS = 8  # level limits of a ranking
MAX_GROUPS = 16  # groups of nodes, see `NODE_GROUPS`
MAX_TENANTS = 256

Field = tuple[str, str] | tuple[str, str, tuple[str | int, ...]]
Group = tuple[Field, ...]

CLOCK: Group = (
    ("clock", "f8"),  # s
    ("instant", "i8"),  # number of instants handled
    ("ticks", "i8"),  # number of those that were only a tick before the next event
    ("wake", "f8"),  # s; end of a timed wait, else infinite
    ("tick", "f8"),  # s between ticks; 0 for none
    ("present_seconds", "f8"),  # integral of the number of jobs present
    ("num_jobs", "i8"),
    ("num_nodes", "i8"),
    ("num_gpus", "i8"),
    ("num_classes", "i8"),
    ("num_arrived", "i8"),
    ("num_queued", "i8"),
    ("num_held", "i8"),  # arrived jobs that wait for others to end
    ("num_active", "i8"),  # jobs with a scheduled event: loading, running, pausing or restarting
    ("num_done", "i8"),
    ("num_free", "i8"),  # GPUs neither held nor reserved
    ("num_shared", "i8"),  # GPUs held by several jobs
    ("num_spanning", "i8"),  # active jobs with GPUs on several nodes
    ("num_on_cores", "i8"),  # active jobs without GPUs
    ("num_joins", "i8"),  # times that a job has joined the queue
    ("num_pauses", "i8"),  # preemptions so far
    # the last look at whether jobs make progress; see `events.is_stalled`
    ("next_look", "i8"),  # counted instants at the next look
    ("seen_milestones", "i8"),  # arrivals and completions at the last look
    ("seen_work_s", "f8"),  # work then, s; -1 before it is measured
)
"""Clock and counters of the episode."""

PHYSICS: Group = (
    ("exact", "i8"),  # 1 if estimates equal the truth
    ("pooled", "i8"),  # 1 if node boundaries are ignored: GPUs form one pool
    *FIELDS,  # the parameters, as declared
    ("cpu_limited", "i8"),  # 1 if CPU cores are allocated
    ("varying", "i8"),  # 1 if the speed of a running job may change
    ("bandwidth_binds", "i8"),  # 1 if host-memory bandwidth is limited
    ("shares_links", "i8"),  # 1 if jobs share the links between nodes
    ("intra_gbs", "f8"),  # GB/s between GPUs of a node
    ("inter_gbs", "f8"),  # GB/s between nodes
    ("intra_s", "f8"),  # s per iteration for each additional GPU of a node
    ("inter_s", "f8"),  # s per iteration for each additional node
    ("node_gbs", "f8"),  # GB/s of a node's host memory
    ("typed", "i8"),  # 1 if GPUs differ in speed
    ("failing", "i8"),  # 1 if nodes fail or drain
)
"""Physics of the episode, constant throughout."""

CHANCE: Group = (
    (
        "endless",
        "i8",
    ),  # why no time passes any more: 0, FAILING, PAUSED_TIME, STALLED, INTERRUPTED or OVER_QUOTA
    ("next_closing", "f8"),  # s; next change of any node
    ("next_opening", "f8"),  # s; next change of a closed node: going down or coming up
    ("busy_until", "f8"),  # s; last submission, up to which busy GPU time is counted
    ("seed", "i8"),
    ("rng_state", "i8"),  # state of the random generator: the last number drawn
    ("num_starts", "i8"),  # starts so far
)
"""Outages and random numbers."""

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
"""Active ranking: queue order and behaviour of a scheduling pass."""

JOBS: Group = (
    ("phase", "i1", ("jobs",)),
    ("level", "i1", ("jobs",)),
    ("last_action_instant", "i8", ("jobs",)),  # the instant of its last start or pause
    ("phase_began", "f8", ("jobs",)),  # s; start of the current phase
    # "Banked" quantities are accumulated up to the time `banked`; from then on they grow at the current rates.
    ("attained_s", "f8", ("jobs",)),  # s of progress, banked
    ("banked", "f8", ("jobs",)),  # s; time up to which quantities are accumulated
    ("rate", "f8", ("jobs",)),  # s of progress per second
    (
        "efficiency",
        "f8",
        ("jobs",),
    ),  # speed over the speed with plenty of cores, exclusive GPUs and fewest nodes
    ("delay_s", "f8", ("jobs",)),  # s of running minus progress made, banked
    ("lost_s", "f8", ("jobs",)),  # s of running whose progress was lost
    (
        "checkpointed_s",
        "f8",
        ("jobs",),
    ),  # s of progress at the last start or pause, which a failure preserves
    ("checkpointed_wall_s", "f8", ("jobs",)),  # s of running, attained + delay, at that point
    ("run_gpu_s", "f8", ("jobs",)),  # GPU-seconds of running, banked, whose progress was not lost
    ("overhead_gpu_s", "f8", ("jobs",)),  # GPU-seconds pausing and loading
    ("lost_gpu_s", "f8", ("jobs",)),  # GPU-seconds of running whose progress was lost
    ("workers", "i4", ("jobs",)),  # of an active job; else as requested, like the next two
    ("servers", "i4", ("jobs",)),  # parameter servers
    ("width", "i4", ("jobs",)),  # GPUs; 0 on CPU workers; more than workers if servers have GPUs too
    ("next_workers", "i4", ("jobs",)),  # shape that a reserved or moving job will have
    ("next_servers", "i4", ("jobs",)),
    ("next_width", "i4", ("jobs",)),
    ("next_node", "i4", ("jobs",)),
    ("next_cores", "f8", ("jobs",)),
    ("moves", "i1", ("jobs",)),  # 1 while pausing in order to resume elsewhere
    ("resizes", "i4", ("jobs",)),  # number of such moves
    ("predictable", "i1", ("jobs",)),  # 1 once the estimate has become good
    ("crashed", "i1", ("jobs",)),
    ("failures", "i4", ("jobs",)),  # failures by itself or with a node
    ("busy_s", "f8", ("jobs",)),  # s that its GPUs were busy, banked
    ("busy_gpu_s", "f8", ("jobs",)),  # GPU-seconds busy up to the last submission, banked
    ("shared_s", "f8", ("jobs",)),  # s of sharing, averaged over its GPUs, banked
    ("shared_gpu_s", "f8", ("jobs",)),  # GPU-seconds of sharing, banked
    # Monitor readings of GPUs that can wait for nothing but cores; column 1: while they did; see `readings.py`.
    ("undisturbed", "i1", ("jobs",)),  # 1 if the GPUs can wait for nothing but cores
    ("read_s", "f8", ("jobs", 2)),  # s of reading, banked
    ("read_busy_s", "f8", ("jobs", 2)),  # s of those with busy GPUs
    ("read_core_s", "f8", ("jobs", 2)),  # core-seconds per GPU during those
    ("read_at", "f8", ("jobs",)),  # s; time up to which these three are accumulated
    ("shared_fraction", "f8", ("jobs",)),  # share of its GPUs that other jobs also hold
    ("core_s", "f8", ("jobs",)),  # core-seconds held, banked
    ("began", "i8", ("jobs",)),  # serial number of its last start
    ("counted", "f8", ("jobs",)),  # s; time up to which core-seconds are accumulated
    ("core_count", "f8", ("jobs",)),  # cores held per GPU; of the whole job if it has no GPU
    ("throttle", "f8", ("jobs",)),  # speed level of a CPU job; 1 is unthrottled
    ("node_of", "i4", ("jobs",)),  # node of an active job without GPUs
    ("span", "i4", ("jobs",)),  # nodes of an active job
    ("saved", "i1", ("jobs",)),  # 1 if a checkpoint must be loaded at the next start
    ("charged", "i1", ("jobs",)),  # 0, CHARGED or GROWING: state of its peak memory
    ("oom_restarts", "i4", ("jobs",)),  # out-of-memory failures
    ("loading_s", "f8", ("jobs",)),  # s of loading of its last start
    ("start_s", "f8", ("jobs",)),  # s; first start, nan before
    ("finish_s", "f8", ("jobs",)),  # s; nan before
    ("wait_s", "f8", ("jobs",)),  # s over all stays in the queue
    ("overhead_s", "f8", ("jobs",)),  # s pausing and loading
    ("preemptions", "i4", ("jobs",)),
    ("first_slot", "i4", ("jobs",)),  # head of the linked list of its slots
    ("awaited", "i4", ("jobs",)),  # reserved GPUs that other jobs still hold
    ("order", "f8", ("jobs",)),  # key under the active ranking
    ("place_in_queue", "i4", ("jobs",)),  # offset in its queue heap
    ("event_at", "f8", ("jobs",)),  # s; its next event
    ("place_in_events", "i4", ("jobs",)),  # offset in the event heap
)
"""State of each job."""

QUEUES: Group = (
    ("queue", "i4", ("jobs",)),
    ("joined", "i4", ("jobs",)),  # ring buffer of the jobs that have joined the queue
    ("queue_start", "i4", ("jobs",)),
    ("queue_size", "i4", ("jobs",)),
    ("exhausted", "i1", ("jobs",)),  # why a request class is skipped in the current pass; 0 if it is not
    ("events", "i4", ("jobs",)),  # heap of the active jobs by next event
    ("done_in_order", "i4", ("jobs",)),  # finished jobs, in order of completion
)
"""Queue heaps, one per request class in consecutive stretches of `queue`; event heap; finished jobs."""

GPUS: Group = (
    ("first_owner", "i4", ("gpus",)),  # job that has held it longest
    ("num_jobs_on", "i4", ("gpus",)),
    ("job_in", "i4", ("slots",)),
    ("next_slot", "i4", ("slots",)),  # next slot of the same job
    ("reserved_for", "i4", ("gpus",)),  # job that it is reserved for; CLOSED if its node is closed
    ("gpu_node", "i4", ("gpus",)),
    ("free_memory", "f8", ("gpus",)),  # GiB
)
"""Holders and reservation of each GPU. Slot k of GPU g has index `MAX_SHARE * g + k`."""

NODES: Group = (
    ("node_gpus", "i4", ("nodes",)),
    ("node_first", "i4", ("nodes",)),  # its lowest GPU
    ("node_memory", "f8", ("nodes",)),  # GiB per GPU
    ("node_cores", "f8", ("nodes",)),
    ("node_group", "i4", ("nodes",)),  # its group, see `NODE_GROUPS`
    ("node_type", "i4", ("nodes",)),  # index in GPU_TYPES of its GPUs
    ("closed", "i1", ("nodes",)),  # OPEN, DRAINING or DOWN
    ("until", "f8", ("nodes",)),  # s; end of a drain's notice, or of downtime
    ("fail_at", "f8", ("nodes",)),  # s; next failure
    ("drain_at", "f8", ("nodes",)),  # s; next drain
    ("node_rng_state", "i8", ("nodes",)),  # state of the node's random generator
    ("free", "i4", ("nodes",)),  # GPUs neither held nor reserved
    ("free_cores", "f8", ("nodes",)),
    ("unreserved_cores", "f8", ("nodes",)),  # free cores minus one for each GPU without a job
    ("demanded_gbs", "f8", ("nodes",)),  # GB/s of host memory that running jobs demand
    ("links_busy", "f8", ("nodes",)),  # sum of the shares of time that running jobs need its links
    ("changed", "i1", ("nodes",)),  # UNCHANGED, LOADS or SPEEDS
    ("changes", "i4", ("nodes",)),  # list of the changed nodes
    ("num_changes", "i8"),
    ("stamp", "i8"),  # counter of changes that may let a queued job start
    ("node_stamp", "i8", ("nodes",)),  # its value at the node's last such change
)
"""Resources of each node, and pending recomputations."""

BLOCKED: Group = (
    ("blocked_job", "i4", (MAX_BLOCKED_CLASSES,)),
    ("blocked_key", "f8", (MAX_BLOCKED_CLASSES,)),  # its order
    ("blocked_stamp", "i8", (MAX_BLOCKED_CLASSES,)),  # `stamp` up to which changes have been examined
    ("blocked_until", "f8", (MAX_BLOCKED_CLASSES,)),  # s; end of validity
)
"""Blocked head of each of the first request classes: see `is_blocked` in `rankings/rankings.py`."""

BOUNDS: Group = (
    ("estimates_end_at", "f8", ("nodes",)),  # s; latest time at which a running job's estimate is used up
    ("earliest_start", "f8", ("nodes",)),  # s; earliest value of clock minus attained time
    ("min_overhead_s", "f8", ("nodes",)),  # s; minimum pause + load time
    ("widest", "i4", ("nodes",)),  # GPUs of the widest running job
)
"""Bounds over the jobs that run on a node: see `node_bounds.py`."""

NODE_GROUPS: Group = (
    ("num_groups", "i8"),
    ("binds", "i8"),  # 1 if constraints keep jobs from some nodes
    ("group_memory", "f8", (MAX_GROUPS,)),  # GiB, ascending
    ("group_largest", "i4", (MAX_GROUPS,)),  # GPUs of its largest node
    ("bucket", "i4", (MAX_GROUPS, "gpus + 1")),  # nodes by group and number of free GPUs
)
"""Groups of nodes alike to every job, by GPU memory and then by what constraints distinguish; a histogram of nodes."""

DEPENDENCIES: Group = (
    ("num_dependencies", "i8"),
    ("unmet", "i4", ("jobs",)),  # jobs that a job waits for and that have not ended
    (
        "dependents",
        "i4",
        ("jobs",),
    ),  # the jobs that wait for job 0, then those that wait for job 1, and so on
    ("dependents_end", "i4", ("jobs",)),  # end of each job's stretch of `dependents`
)
"""Jobs that wait for others to end."""

TENANTS: Group = (
    ("num_tenants", "i8"),  # 0: no quotas
    ("borrowing", "i8"),  # NO_BORROWING, IDLE or RECLAIM
    ("tenant", "i4", ("jobs",)),  # tenant of each job
    ("class_tenant", "i4", ("jobs",)),  # tenant of each request class
    ("evicted", "i1", ("jobs",)),  # EVICTED or RETURNED once reclaim has paused it; see `reclaim.py`
    ("num_evicted", "i8"),  # jobs that are EVICTED
    ("idle", "i8"),  # 1 if the last instant left jobs queued and none active: claims are void then
    ("quota", "i4", (MAX_TENANTS,)),  # guaranteed GPUs
    ("tenant_gpus", "i4", (MAX_TENANTS,)),  # GPUs that its jobs hold, or that are free and reserved for them
    ("held_before", "i4", (MAX_TENANTS,)),  # those before its first pause by the policy at `held_instant`
    ("held_instant", "i8", (MAX_TENANTS,)),
    # scratch of a pass
    ("tenant_head", "i4", (MAX_TENANTS,)),  # its first job that does not start; NOBODY for none
    ("tenant_spared", "i8", (MAX_TENANTS,)),  # bit g: no blocked job of it may use group g
    ("tenant_left", "i4", (MAX_TENANTS,)),  # guaranteed GPUs that it does not hold
    ("tenant_kept", "i4", (MAX_TENANTS,)),  # GPUs that its jobs hold, except pausing ones
    ("tenant_limit", "i4", (MAX_TENANTS,)),  # the most that a pass may grant to its jobs
    ("pass_tenant", "i8"),  # tenant of a pass or of a search for victims; NOBODY: any
    ("pass_gpus", "i8"),  # GPUs granted to its jobs so far; in EASY, held at the shadow time
    ("pass_limit", "i8"),  # the most that they may be granted
    ("free_limit", "i8"),  # the most free GPUs that a search for victims may add to theirs
)
"""Tenants, their quotas and what they hold: see `tenants.py`."""

SCRATCH: Group = (
    ("room", "i4", (3, "nodes")),  # available GPUs by stage: free; free or pausing; all not granted
    ("core_room", "f8", (3, "nodes")),  # unreserved cores by stage
    ("open", "i1", ("gpus",)),  # first stage at which a held GPU may be granted; 0 for none; GRANTED
    ("refused", "i4", (3, MAX_GROUPS)),  # smallest refused request by stage and group of nodes, GPUs
    ("taken", "i1", ("nodes",)),
    ("chosen_node", "i4", ("nodes",)),
    ("chosen_gpus", "i4", ("nodes",)),
    ("num_chosen", "i8"),
    ("gpus", "i4", ("gpus",)),  # GPUs of a placement, or of all placements of a pass
    ("inherited", "i4", ("gpus",)),
    ("candidates", "i4", ("jobs",)),  # running jobs that a pass may displace
    ("granted", "i4", ("jobs",)),
    ("granted_from", "i4", ("jobs",)),
    ("victims", "i4", ("gpus",)),
    ("marked", "i1", ("jobs",)),
    ("noted", "i4", ("jobs",)),
    ("ready", "i4", ("gpus",)),  # jobs whose reserved GPUs have all been released
    ("num_ready", "i8"),
    ("left", "f8", ("jobs",)),  # s remaining of an active job that may be displaced, else -1
)
"""Scratch space of a scheduling pass."""

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
    *NODE_GROUPS,
    *DEPENDENCIES,
    *TENANTS,
    *SCRATCH,
)
"""All fields of an episode's state record."""


# Phases of a job. A paused job is QUEUED again. A RESERVED job has GPUs reserved of which pausing jobs still hold some;
# it starts when the last one is released. A RESTARTING job has failed and is queued again after `restart_delay`. A HELD
# job has arrived and is queued once the jobs that it waits for have ended.
FUTURE, QUEUED, RESERVED, LOADING, RUNNING, PAUSING, DONE, RESTARTING, HELD = range(9)
PHASES = ("future", "queued", "reserved", "loading", "running", "pausing", "done", "restarting", "held")

# Key by which a ranking orders jobs: ascending, ties by (submit, job).
SUBMIT, ESTIMATE, REMAINING, REMAINING_AREA, LEVEL, TRUE_REMAINING, WEIGHTED, PRIORITY = range(8)
KEYS = (
    *("submit", "estimate", "remaining", "remaining_area", "level", "true_remaining", "weighted"),
    "priority",
)

FIRST_FIT, BEST_FIT, SPREAD, POOLED = range(4)
PLACEMENTS = ("first_fit", "best_fit", "spread", "pooled")

GREEDY, STRICT, EASY = range(3)
DISCIPLINES = ("greedy", "strict", "easy")

# After a pause by reclaim: a job may not borrow; it may, and reclaim spares it for a while.
EVICTED, RETURNED = 1, 2

# What a tenant may do with GPUs beyond its quota: nothing; take idle ones; take them until others need them.
NO_BORROWING, IDLE, RECLAIM = range(3)
BORROWING = ("none", "idle", "reclaim")

# Preemption mode of a ranking: never; strictly by its order; only if the benefit exceeds the cost.
NEVER, BY_ORDER, IF_IT_PAYS = range(3)

MAX_FAILURES = (
    1000  # per job, by itself, with its nodes, or of memory; beyond this the episode is declared endless
)

# Why no time passes: a job has failed too often; for the moment (`envs.agent_policy`); no progress; a signal came; the
# policy has started a job that its tenant's quota does not allow.
FAILING, PAUSED_TIME, STALLED, INTERRUPTED, OVER_QUOTA = 1, 2, 3, 4, 5

# Progress is looked for after this many instants, and as many per job present, with at least this much work in each.
STALL_INSTANTS, STALL_INSTANTS_PER_JOB, STALL_WORK_S = 1000, 10, 1e-3

# Job that fails when the memory of a shared GPU overflows, in the order of `Parameters.oom_victim`.
NEWCOMER, ANYONE, GROWER = range(3)

# Interference model of co-located jobs, in the order of `Parameters.contention_form`.
TURNS, EXCESS = range(2)

# Linear congruential generator, identical on all platforms (Park and Miller, CACM 31(10), 1988).
MULTIPLIER, MODULUS = 48_271, 2**31 - 1

CHARGED, GROWING = 1, 2  # peak memory is allocated; is about to be

NOBODY, CLOSED = -1, -2  # no holder or reservation; node is closed
UNCHANGED, LOADS, SPEEDS = range(3)  # to recompute on a node: nothing; its loads; its loads and all speeds
OPEN, DRAINING, DOWN = range(3)  # nodes: jobs may start; running jobs continue but none starts; nothing runs

GPU_TYPES = ("v100", "k80", "p100", "t4", "rtx2080ti", "rtx3090", "a100")  # the first is the reference
SERVER_CORES = WORKER_CORES = 5.0  # cores of a parameter server or of a CPU worker (pods of Aiturbo-vGPU)
MIN_CORES = 1.0  # per GPU, or for a whole CPU job, if cores are allocated
ROUNDING = 1e-9  # tolerance for sums of cores and of GiB
MAX_SERVERS = 10  # per job (Aiturbo-vGPU)

DERIVED = [
    ("user", "i8"),  # index of its user; one index for all if unknown
    ("request_class", "i8"),  # jobs with equal GPUs, cores, tenant and able nodes; one queue heap per class
    ("barred", "i8"),  # bit g: constraints keep it from the nodes of group g
    ("cores_each", "f8"),  # CPU cores per GPU requested, servers included; of the whole job if it has no GPU
    ("gbs_each", "f8"),  # GB/s of host memory per GPU requested; of the whole job if it has no GPU
    ("type_speed", "f8", (len(GPU_TYPES),)),  # computing speed on each GPU type over that on a V100
    ("gpu_utilization", "f8"),  # GPU utilisation when running alone: active / (active + idle)
    ("gpu_s", "f8"),  # s of computing per iteration, alone on a V100
    ("interference", "f8"),  # slowdown it causes co-located jobs: utilisation x sqrt(memory / 4 GiB)
    ("profiled_interference", "f8"),  # the same from profiled values
    ("interference_hold", "f8"),  # relative time for which it holds a shared GPU per turn: gpu_s ** (1 / 4)
    ("iteration_s", "f8"),  # s per iteration at the reference: alone, as requested, on the fewest nodes
    ("ideal_iteration_s", "f8"),  # s of the same iteration with plenty of cores
    ("fitted", "f8", (7,)),  # coefficients of its profiled speed (`simulator.speed_model`); 0 until fitted
]
"""Fields of a job beside the columns of the job table."""

TIMES = ("submit_s", "duration_s", "profiled_duration_s", "predicted_duration_s", "pause_s", "load_s")
MILESTONES = ("iteration_s", "predictable_from", "crash_at")
READ_AT_EACH_EVENT = (
    "num_gpus",
    "request_class",
    "barred",
    "gpu_memory_gib",
    "cores_each",
    "servers",
    *TIMES,
    *MILESTONES,
)
"""Fields read at each event. They come first in a job's record: they fit two cache lines, all fields take seven."""

ANY_ORDER = [
    *((column.name, "i8" if column.dtype is int else "f8") for column in COLUMNS if column.simulated),
    *DERIVED,
]
JOB_FIELDS = sorted(ANY_ORDER, key=lambda field: field[0] not in READ_AT_EACH_EVENT)
JOB = np.dtype((np.record, np.dtype(JOB_FIELDS, align=True)))


class Tier(NamedTuple):
    """Array sizes. They are part of the record's type, so that each tier is compiled once."""

    jobs: int
    nodes: int
    gpus: int


JOB_TIERS = (512, 4_096, 8_192, 16_384, 131_072, 1_048_576)
MACHINE_TIERS = ((64, 512), (1_024, 8_192), (16_384, 65_536))


def tier(jobs: int, nodes: int, gpus: int) -> Tier:
    """Return the smallest tier that holds these numbers; raise ValueError beyond the largest."""
    room = next((size for size in JOB_TIERS if size >= jobs), None)
    machines = next((pair for pair in MACHINE_TIERS if pair[0] >= nodes and pair[1] >= gpus), None)
    if room is None or machines is None:
        raise ValueError(
            f"{jobs} jobs on {nodes} nodes with {gpus} GPUs: expected at most {JOB_TIERS[-1]} jobs, "
            f"{MACHINE_TIERS[-1][0]} nodes and {MACHINE_TIERS[-1][1]} GPUs; simulate a part of the trace"
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
