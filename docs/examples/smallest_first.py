"""Start the job with the fewest GPUs that fits; never pause a job."""

from typing import TYPE_CHECKING

from gpu_cluster_gym.simulator.policy import Action, Start, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


def policy(view: "View") -> Action:
    """Start one job, or wait if none fits."""
    for job in sorted(view.startable.tolist(), key=lambda job: view.jobs.num_gpus[job]):
        if placement := view.place(job):
            return Start(job, placement)
    return Wait()
