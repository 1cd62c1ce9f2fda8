"""Most GPUs first: start the job with the most GPUs that fits, without preemption; a weak baseline.

General knowledge. It fills as many GPUs as a policy can that considers one job at a time, and has no other goal. The
gap to other policies shows that jobs do not wait because of idle GPUs. CPU jobs come last.
"""

from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


def policy(view: "View") -> Action:
    """Start the first job that fits, by descending GPUs and then by submission, or wait."""
    queue = view.queue
    return view.start_first(queue[np.argsort(-view.jobs.num_gpus[queue], kind="stable")]) or Wait()
