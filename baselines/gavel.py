"""Shares of time on each type of GPU by a linear program, carried out in rounds (Gavel, OSDI 2020).

Claim: jobs gain very differently by a faster type, so a policy that knows each job's throughput on each serves all
better than one that takes GPUs to be alike. Its "least attained service" is max-min fairness: shares X of time, of each
job on each type, that maximise the least of GPUs x throughput(X) / throughput(equal time on every GPU), where no job
has more than all of its time and no type gives more GPUs than it has. The authors' code states that, and a round: of
all (job, type) the largest X / time received first, a job on one type, and on the same GPUs if it can. From memory, not
checked against the paper: rounds of 6 min; that their count of time begins anew with each X, and only a deficit is
carried over.

Inferred: what the least leaves over goes to the largest sum; X is summed, like the time received, since a job came, or
newcomers would go first until they had received as much as any other. Our choice: GPUs are never given where a job has
no share, which their code does with what is left over, since here moving on costs minutes; a job that has no turn in a
round but is in no other's way runs on; between rounds what fits starts where it has a share, and no job is paused; a
job goes to another type as `Resize` does; a gang for which no type has GPUs enough has a share of all together; on GPUs
of one type, where many shares are best, jobs have alike or all they can use (which no solver has to find). Throughputs
are as profiled. Objective `throughput`, the largest sum: as theirs, but for gains over equal time. Left out: two jobs
on a GPU, throughputs to be estimated, weights, groups with shares of their own.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.baselines.lib.kinds import Kinds
from gpu_cluster_gym.baselines.lib.shares import Objective, Shares
from gpu_cluster_gym.simulator.policy import Action, RunsWhole
from gpu_cluster_gym.simulator.time_sharing_rounds import Turns

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "gpu_types"

ROUND_S = 360.0


@dataclass
class Gavel(RunsWhole):
    """One episode of the policy.

    objective: whether the least of all throughputs is made largest, or their sum; each over that of equal shares.
    round_s: between two rounds.
    """

    objective: Objective = "fairness"
    round_s: float = ROUND_S

    def __post_init__(self) -> None:
        """Begin an episode."""
        self._turns = Turns(self.round_s)
        self._kinds: Kinds | None = None
        self._shares_of = Shares(self.objective)

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant, then a wait; shares are found anew where other jobs are there."""
        while (move := self._turns.next_move(view)) is None:
            self._turns.share(self._shares(view, self._turns.sharing))
        return move

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Carry it out inside the kernel to the end, but for finding shares; tell whether every job ended."""
        return self._turns.run_whole(states, jobs, histories, self._shares)

    def _shares(self, view: "View", jobs: np.ndarray) -> np.ndarray:
        """Return the shares of these jobs on each kind."""
        self._kinds = self._kinds or Kinds(view)
        gpus, speed, sizes = view.jobs.num_gpus[jobs], self._kinds.speeds(view, jobs), self._kinds.sizes(view)
        return self._shares_of(gpus, speed, sizes)


policy = Gavel
GRID = {"round_s": (360.0, 1200.0, 3600.0, 14_400.0), "objective": ("fairness", "throughput")}
