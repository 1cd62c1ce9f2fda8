"""Earliest deadline first: start the job with the earliest deadline that fits, without preemption.

General knowledge (Liu and Layland, JACM 1973, for a single machine with preemption). Jobs without a deadline come last,
by submission; without any deadlines the policy is `fifo`.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "deadlines"


def policy(view: "View") -> Action:
    """Start the first job that fits, by deadline and then by submission, or wait."""
    queue = view.queue
    due_s = view.jobs.deadline_s[queue]
    # deadline 0 means none; the stable sort keeps such jobs in the order of submission
    order = np.argsort(np.where(due_s > 0, due_s, np.inf), kind="stable")
    return view.start_first(queue[order]) or Wait()
