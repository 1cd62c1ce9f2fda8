"""AITurbo (HPDC 2021): jobs whose end can be predicted are resized by what a worker or server is worth, others are not.

The abstract gives a least-attained-service queue for unpredictable jobs, a model of speed for predictable ones, and
feedback queues by Borda count that combine the two, on GPUs and CPU cores alike. The numbers are those of the same
laboratory's later prototype; that the rank of benefit runs from the largest, that votes are positions, and that what is
infeasible never counts as a step, where its code does otherwise, is inferred. A prototype restarts every job in every
round; here only a job whose shape changes pays. Our choice: a step must also save more than the restart costs; while no
job waits for GPUs, service costs nothing, so that steps are judged by time alone (else jobs shrink beside idle GPUs); a
predictable job without a step has no second vote either; CPU workers are taken by a job that has waited so long that as
long again on them would be worth a restart. In each of the feedback queues jobs come by the same points that decide on
the queue, so the queues order nothing that points would not.

The steps, the CPU workers and the order are in `simulator.kernel.rounds.shape_steps`; how a plan is carried out, in
`simulator.elastic_rounds`.
"""

from typing import TYPE_CHECKING, Literal

import numpy as np

from gpu_cluster_gym.simulator.elastic_rounds import AS_TOLD, EVERY_JOB, NO_JOB, STEPS, Shaping
from gpu_cluster_gym.simulator.policy import Action, RunsWhole

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

LEVER = "elastic"

ADJUSTS = {"as_told": AS_TOLD, "all": EVERY_JOB, "none": NO_JOB}


class Aiturbo(RunsWhole):
    """The policy; it remembers the shape that each job is to have and what its best step was worth."""

    def __init__(
        self,
        borda: bool = True,
        elastic: bool = True,
        cpu_workers: bool = True,
        round_s: float = 240.0,
        predictable: Literal["as_told", "all", "none"] = "as_told",
        servers_on_gpus: bool = False,
    ) -> None:
        """Choose what to leave out.

        borda: else least attained service alone. elastic: else no job changes its size. cpu_workers: else workers are
        on GPUs alone. round_s: between rounds. predictable: which jobs to adjust. servers_on_gpus: each takes a
        GPU, as in that laboratory's Tiresias, not cores.
        """
        self._shaping = Shaping(
            STEPS,
            round_s,
            votes=borda,
            adjusts=ADJUSTS[predictable] if elastic else NO_JOB,
            cpu_workers=cpu_workers,
            apart=servers_on_gpus,
        )

    def __call__(self, view: "View") -> Action:
        """Return the next move."""
        return self._shaping(view)

    def run_whole(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Carry it out inside the kernel to the end; tell whether every job ended."""
        return self._shaping.run_whole(states, jobs)


policy = Aiturbo
GRID = {"round_s": (120.0, 240.0, 480.0, 960.0, 1920.0, 3840.0), "borda": (True, False)}
