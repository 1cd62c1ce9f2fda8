"""Names and columns of the features of queued jobs, running jobs and the whole cluster.

Times are log1p(seconds / 60) / 4 and counts are scaled to about [0, 1], so no running normalisation is needed. No
feature depends on true durations, the length of the window, or future jobs.
"""

import numpy as np

QUEUE_FEATURES = (
    "present",
    "gpus",  # log2(1 + GPUs) / 7
    "estimate",  # time
    "remaining",  # time
    "remaining_area",  # time x GPUs
    "attained",  # time
    "progress",  # attained / estimate, at most 2
    "restart",  # pause + load, time
    "age",  # since submission, time
    "predictable",
    "preemptions",  # / 5, at most 1
    "memory",  # GiB a GPU / the largest GPU's
    "cores",  # a GPU / 8
    "rank",  # position in the order / slots
    "wait_without_preemption",  # estimated, time
    "fits",
    "left_on_node",  # GPUs left free on the last node used / its GPUs
    "has_victims",
    "victims",  # / 4
    "victims_overhead",  # time
    "victims_least_remaining",  # time
    "victims_worth",  # log of the ratio that the threshold rule compares with 1, in [-1, 1]
    "victims_worth_free",  # the same ratio if pausing were free
    "victims_most_preempted",  # / 5, at most 1
    "victims_unpredictable",  # share
    "victims_surplus",  # GPUs freed beyond need / need, at most 1
)
(PRESENT, GPUS, ESTIMATE, REMAINING, REMAINING_AREA, ATTAINED, PROGRESS, RESTART, AGE) = range(9)
(PREDICTABLE, PREEMPTIONS, MEMORY, CORES, RANK, WAIT, FITS, LEFT_ON_NODE) = range(9, 17)
(HAS_VICTIMS, VICTIMS, VICTIMS_OVERHEAD, VICTIMS_LEAST_REMAINING, VICTIMS_WORTH) = range(17, 22)
(VICTIMS_WORTH_FREE, VICTIMS_MOST_PREEMPTED, VICTIMS_UNPREDICTABLE, VICTIMS_SURPLUS) = range(22, 26)
RUNNING_FEATURES = (
    "present",
    "gpus",
    "estimate",
    "remaining",
    "attained",
    "pause",
    "load",
    "predictable",
    "preemptions",
    "memory",
    "cores",
    "running_for",
    "may_pause",
    "claimed",  # share of its GPUs that are reserved for a claim
    "free_on_node",  # GPUs of its first node that are free or held by a pausing job, not reserved / the node's GPUs
    "loading",
    "pausing",
    "reserved",  # waits until the GPUs reserved for it are released
    "is_legal",  # whether the action of its slot is legal now
)
WAITS = (1, 2, 4, 8, 16)  # GPUs for which the estimated wait is shown
BINS = 9  # nodes with 0, 1, ..., 8 or more free GPUs
TOTALS = (
    "free_share",
    *(f"nodes_with_{k}_free" for k in range(BINS)),
    "queued",
    "unseen",
    "running",
    "loading",
    "pausing_gpus",
    "queued_gpu_time",
    "running_gpu_time",
    "gpus_free_in_5_min",
    *(f"wait_for_{g}" for g in WAITS),
    "arrivals_last_hour",
    "claim_gpus",  # of the job whose claim is pending, log2(1 + GPUs) / 7
    "claim_remaining",  # its remaining time
    "claim_age",  # since its submission, time
    "claim_wait",  # until its last GPU is released, estimated, time
)
(RUNNING_PRESENT, RUNNING_GPUS, RUNNING_ESTIMATE, RUNNING_REMAINING, RUNNING_ATTAINED, PAUSE, LOAD) = range(7)
(RUNNING_PREDICTABLE, RUNNING_PREEMPTIONS, RUNNING_MEMORY, RUNNING_CORES, RUNNING_FOR) = range(7, 12)
(MAY_PAUSE, CLAIMED, FREE_ON_NODE, IS_LOADING, IS_PAUSING, IS_RESERVED, IS_LEGAL) = range(12, 19)
FREE_SHARE, NODES_BY_FREE = 0, 1  # the latter is the first of BINS columns
(ALL_QUEUED, ALL_UNSEEN, ALL_RUNNING, ALL_LOADING, PAUSING_GPUS, QUEUED_AREA, RUNNING_AREA, FREE_SOON) = (
    range(10, 18)
)
FIRST_WAIT = 18  # the first of as many columns as WAITS
ARRIVALS, CLAIM = FIRST_WAIT + len(WAITS), FIRST_WAIT + len(WAITS) + 1
NUM_FEATURES, NUM_RUNNING, NUM_TOTALS = len(QUEUE_FEATURES), len(RUNNING_FEATURES), len(TOTALS)
# Clip range; a time of e^64 minutes or 65 victims would exceed it.
LOWEST, HIGHEST = np.float32(-1.0), np.float32(16.0)
OWN_CHOICE, A_RANK, WAIT_LOGIT = 3.0, -1.2, -1.2  # logits of the base policy, before scaling
