"""Weights of `union`, and the memory that it keeps of an episode.

A weight is declared once, with its default, its bounds and the scale on which it is searched. The memory is a record
beside the state's: the weights, what has been learned, what is cached between decisions, and scratch arrays.
"""

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import GPU_TYPES, Tier
from gpu_cluster_gym.simulator.kernel.cluster.plan import Fields, dtype_of, tier_of
from gpu_cluster_gym.simulator.kernel.cores.sharing import CORE_FIELDS, init_tuning
from gpu_cluster_gym.simulator.kernel.union.estimates import BATCH_FIELDS, HISTORY_FIELDS
from gpu_cluster_gym.simulator.kernel.union.job_shapes import MAX_NAMED_GPUS


def weight(default: float, low: float, high: float, scale: float) -> Any:
    """Declare a weight: its default, its bounds, and a change that makes a difference; a scale of 0 for a switch."""
    return field(default=default, metadata={"default": default, "low": low, "high": high, "scale": scale})


@dataclass(frozen=True)
class RuleParameters:
    """Weights of `union`. The first four switch a lever off (0) or on (1). Times are in seconds and estimated."""

    sharing: float = weight(1, 0, 1, 0)
    preemption: float = weight(1, 0, 1, 0)
    sizing: float = weight(1, 0, 1, 0)
    cores: float = weight(1, 0, 1, 0)
    exponent: float = weight(0.8, -1, 3, 0.4)
    """Exponent of a job's GPUs in its order key, time left x GPUs^exponent."""
    by_duty: float = weight(0, -3, 3, 0.5)
    """Weight of its GPU utilisation (0 to 1) in the logarithm of the key."""
    by_memory: float = weight(0, -3, 3, 0.5)
    """Weight of its memory, as a share of the largest GPU's."""
    by_doubt: float = weight(0, -3, 3, 0.5)
    """Weight of a job that is not predictable yet."""
    by_age: float = weight(0, -3, 3, 0.2)
    """Weight of ln(1 + hours since its submission)."""
    price: float = weight(1.5, 0, 1e6, 2)
    """Price of a second on a GPU, for each job that waits and `expected` more, divided by all GPUs."""
    expected: float = weight(1, 0, 1e6, 0.5)
    """Number of jobs expected to be waiting soon."""
    shared_price: float = weight(0.6, 0, 1, 0.3)
    """Price of a share slot beside other jobs, relative to an exclusive GPU."""
    harm: float = weight(1.5, 0, 8, 0.7)
    """Weight of the seconds that co-located jobs lose by a start."""
    relief: float = weight(1, 0, 8, 0.7)
    """Weight of the seconds that co-located jobs gain when a job leaves them."""
    most_busy: float = weight(1.7, 0, 4, 0.3)
    """Maximum sum of the profiled utilisations on a shared GPU."""
    most_slow: float = weight(3, 1, 1e6, 1)
    """Maximum time with which a job may start, relative to its time as requested and alone."""
    caution: float = weight(1, 0, 1e6, 0.25)
    """Required gain of a pause, relative to what others lose by it."""
    backlog: float = weight(1, 0, 1, 0.3)
    """Degree to which a job is taken to wait for as long as its victims would hold their GPUs, if others wait too."""
    contenders: float = weight(4, 1, 64, 2)
    """Number of jobs, the first in order, for which pauses are considered."""
    growth: float = weight(1, 0.1, 1e6, 0.7)
    """Required gain of a move to other GPUs, relative to its restart; it keeps jobs from moving for ever."""
    widening: float = weight(0.05, 0, 4, 0.05)
    """Priority of a running job that could use more GPUs, relative to a queued one with as much to go, when GPUs become
    free; 0: behind all queued jobs."""
    settled: float = weight(60, 10, 1e6, 60)
    """Minimum seconds that a job runs before it is paused or moved; it ensures progress."""
    reserve: float = weight(1, 0, 6, 0.7)
    """Guaranteed cores per GPU of a job, before others get what they want."""
    new_cores: float = weight(1, 1, 8, 0.7)
    """Cores per GPU with which a job starts, if they are available."""
    first_guess: float = weight(3, 1, 16, 1)
    """Assumed core need per GPU before anything is known."""
    shorter_first: float = weight(0, -2, 2, 0.4)
    """Exponent of the time left by which the order is divided in which cores are given."""
    surplus: float = weight(1, 1, 8, 0.7)
    """Maximum cores that a job is given, relative to its need, of cores that no job wants."""
    trust_cores: float = weight(0.75, 0, 1, 0.5)
    """Trust in core needs learned from finished jobs (1), against those found by trial (0)."""
    trust_times: float = weight(0.75, 0, 1, 0.5)
    """Trust in run times learned from finished jobs (1), against the estimate (0)."""
    spanning: float = weight(0, 0, 8, 0.5)
    """Readiness of a running job that fills its node to take a second one, once no job waits: until it has been
    measured, its slowdown across nodes is taken to be 1 + .13 / spanning; 0: never."""

    def __post_init__(self) -> None:
        """Check the bounds; ValueError names each weight that violates them."""
        wrong = [
            f"{each.name} {getattr(self, each.name):g}: expected {each.low:g} to {each.high:g}"
            for each in RULE_PARAMETERS
            if not each.low <= getattr(self, each.name) <= each.high
        ]
        if wrong:
            raise ValueError("; ".join(wrong))


class RuleParameter(NamedTuple):
    """A weight: its default, its bounds, and the scale of a change that matters; 0 for a switch."""

    name: str
    default: float
    low: float
    high: float
    scale: float


RULE_PARAMETERS = tuple(
    RuleParameter(each.name, *(float(each.metadata[about]) for about in ("default", "low", "high", "scale")))
    for each in fields(RuleParameters)
)

MEMORY_FIELDS: Fields = (
    *((parameter.name, "f8") for parameter in RULE_PARAMETERS),
    *CORE_FIELDS,
    *HISTORY_FIELDS,
    *BATCH_FIELDS,
    # beliefs, see `estimates`
    ("moment", "i8"),  # counts instants, and changes of the reading seed within them
    ("moment_instant", "i8"),
    ("moment_starts", "i8"),  # starts before it
    # version of the batch, attained seconds and trust by which `believed_left_s` was computed
    ("left_version", "i8", ("jobs",)),
    ("left_attained", "f8", ("jobs",)),
    ("left_trust", "f8", ("jobs",)),
    ("believed_left_s", "f8", ("jobs",)),  # run time left, s
    ("need_moment", "i8", ("jobs",)),  # moment at which `need` was computed
    ("need", "f8", ("jobs",)),  # cores per GPU, alone in the requested shape
    # decisions
    (
        "state_seen",
        "i8",
        (7,),
    ),  # numbers of the state at the last read; every move but those of cores changes one
    ("any_servers", "i1"),  # whether some job so far has parameter servers, which need cores where it is
    ("is_searched", "i1"),  # whether neither a displacement nor a move was found in this state
    ("has_divided", "i1"),  # whether cores have been divided since the last start at this instant
    ("wait_s", "f8"),  # maximum wait, s
    ("gpu_price", "f8"),  # seconds that others wait for each second of a GPU
    (
        "is_choice",
        "i1",
    ),  # whether the proposed moves are a choice; else they follow from one, or are about cores
    ("is_placed", "i1"),  # whether they are a start where the scenario's rule places the job
    ("refused_at", "i8", ("jobs",)),  # the instant at which no placement was found for a job
    # GPUs being freed for a job
    ("pending_job", "i8"),
    ("num_pending", "i8"),
    ("pending_gpus", "i4", ("gpus",)),
    ("pending_servers", "i8"),
    # changes of seats, see `state_cache`
    ("num_reads", "i8"),
    ("changed_at_read", "i8", ("nodes",)),  # the last read that found a node changed
    ("last_change", "i8"),  # the latest of these
    ("limits_at_read", "f8", (2,)),  # most_busy and most_slow at the last read
    ("no_seat_at_read", "i8", ("jobs",)),  # the last read at which a job found no seat
    # machines, which do not change: see `job_shapes`
    ("num_gpu_types", "i8"),  # 0 until they have been noted
    ("gpu_types", "i4", (len(GPU_TYPES),)),
    ("typed", "i1"),  # whether there are several types that differ in speed
    ("fair_cores", "f8"),  # cores of the cluster per GPU
    ("best_speed", "f8", ("jobs",)),  # on the fastest GPUs that can hold the job; 0 until it has been noted
    # slowdown of gangs across nodes, as measured: see `seats`
    ("measured_span_slowdown", "f8", ("jobs",)),  # 0 until then
    ("span_since", "f8", ("jobs",)),  # s; since when the job has been alone there
    ("span_attained", "f8", ("jobs",)),  # s of run time attained by then
    # look-ahead (`simulator.kernel.moves.rollouts`); `union` alone does not touch it
    ("waits", "i1"),  # whether nothing more is started at this instant
    ("max_wait_s", "f8"),  # s, if so
    ("num_rounds", "i8"),  # deviations at this instant
    ("num_events", "i8"),  # events by the time of the last comparison
    ("compared_at", "f8"),  # s; time of the last comparison
    # cached keys of queued jobs
    ("cached_start", "i8", ("jobs",)),  # 1 + the last start before `left_s` and `key` were cached
    ("cached_version", "i8", ("jobs",)),  # version of the batch
    ("weights_at_cache", "f8", (6,)),
    # scratch: the queue and the running jobs, in order
    ("num_order", "i8"),
    ("order", "i4", ("jobs",)),  # queued jobs with GPUs
    ("num_claimants", "i8"),
    ("claimants", "i4", ("jobs",)),  # and running jobs that would be faster on another GPU type
    ("num_takers", "i8"),
    ("takers", "i4", ("jobs",)),  # and running jobs that could use more GPUs
    ("is_unlisted", "i1", ("jobs",)),  # queued, and not in order yet
    ("num_cpu_jobs", "i8"),
    ("cpu_jobs", "i4", ("jobs",)),  # queued CPU jobs, by job
    ("shared_slowdown", "f8", ("jobs",)),  # by co-located jobs
    (
        "type_slowdown",
        "f8",
        ("jobs",),
    ),  # by the slowest type of its GPUs, relative to the fastest that can hold it
    ("evictable_s", "f8", ("jobs",)),  # `left_s` of a running job that may be paused, else -inf
    # scratch: the job for which seats or pauses are searched
    ("own_left_s", "f8"),  # time left if it starts on its fastest GPUs
    ("unaided_end_s", "f8"),  # s until it would end, and start, without a pause
    ("unaided_start_s", "f8"),
    ("exclusive", "i1"),  # whether it needs exclusive GPUs
    # scratch: GPUs
    ("demand", "f8", ("gpus",)),  # sum of profiled utilisations
    ("free_memory_gib", "f8", ("gpus",)),  # memory that no profile claims
    ("is_blocked", "i1", ("gpus",)),
    ("is_empty", "i1", ("gpus",)),
    ("has_slot", "i1", ("gpus",)),  # whether a share slot is free for another job
    ("is_repeated", "i1", ("gpus",)),  # whether it has the same jobs as the GPU before it, on the same node
    ("slowdown", "f8", ("gpus",)),  # of a job there; infinite where it cannot run
    ("opens_s", "f8", ("gpus",)),  # s until it has a seat for the job without a pause
    ("place_gpus", "i4", ("gpus",)),  # GPUs of the listed place
    ("released_s", "f8", ("gpus",)),  # s until no job is left
    ("by_release", "i4", ("gpus",)),  # GPUs in this order
    ("victim_on", "i4", ("gpus",)),  # the job to pause for a seat
    ("slowdown_after", "f8", ("gpus",)),  # and the slowdown then
    ("ranked", "i4", ("gpus",)),
    ("chosen", "i4", ("gpus",)),
    # scratch: the best displacement so far
    ("num_best_gpus", "i8"),
    ("best_gpus", "i4", ("gpus",)),
    ("best_servers", "i8"),
    ("best_slowdown", "f8"),
    ("num_best_victims", "i8"),
    ("best_victims", "i4", ("gpus",)),
    # scratch: possible victims on a place
    ("victims", "i4", ("gpus",)),
    ("candidates", "i4", ("gpus",)),
    ("candidate_gpus", "i4", ("gpus",)),
    ("candidate_cost", "f8", ("gpus",)),
    ("candidate_left_s", "f8", ("gpus",)),
    ("best_sets", "f8", (MAX_NAMED_GPUS + 1, 3)),  # see `simulator.kernel.rankings.room.cheapest_in`
    ("sets", "i4", (MAX_NAMED_GPUS + 1, MAX_NAMED_GPUS)),
    # scratch: nodes
    ("num_empty", "i4", ("nodes",)),  # empty GPUs
    ("node_order", "i4", ("nodes",)),
    ("can_hold", "i1", ("nodes",)),
    ("has_seat", "i1", ("nodes",)),  # for the job that is searched for
    ("node_slowdown", "f8", ("nodes",)),  # of the job by GPU type, infinite where it does not fit
    ("spare_cores", "f8", ("nodes",)),  # cores that could be given up
    # scratch: the shapes in which a job can run
    ("num_shapes", "i8"),
    ("shape_workers", "i4", (8,)),
    ("shape_servers", "i4", (8,)),
    ("shape_time", "f8", (8,)),  # relative to the requested shape
    ("shape_cost", "f8", (8,)),  # the least so far
    ("shape_gpus", "i4", (8, MAX_NAMED_GPUS)),  # and its GPUs
    ("shape_empty", "i4", (8,)),  # empty GPUs of the fullest place with enough of them
    ("shape_own_gpus", "i4", (8, MAX_NAMED_GPUS)),  # and its GPUs
)


@cache
def memory_dtype(size: Tier) -> np.dtype:
    """Return the record type of the memory at one tier."""
    return dtype_of(MEMORY_FIELDS, size)


def init_memory(
    states: np.ndarray, parameters: dict[str, float], histories: np.ndarray, rows: int = 1
) -> np.ndarray:
    """Return `rows` memories with these weights, before the first decision; the first history record is copied."""
    memory = np.zeros(rows, memory_dtype(tier_of(states)))
    for name, value in parameters.items():
        memory[name] = value
    for name in histories.dtype.names or ():
        memory[name] = histories[name][0]
    init_tuning(memory)
    for name in ("moment_instant", "state_seen", "pending_job", "refused_at", "num_events", "span_since"):
        memory[name] = -1
    return memory


@compiled
def insert_best(m, count, max_count, job):
    """Insert a job into the list of the `max_count` jobs with the highest keys; return the new length."""
    at = count
    while at > 0 and m.key[m.rows[at - 1]] < m.key[job]:
        if at < max_count:
            m.rows[at] = m.rows[at - 1]
        at -= 1
    if at == max_count:
        return count
    m.rows[at] = job
    return min(count + 1, max_count)


@compiled
def copy_entries(origin, target, count):
    """Copy the first `count` entries; an assignment of slices would allocate a third array."""
    for k in range(count):
        target[k] = origin[k]
