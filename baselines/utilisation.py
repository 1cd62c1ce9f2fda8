"""Start the job with most GPUs that fits and pause no job: GPUs are filled, whichever job waits; a floor line.

General knowledge. It leaves as few GPUs idle now as a look at one job at a time can, and asks nothing else: the gap to
other policies shows that idle GPUs are not what jobs wait for. CPU jobs come last.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


def policy(view: "View") -> Action:
    """Start the first that fits, by GPUs downwards and then by submission, or wait."""
    queue = view.queue
    return view.start_first(queue[np.argsort(-view.jobs.num_gpus[queue], kind="stable")]) or Wait()
