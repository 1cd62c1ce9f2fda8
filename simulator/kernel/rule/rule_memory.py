"""What a rule over moves keeps beside an episode's state: its parameters, what it has learned, and scratch."""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.decided import Fields, dtype_of, tier_of
from gpu_cluster_gym.simulator.kernel.cluster.layout import GPU_TYPES, Tier
from gpu_cluster_gym.simulator.kernel.cores.sharing import CORE_FIELDS, init_tuning
from gpu_cluster_gym.simulator.kernel.rule.batches import BATCH_FIELDS
from gpu_cluster_gym.simulator.kernel.rule.history import HISTORY
from gpu_cluster_gym.simulator.kernel.rule.rule_parameters import RULE_PARAMETERS

MOST_GPUS = 16  # of a move that names its GPUs

MEMORY: Fields = (
    *((parameter.name, "f8") for parameter in RULE_PARAMETERS),
    *CORE_FIELDS,
    *HISTORY,
    *BATCH_FIELDS,
    # what is believed at this moment
    ("moment", "i8"),  # how many instants there have been, and seeds at them
    ("moment_instant", "i8"),
    ("moment_begun", "i8"),  # starts before it
    # by which news of its batch, seconds attained and trust the next is
    ("expected_news", "i8", ("jobs",)),
    ("expected_attained", "f8", ("jobs",)),
    ("expected_trust", "f8", ("jobs",)),
    ("expected_left_s", "f8", ("jobs",)),  # s of run time left, as the rule believes
    ("need_at", "i8", ("jobs",)),  # the moment of which the next is
    ("need", "f8", ("jobs",)),  # cores a GPU in the shape asked for, alone
    ("seen", "i8", (7,)),  # of the state that was read last, what every move but those of cores changes
    ("serves", "i1"),  # whether some job so far has parameter servers, which need cores where it is
    ("is_searched", "i1"),  # whether no displacement and no move has been found in it
    ("has_divided", "i1"),  # whether cores have been divided since the last start at this instant
    ("wait_s", "f8"),  # s to wait at most
    ("price_now", "f8"),  # seconds that others wait for each second of a GPU
    (
        "is_choice",
        "i1",
    ),  # whether the moves decided on are a choice; else they follow from one, or are of cores
    ("is_placed", "i1"),  # whether they are a start where the scenario's rule places the job
    # GPUs that are being freed for a job
    ("kept_for", "i8"),
    ("num_kept", "i8"),
    ("kept_gpus", "i4", ("gpus",)),
    ("kept_servers", "i8"),
    ("refused_at", "i8", ("jobs",)),  # the instant at which no place was found for it
    # where there are seats: how often that was read, and which reading found something else than the one before
    ("readings", "i8"),
    ("read_anew", "i8", ("nodes",)),
    ("read_last", "i8"),  # the last of these
    ("limits_read", "f8", (2,)),  # the weights by which seats were too busy or too slow
    ("seatless_at", "i8", ("jobs",)),  # the last reading by which it found no seat
    # the machines, which do not change: see `simulator.kernel.rule.type_speeds`
    ("num_kinds", "i8"),  # types of GPUs; 0 until they have been looked up
    ("kinds", "i4", (len(GPU_TYPES),)),
    ("typed", "i1"),  # whether there are several that differ in speed
    ("fair_cores", "f8"),  # for each GPU of the cluster
    (
        "fastest",
        "f8",
        ("jobs",),
    ),  # speed on the fastest GPUs that can hold the job; 0 until it has been looked up
    # how much slower jobs are across nodes, as measured: see `simulator.kernel.rule.spanning`
    ("slow_across", "f8", ("jobs",)),  # 0 until then
    ("across_since", "f8", ("jobs",)),  # s; since when it has been alone there
    ("across_from", "f8", ("jobs",)),  # s of run time that it had attained by then
    # what looking ahead has decided (`simulator.kernel.moves.look_ahead`); the rule alone leaves it as it is
    ("waits", "i1"),  # whether nothing more is to be started at this instant
    ("longest_wait", "f8"),  # s, where it does
    ("rounds_made", "i8"),  # deviations at this instant
    ("news", "i8"),  # counts what had happened when moves were compared last
    ("compared_at", "f8"),  # s; when that was
    ("num_compared", "i8"),  # how often so far
    ("num_rollouts", "i8"),
    ("deviations", "i8", (6,)),  # by kind of move, the first of `move_list.KINDS`
    # of a queued job `left_s` and `key` stand as long as it waits
    ("known_at", "i8", ("jobs",)),  # 1 + the number of its last start before they were found
    ("known_news", "i8", ("jobs",)),  # of its batch, at that time
    ("weights_read", "f8", (6,)),  # by which keys were found
    # scratch: the queue and the running jobs
    ("num_order", "i8"),
    ("order", "i4", ("jobs",)),  # queued jobs with GPUs, in order
    ("num_standing", "i8"),
    ("standing", "i4", ("jobs",)),  # the same and the running jobs that would be faster elsewhere, in order
    ("num_takers", "i8"),
    ("takers", "i4", ("jobs",)),  # the same and the running jobs that could use more GPUs, in order
    ("to_list", "i1", ("jobs",)),  # is queued, and not yet in order
    ("num_on_cores", "i8"),
    ("on_cores", "i4", ("jobs",)),  # queued CPU jobs, by job
    ("crowd", "f8", ("jobs",)),  # slowdown of a job by those beside it
    ("evictable_s", "f8", ("jobs",)),  # `left_s` of a running job that may be paused, else -inf
    ("type_slow", "f8", ("jobs",)),  # by the type of its slowest GPU, over the fastest that can hold it
    ("anew_s", "f8"),  # s that the job in question has to go, if it starts anew on its fastest GPUs
    ("ends_s", "f8"),  # s until it would end, and begin, without a pause
    ("begins_s", "f8"),
    ("alone", "i1"),  # whether it must have its GPUs alone
    # scratch: GPUs
    ("demand", "f8", ("gpus",)),  # sum of profiled duties
    ("room_gib", "f8", ("gpus",)),  # memory that no profile claims
    ("is_kept", "i1", ("gpus",)),
    ("is_empty", "i1", ("gpus",)),
    ("is_open", "i1", ("gpus",)),  # has a share slot for another job
    ("is_alike", "i1", ("gpus",)),  # has the same jobs as the GPU before it, on the same node
    ("slowdown", "f8", ("gpus",)),  # of a job there; infinite where it cannot run
    ("opens_s", "f8", ("gpus",)),
    ("among", "i4", ("gpus",)),  # GPUs of the place in question
    ("frees_s", "f8", ("gpus",)),  # when no job is left
    ("by_freeing", "i4", ("gpus",)),  # the first to be free first
    ("evicted", "i4", ("gpus",)),
    ("slow_after", "f8", ("gpus",)),
    ("ranked", "i4", ("gpus",)),
    ("chosen", "i4", ("gpus",)),
    # scratch: the best displacement so far
    ("num_wanted", "i8"),
    ("wanted", "i4", ("gpus",)),
    ("wanted_servers", "i8"),
    ("wanted_slowdown", "f8"),
    ("num_evicted", "i8"),
    ("to_evict", "i4", ("gpus",)),
    ("victims", "i4", ("gpus",)),
    ("offered", "i4", ("gpus",)),
    ("offers_gpus", "i4", ("gpus",)),
    ("offers_cost", "f8", ("gpus",)),
    ("offers_left_s", "f8", ("gpus",)),
    ("best_sets", "f8", (MOST_GPUS + 1, 3)),  # see `simulator.kernel.cluster.knapsack`
    ("sets", "i4", (MOST_GPUS + 1, MOST_GPUS)),
    # scratch: nodes
    ("empties", "i4", ("nodes",)),  # GPUs that are empty
    ("node_order", "i4", ("nodes",)),
    ("can_hold", "i1", ("nodes",)),
    ("has_seat", "i1", ("nodes",)),  # for the job that was looked for
    ("by_type", "f8", ("nodes",)),  # its slowdown by the type of GPU, where they can hold it
    ("spare", "f8", ("nodes",)),  # cores that could be given up
    # scratch: the ways in which a job can run
    ("num_ways", "i8"),
    ("way_workers", "i4", (8,)),
    ("way_servers", "i4", (8,)),
    ("pace", "f8", (8,)),  # time over that as asked
    ("way_cost", "f8", (8,)),  # the least so far
    ("way_gpus", "i4", (8, MOST_GPUS)),
    ("way_empty", "i4", (8,)),  # free GPUs of the fullest place with enough of them
    ("way_own", "i4", (8, MOST_GPUS)),
)


@cache
def memory_dtype(size: Tier) -> np.dtype:
    """Return the record type of a rule's memory at one tier."""
    return dtype_of(MEMORY, size)


def fresh_memory(
    states: np.ndarray, parameters: dict[str, float], histories: np.ndarray, rows: int = 1
) -> np.ndarray:
    """Return the memory of a rule with these parameters that has not been asked yet, `rows` times."""
    memory = np.zeros(rows, memory_dtype(tier_of(states)))
    for name, value in parameters.items():
        memory[name] = value
    for name in histories.dtype.names or ():
        memory[name] = histories[name][0]
    init_tuning(memory)
    for name in ("moment_instant", "seen", "kept_for", "refused_at", "news", "across_since"):
        memory[name] = -1
    return memory


@compiled
def insert_best(m, count, most, job):
    """Insert a job into the list of those that win most, by `key`; return the new length."""
    at = count
    while at > 0 and m.key[m.rows[at - 1]] < m.key[job]:
        if at < most:
            m.rows[at] = m.rows[at - 1]
        at -= 1
    if at == most:
        return count
    m.rows[at] = job
    return min(count + 1, most)


@compiled
def copy(origin, target, count):
    """Copy the first so many entries; to assign a slice would make a third array."""
    for k in range(count):
        target[k] = origin[k]
