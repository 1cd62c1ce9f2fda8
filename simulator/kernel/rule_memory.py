"""What a rule over moves keeps beside an episode's state: its parameters, what it has learned, and scratch."""

from functools import cache

import numpy as np

from simulator.kernel._compile import compiled
from simulator.kernel.layout import Tier
from simulator.kernel.rule_parameters import RULE_PARAMETERS

WAIT, START, PAUSE, MOVE, CORES, THROTTLE = range(6)  # kinds of moves

MOST_WANTED = 16  # GPUs of a way that are kept in mind
MOST_TRIED = 16  # numbers of cores that are remembered of a job; the one watched least makes room for another

MEMORY: tuple[tuple[str, str] | tuple[str, str, tuple[str | int, ...]], ...] = (
    *((parameter.name, "f8") for parameter in RULE_PARAMETERS),
    ("instant", "i8"),  # the last at which it was asked
    ("has_divided", "i1"),  # whether cores have been divided since the last start at this instant
    ("wait_s", "f8"),  # s to wait at most
    ("price_now", "f8"),  # seconds that others wait for each second of a GPU
    # moves decided on and not yet carried out
    ("num_moves", "i8"),
    ("next_move", "i8"),
    ("move_kind", "i1", ("jobs",)),
    ("move_job", "i4", ("jobs",)),
    ("move_value", "f8", ("jobs",)),  # cores, or level of a throttle
    ("num_gpus", "i8"),  # of the placement that belongs to the last of them
    ("gpus", "i4", ("gpus",)),
    ("node", "i8"),
    ("is_choice", "i1"),  # whether they are a choice among others; else they follow from one, or are of cores
    # GPUs that are being freed for a job
    ("kept_for", "i8"),
    ("num_kept", "i8"),
    ("kept_gpus", "i4", ("gpus",)),
    ("refused_at", "i8", ("jobs",)),  # the instant at which no place was found for it
    # what is known of how many cores a job needs
    ("watches", "i8"),  # instants at which readings were taken
    ("watched_at", "i8", ("jobs",)),  # the number of those at which it was known
    ("want", "f8", ("jobs",)),  # cores a GPU
    ("gain", "f8", ("jobs",)),  # how much busier a core makes a GPU
    ("window_began", "f8", ("jobs",)),  # s
    ("window_busy", "f8", ("jobs",)),  # busy seconds read then
    ("window_cores", "f8", ("jobs",)),  # held since; 0 outside of windows
    ("num_tried", "i4", ("jobs",)),
    ("tried", "f8", ("jobs", MOST_TRIED)),  # cores
    ("tried_s", "f8", ("jobs", MOST_TRIED)),  # seconds in windows with so many
    ("tried_busy", "f8", ("jobs", MOST_TRIED)),  # of them those in which GPUs were busy
    # scratch: the queue and the running jobs
    ("num_order", "i8"),
    ("order", "i4", ("jobs",)),  # queued jobs with GPUs, in order
    ("num_on_cores", "i8"),
    ("on_cores", "i4", ("jobs",)),  # queued CPU jobs, by job
    ("num_running", "i8"),
    ("running", "i4", ("jobs",)),  # by job
    ("rows", "i4", ("jobs",)),
    ("key", "f8", ("jobs",)),
    ("left_s", "f8", ("jobs",)),  # s to go: of a queued job as asked and alone, of others as things are
    ("crowd", "f8", ("jobs",)),  # slowdown of a job by those beside it
    ("wish", "f8", ("jobs",)),  # cores a GPU, servers included; of the whole job where it has none
    ("given", "f8", ("jobs",)),  # cores that are divided out
    # scratch: GPUs
    ("demand", "f8", ("gpus",)),  # sum of profiled duties
    ("room_gib", "f8", ("gpus",)),  # memory that no profile claims
    ("is_kept", "i1", ("gpus",)),
    ("is_empty", "i1", ("gpus",)),
    ("is_open", "i1", ("gpus",)),  # has a share slot for another job
    ("slowdown", "f8", ("gpus",)),  # of a job there; infinite where it cannot run
    ("opens_s", "f8", ("gpus",)),
    ("evicted", "i4", ("gpus",)),
    ("slow_after", "f8", ("gpus",)),
    ("ranked", "i4", ("gpus",)),
    ("chosen", "i4", ("gpus",)),
    # scratch: the best displacement so far
    ("num_wanted", "i8"),
    ("wanted", "i4", ("gpus",)),
    ("wanted_slowdown", "f8"),
    ("num_evicted", "i8"),
    ("to_evict", "i4", ("gpus",)),
    ("victims", "i4", ("gpus",)),
    ("offered", "i4", ("gpus",)),
    ("offers_gpus", "i4", ("gpus",)),
    # scratch: nodes
    ("can_hold", "i1", ("nodes",)),
    ("node_room", "f8", ("nodes",)),  # cores that running jobs hold or could
    ("room_left", "f8", ("nodes",)),
    ("lacking", "f8", ("nodes",)),  # cores that others must give up
    ("spare", "f8", ("nodes",)),  # cores that could be given up
    ("drawn", "f8", ("nodes",)),  # GB/s, as read
    # scratch: the ways in which a job can run
    ("num_ways", "i8"),
    ("workers", "i4", (8,)),
    ("pace", "f8", (8,)),  # time over that as asked
    ("way_cost", "f8", (8,)),  # the least so far
    ("way_gpus", "i4", (8, MOST_WANTED)),
    ("way_empty", "i4", (8,)),  # free GPUs of the fullest node with enough of them
    ("way_own", "i4", (8, MOST_WANTED)),
)


@cache
def memory_dtype(size: Tier) -> np.dtype:
    """Return the record type of a rule's memory at one tier."""
    sizes: dict[str | int, int] = {"jobs": size.jobs, "nodes": size.nodes, "gpus": size.gpus}
    shaped = [
        (name, kind, tuple(sizes.get(side, side) for side in shape[0]) if shape else ())
        for name, kind, *shape in MEMORY
    ]
    return np.dtype((np.record, np.dtype(shaped, align=True)))


def tier_of(states: np.ndarray) -> Tier:
    """Return the tier of some records."""
    return Tier(states["phase"].shape[1], states["node_gpus"].shape[1], states["first_owner"].shape[1])


def fresh_memory(states: np.ndarray, parameters: dict[str, float], rows: int = 1) -> np.ndarray:
    """Return the memory of a rule with these parameters that has not been asked yet, `rows` times."""
    memory = np.zeros(rows, memory_dtype(tier_of(states)))
    for name, value in parameters.items():
        memory[name] = value
    memory["instant"] = memory["kept_for"] = memory["node"] = -1
    memory["refused_at"] = memory["watched_at"] = -1
    return memory


@compiled
def copy(origin, target, count):
    """Copy the first so many entries; to assign a slice would make a third array."""
    for k in range(count):
        target[k] = origin[k]


@compiled
def propose(m, kind, job, value):
    """Put a move on the list."""
    m.move_kind[m.num_moves] = kind
    m.move_job[m.num_moves] = job
    m.move_value[m.num_moves] = value
    m.num_moves += 1
