"""What is kept by a policy that gives jobs turns on kinds of GPUs in rounds: their shares of time, and scratch."""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.decided import MOVE_FIELDS, THROTTLE, Fields, dtype_of, tier_of
from gpu_cluster_gym.simulator.kernel.cluster.layout import GPU_TYPES, Tier

SHARE = THROTTLE + 1  # beside the kinds of moves: the shares are to be found anew
MOST_KINDS = len(GPU_TYPES) + 1  # of GPUs: their types, and all together

TURN_FIELDS: Fields = (
    ("every_s", "f8"),  # s between two rounds
    ("num_kinds", "i8"),
    ("node_kind", "i4", ("nodes",)),  # -1 where it has none
    # time
    ("instant", "i8"),  # the last at which it was asked
    ("now_s", "f8"),  # s; up to when time is counted
    ("began_s", "f8"),  # s; the last round
    ("glance_s", "f8"),  # s; when it would look again
    ("wait_s", "f8"),  # s to wait; nan for the next event
    ("is_round", "i1"),
    ("has_moved", "i1"),  # whether a move was made at this instant
    # jobs
    ("num_known", "i8"),  # jobs that had arrived at the last instant
    ("num_present", "i8"),
    ("present", "i4", ("jobs",)),  # jobs that have arrived and not ended, by job
    ("num_sharing", "i8"),
    ("sharing", "i4", ("jobs",)),  # those among which shares were last found, and closed nodes
    ("shared_closed", "i1", ("nodes",)),
    ("share", "f8", ("jobs", MOST_KINDS)),  # of its time on each kind
    ("owed_s", "f8", ("jobs", MOST_KINDS)),
    ("got_s", "f8", ("jobs", MOST_KINDS)),
    ("had", "i4", ("jobs",)),  # kind on which a job was after the last moves, -1 for none
    # the pass of this instant
    ("stage", "i8"),
    ("at", "i8"),
    ("num_turns", "i8"),
    ("on", "i4", ("jobs",)),  # kind on which a job runs or loads at its beginning, -1 for none
    ("waits", "i1", ("jobs",)),
    ("num_after", "i8"),
    ("after", "i8", ("jobs",)),  # running jobs that may be paused, the last first to be
    ("is_after", "i1", ("jobs",)),
    ("num_hopeless", "i8"),
    ("num_victims", "i8"),
    ("victims", "i4", ("gpus",)),
    ("able", "i1", ("nodes",)),
    *MOVE_FIELDS,
)


@cache
def turn_dtype(size: Tier) -> np.dtype:
    """Return the record type of what such a policy keeps, at one tier."""
    most = MOST_KINDS * size.jobs
    lists: Fields = (
        ("turn_job", "i4", (most,)),
        ("turn_kind", "i4", (most,)),
        ("hopeless", "i4", (most,)),  # turns of which each has found no room, one for each class of requests
    )
    return dtype_of((*TURN_FIELDS, *lists), size)


def fresh_turns(states: np.ndarray, every_s: float) -> np.ndarray:
    """Return the memory of a policy that has not been asked yet."""
    memory = np.zeros(1, turn_dtype(tier_of(states)))
    memory["every_s"] = every_s
    memory["instant"], memory["began_s"], memory["glance_s"] = -1, -np.inf, np.inf
    memory["num_sharing"], memory["had"], memory["servers"] = -1, -1, -1
    count = int(states["num_nodes"][0])
    gpus, kinds = states["node_gpus"][0, :count], states["node_type"][0, :count]
    types = np.unique(kinds[gpus > 0])
    memory["num_kinds"] = len(types) + 1
    memory["node_kind"][0, :count] = [
        np.flatnonzero(types == kind)[0] if kind in types else -1 for kind in kinds
    ]
    return memory
