"""Random order: start fitting jobs in uniformly random order, without preemption; a weak baseline.

Our own baseline. It leaves no GPU idle that a queued job could use, so an advantage over it comes from order alone.
"""

from typing import TYPE_CHECKING

from gpu_cluster_gym.simulator.policy import Action, Start, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


def policy(view: "View") -> Action:
    """Start a queued job that fits, chosen uniformly, or wait."""
    fitting = view.startable
    if not len(fitting):
        return Wait()
    job = int(view.rng.choice(fitting))
    placement = view.place(job)
    assert placement is not None, "a startable job has a placement"
    return Start(job, placement)
