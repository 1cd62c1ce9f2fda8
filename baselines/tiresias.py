"""Least attained service in rounds, with a way back to the top for jobs that starve (Tiresias, NSDI 2019).

Claim: without knowing how long jobs run, those first that have had least service, GPUs x time, cuts the mean completion
time; a few queues instead of a continuous order avoid thrash. Its simulator has three, cut at 3,250 and 7,200 GPU-s,
FIFO inside, and sends a job back to the top once it has waited since its last run for `starve` times what it has run;
AITurbo's code asks again every 240 s and at arrivals. From memory, not checked against the paper: its service is
counted anew from then; `starve` is 8. Inferred: what it has run is all of it, or a demoted job would come back too
often for what a pause costs; FIFO is by submission; victims are chosen as in `simulator.priority_rounds`. Left out:
consolidation by the skew of a model's tensors.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_cluster_gym.baselines.las import LIMITS
from gpu_cluster_gym.simulator.priority_rounds import ROUND_S, InRounds, Levels, Rounds

if TYPE_CHECKING:
    pass


@dataclass
class Tiresias(InRounds):
    """One episode of the policy.

    servers_on_gpus: whether a job's parameter servers take GPUs, as where AITurbo is compared with it, or cores.
    limits: service at which the next queue begins, GPU-seconds.
    starve: seconds of waiting for each second run after which a job is in the top queue again; infinite for never.
    round_s: between rounds.
    """

    servers_on_gpus: bool = False
    limits: tuple[float, ...] = LIMITS
    starve: float = 8.0
    round_s: float = ROUND_S

    def __post_init__(self) -> None:
        self.rounds = Rounds(Levels(self.limits, self.starve, self.servers_on_gpus), self.round_s)


policy = Tiresias
GRID = {
    "limits": (LIMITS, (600.0, 6000.0), (3600.0, 36_000.0), (21_600.0, 216_000.0)),
    "starve": (2.0, 8.0, 1e9),
    "round_s": (60.0, ROUND_S, 960.0),
}
