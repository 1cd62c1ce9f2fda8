"""Names and columns of the features of queued jobs, running jobs and the whole cluster.

Times are log1p(seconds / 60) / 4 and counts are scaled to about [0, 1], so no running normalisation is needed. No
feature depends on true durations, the length of the window, or future jobs.
"""

import numpy as np

QUEUE_FEATURES = (
    "present",  # 1 if the slot has a job
    "gpus",  # requested GPUs; log2(1 + GPUs) / 7
    "estimate",  # estimated run time; time
    "remaining",  # estimated remaining run time; time
    "remaining_area",  # the same, times its GPUs; time
    "attained",  # run time so far; time
    "progress",  # attained / estimate, at most 2
    "restart",  # pause and load; time
    "age",  # time since submission; time
    "predictable",  # 1 if its estimate is accurate by now
    "preemptions",  # number of preemptions / 5, at most 1
    "memory",  # GiB per GPU / the largest GPU's memory
    "cores",  # cores per GPU / 8
    "rank",  # position in the order / slots
    "wait_without_preemption",  # estimated wait if nothing is paused; time
    "fits",  # 1 if it could start now
    "left_on_node",  # free GPUs left on the last node used / its GPUs
    "has_victims",  # 1 if pauses would free enough GPUs for it
    "victims",  # jobs that would be paused / 4
    "victims_overhead",  # sum of their pauses and loads; time
    "victims_least_remaining",  # shortest remaining time among them; time
    "victims_worth",  # log of the quantity that the threshold rule compares with 1, from -1 to 1
    "victims_worth_free",  # the same if pauses cost nothing
    "victims_most_preempted",  # largest number of preemptions among them / 5, at most 1
    "victims_unpredictable",  # share of them without an accurate estimate
    "victims_surplus",  # GPUs freed beyond need / need, at most 1
)
(PRESENT, GPUS, ESTIMATE, REMAINING, REMAINING_AREA, ATTAINED, PROGRESS, RESTART, AGE) = range(9)
(PREDICTABLE, PREEMPTIONS, MEMORY, CORES, RANK, WAIT, FITS, LEFT_ON_NODE) = range(9, 17)
(HAS_VICTIMS, VICTIMS, VICTIMS_OVERHEAD, VICTIMS_LEAST_REMAINING, VICTIMS_WORTH) = range(17, 22)
(VICTIMS_WORTH_FREE, VICTIMS_MOST_PREEMPTED, VICTIMS_UNPREDICTABLE, VICTIMS_SURPLUS) = range(22, 26)
RUNNING_FEATURES = (
    "present",  # 1 if the slot has a job
    "gpus",  # held GPUs; log2(1 + GPUs) / 7
    "estimate",  # estimated run time; time
    "remaining",  # estimated remaining run time; time
    "attained",  # run time so far; time
    "pause",  # duration of a pause; time
    "load",  # duration of a reload; time
    "predictable",  # 1 if its estimate is accurate by now
    "preemptions",  # number of preemptions / 5, at most 1
    "memory",  # GiB per GPU / the largest GPU's memory
    "cores",  # cores per GPU / 8
    "running_for",  # time since it last began to run; time
    "may_pause",  # 1 if it could be paused now
    "claimed",  # share of its GPUs that are reserved for a claim; 1 if chosen as a victim
    "free_on_node",  # share of the GPUs of its first node that are free, or held by a pausing job, and not reserved
    "is_loading",  # 1 if it loads
    "is_pausing",  # 1 if it pauses
    "is_reserved",  # 1 if it waits for the GPUs reserved for it
    "is_legal",  # 1 if the action of its slot is legal now
)
WAITS = (1, 2, 4, 8, 16)  # GPUs for which the estimated wait is shown
BINS = 9  # nodes with 0, 1, ..., 8 or more free GPUs
TOTALS = (
    "free_share",  # share of GPUs that are free
    *(
        f"nodes_with_{k}_free" for k in range(BINS)
    ),  # share of nodes with as many free GPUs, the last with 8 or more
    "queued",  # jobs in the queue; log1p / 6
    "unseen",  # queued jobs beyond the slots; log1p / 6
    "running",  # running jobs / all GPUs
    "loading",  # loading jobs / all GPUs
    "pausing_gpus",  # share of GPUs whose jobs are pausing
    "queued_gpu_time",  # estimated remaining GPU time of the queued jobs / all GPUs; time
    "running_gpu_time",  # the same for the running jobs; time
    "gpus_free_in_5_min",  # share of GPUs that are free now or, by the estimates, within 5 minutes
    *(f"wait_for_{g}" for g in WAITS),  # estimated wait for this number of GPUs; time
    "arrivals_last_hour",  # jobs submitted within the last hour; log1p / 6
    "claim_gpus",  # GPUs of the job whose claim is pending, 0 without one; log2(1 + GPUs) / 7
    "claim_remaining",  # its estimated remaining run time; time
    "claim_age",  # since its submission; time
    "claim_wait",  # estimated time until the last of its GPUs is released; time
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
