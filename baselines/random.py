"""Random order: start a random queued job that fits; unlike random_legal, never pause, or wait while one fits.

Our own weak baseline. It leaves no GPU idle that a queued job could use, so an advantage over it comes from order
alone.
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
