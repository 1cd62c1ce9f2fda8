"""What is kept of how many CPU cores jobs need and are given: by a policy, or as a part of a rule's memory."""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.decided import LIST_FIELDS, Fields, dtype_of
from gpu_cluster_gym.simulator.kernel.cluster.layout import Tier

MOST_TRIED = 16  # numbers of cores that are remembered of a job; the one watched least makes room for another

WINDOW_S = 60.0  # at least, that a number of cores is watched; the first after a start is not read
EPS = 0.04  # how much less busy than at best GPUs may be
DROP = 0.1  # a job so much less busy than it was with the same cores is tuned anew

CORE_FIELDS: Fields = (
    ("instant", "i8"),  # the last at which it was asked
    *LIST_FIELDS,
    # what is known of how many cores a job needs
    ("window_s", "f8"),
    ("eps", "f8"),
    ("drop", "f8"),
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
    # errors of readings of bandwidth
    ("error_seed", "i8"),
    ("error_at", "i8", ("jobs",)),  # the instant of which the next is
    ("error_drawn", "f8", ("jobs",)),
    # scratch: the running jobs
    ("num_running", "i8"),
    ("running", "i4", ("jobs",)),  # by job
    ("is_listed", "i1", ("jobs",)),
    ("num_by_gain", "i8"),
    ("by_gain", "i4", ("jobs",)),  # with GPUs, by what a core makes of them
    ("rows", "i4", ("jobs",)),
    ("key", "f8", ("jobs",)),
    ("left_s", "f8", ("jobs",)),  # s to go: of a queued job as asked and alone, of others as things are
    (
        "learned",
        "f8",
        ("jobs",),
    ),  # cores a GPU that it needs as it runs, as finished jobs teach; 0 where they do not
    ("wish", "f8", ("jobs",)),  # cores a GPU, servers included; of the whole job where it has none
    ("given", "f8", ("jobs",)),  # cores that are divided out
    # scratch: nodes
    ("node_room", "f8", ("nodes",)),  # cores that running jobs hold or could
    ("room_left", "f8", ("nodes",)),
    ("lacking", "f8", ("nodes",)),  # cores that others must give up
    ("drawn", "f8", ("nodes",)),  # GB/s, as read
)

OWN_FIELDS: Fields = (
    ("reserve", "f8"),  # cores for each GPU that a job is sure of
    ("first_guess", "f8"),  # cores for each GPU that a job is taken to need before anything is known
    # of the seconds to go, by which the order is divided in which cores are given; 0 here
    ("shorter_first", "f8"),
    (
        "trust_cores",
        "f8",
    ),  # in what is learned of the cores a job needs, against what is found by trying; 0 here
    (
        "surplus",
        "f8",
    ),  # times what it wants that a job is given at most; no more than that where it is 0, as here
)
"""What a rule over moves has among its parameters."""


@cache
def core_dtype(size: Tier) -> np.dtype:
    """Return the record type of what a policy that divides cores keeps, at one tier."""
    return dtype_of((*OWN_FIELDS, *CORE_FIELDS), size)


def forget(memory: np.ndarray, window_s: float = WINDOW_S, eps: float = EPS, drop: float = DROP) -> None:
    """Make of zeros a memory that has not been asked yet; see the constants for what a tuner goes by."""
    memory["window_s"], memory["eps"], memory["drop"] = window_s, eps, drop
    memory["instant"] = memory["node"] = memory["servers"] = memory["watched_at"] = memory["error_at"] = -1
