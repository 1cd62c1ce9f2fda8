"""Earliest deadline first: of the jobs that fit, start the one that is due first, and pause nobody.

General knowledge (Liu and Layland, JACM 1973, for one machine and preemption). Jobs without a deadline come last, by
submission. Without deadlines it is fifo.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "deadlines"


def policy(view: "View") -> Action:
    """Start the first that fits, by deadline and then by submission, or wait."""
    queue = view.queue
    due_s = view.jobs.deadline_s[queue]
    order = np.argsort(np.where(due_s > 0, due_s, np.inf), kind="stable")
    return view.start_first(queue[order]) or Wait()
