"""Fair share: start jobs of the tenant with the lowest recent use relative to its quota, as Slurm does.

Claim: if jobs start in the order of their accounts' past use relative to their shares, and past use counts for less the
older it is, then each account comes to use its share, whatever the others submit. Source: Slurm's documentation of the
multifactor priority plugin (slurm.schedmd.com/priority_multifactor.html), from memory: use decays with a half-life of
seven days by default.

Inferred: use is GPU-seconds held, a tenant's share is its quota, and one without a quota comes last. Without tenants,
users have equal shares; without users it is FIFO. Within a tenant jobs are in the order of submission; jobs that do not
fit are skipped, and none is preempted.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator import search
from gpu_cluster_gym.simulator.policy import Action, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "users"


@dataclass
class FairShare:
    """State of the policy in one episode. half_life_s: seconds after which use counts half."""

    half_life_s: float = 7 * 86_400.0

    def __post_init__(self) -> None:
        self._used = self._held = np.zeros(0)  # decayed GPU-seconds, and GPUs held since, of each owner
        self._since_s = 0.0

    def __call__(self, view: "View") -> Action:
        """Start the first job that fits, by its owner's use over its share and then by submission, or wait."""
        owner, queue = search.owners(view), view.queue
        self._count(view, len(owner.share))
        with np.errstate(divide="ignore", invalid="ignore"):
            rank = np.where(owner.share > 0, self._used / owner.share, np.inf)
        start = view.start_first(queue[np.argsort(rank[owner.of[queue]], kind="stable")])
        if start is None:
            self._held = owner.gpus
        return start or Wait()

    def _count(self, view: "View", owners: int) -> None:
        """Add the use since the last call, of which the last second counts in full."""
        used, held = np.zeros(owners), np.zeros(owners)
        used[: len(self._used)], held[: len(self._held)] = self._used, self._held
        lasted, rate = view.now - self._since_s, np.log(2) / self.half_life_s
        # The integral of held x exp(-rate x age) over the time that has passed.
        self._used = used * np.exp(-rate * lasted) + held * -np.expm1(-rate * lasted) / rate
        self._held, self._since_s = held, view.now


policy = FairShare
GRID = {"half_life_s": (3600.0, 86_400.0, 7 * 86_400.0)}
