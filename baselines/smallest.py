"""Start the job with fewest GPUs that fits and pause no job: a floor line.

General knowledge. What a size alone, without any estimate, is good for; wide gangs wait. CPU jobs come first.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


def policy(view: "View") -> Action:
    """Start the first that fits, by GPUs and then by submission, or wait."""
    queue = view.queue
    return view.start_first(queue[np.argsort(view.jobs.num_gpus[queue], kind="stable")]) or Wait()
