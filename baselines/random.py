"""Start what fits in uniformly random order and pause no job: a floor line.

Our own baseline. It never leaves a GPU idle that a waiting job could use, so a win over it comes from order alone.
"""

from typing import TYPE_CHECKING

from gpu_cluster_gym.simulator.policy import Action, Start, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


def policy(view: "View") -> Action:
    """Start one of the queued jobs that fit, each with equal chance, or wait."""
    fitting = view.startable
    if not len(fitting):
        return Wait()
    job = int(view.rng.choice(fitting))
    placement = view.place(job)
    assert placement is not None, "a startable job has a place"
    return Start(job, placement)
