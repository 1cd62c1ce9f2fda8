"""Fewest GPUs first: start the job with the fewest GPUs that fits, without preemption; a weak baseline.

General knowledge. It shows the value of the size alone, without estimates; wide gangs wait. CPU jobs come first.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


def policy(view: "View") -> Action:
    """Start the first job that fits, by GPUs and then by submission, or wait."""
    queue = view.queue
    return view.start_first(queue[np.argsort(view.jobs.num_gpus[queue], kind="stable")]) or Wait()
