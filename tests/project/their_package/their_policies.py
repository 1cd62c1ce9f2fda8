"""Policy in a separate package."""

from gpu_cluster_gym.simulator.policy import Action, Start, Wait
from gpu_cluster_gym.simulator.view import View


def policy(view: View) -> Action:
    """Start the job with the longest estimate, of the jobs that fit."""
    startable = view.startable
    if not len(startable):
        return Wait()
    job = int(startable[view.jobs.estimate_s[startable].argmax()])
    placement = view.place(job)
    assert placement
    return Start(job, placement)
