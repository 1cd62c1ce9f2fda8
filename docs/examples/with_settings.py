"""Start the job with the fewest GPUs, but first those that have waited too long: settings, and reasons."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.policy import Action, Wait
from gpu_cluster_gym.simulator.reasons import Reason, in_order

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View


class Patient:
    """Order of the waiting jobs; patience_s: a job goes first once its wait times its GPUs is that long."""

    def __init__(self, patience_s: float = 3600.0) -> None:
        self.patience_s = patience_s

    def __call__(self, view: "View") -> Action:
        """Start the first waiting job that fits, or wait."""
        return view.start_first(self._order(view)[0]) or Wait()

    def _order(self, view: "View") -> tuple[np.ndarray, np.ndarray]:
        """Return the waiting jobs in order, and their keys."""
        jobs = view.jobs_of(view.waiting)
        late = (view.now - jobs.submit_s) * jobs.num_gpus >= self.patience_s
        key = np.where(late, 0, jobs.num_gpus)
        order = np.lexsort((jobs.submit_s, key))
        return view.waiting[order], key[order]

    def reason(self, view: "View", action: Action) -> Reason | None:
        """Return the comparison behind a start, for --report and --record; called before the action."""
        order, key = self._order(view)
        job = getattr(action, "job", -1)
        late = "GPUs requested, or 0 after a long wait"
        return in_order("The smallest job first.", late, job, order, key, lambda other: other != job)


policy = Patient
patience_4h = partial(Patient, patience_s=4 * 3600.0)
never = partial(Patient, patience_s=float("inf"))
