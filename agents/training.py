"""Every choice about how to learn."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from simulator.policy import PRIOR, Ranking

AT_LEAST_ONE = (
    *("steps", "windows", "validation_windows", "validate_every", "queue_slots", "hidden"),
    *("environments", "rollout_steps", "batch", "epochs"),
)
POSITIVE = ("tau_s", "learning_rate", "clip", "target_kl")
NOT_NEGATIVE = ("learning_seed", "margin", "prior_scale", "gae_lambda", "entropy")


@dataclass(frozen=True)
class Training:
    """How to learn: PPO on windows of a trace, beginning as the threshold heuristic that it may improve upon."""

    steps: int = 140_000
    """Decisions to learn from, rounded up to whole rollouts."""
    windows: int = 200
    """Windows to learn on; as many as the trace has, if those are fewer."""
    validation_windows: int = 20
    """Windows on which the best agent is chosen; no other use is made of them."""
    validate_every: int = 20_000
    """Steps between validations, each of which also writes a checkpoint."""
    learning_seed: int | None = None
    """Decides first weights, sampled actions and batches; the scenario's seed, if not given."""
    reward: Literal["rollout_advantage", "jct"] = "rollout_advantage"
    """By how much an action beats the prior's own, or minus the time that jobs spend in the system."""
    tau_s: float | None = 4 * 3600.0
    """Time constant by which what comes later counts less, s: of rollouts and of PPO's discount; None for none."""
    exponent: float = PRIOR.exponent
    """Of a job's GPUs in the prior's order; see baselines.xion_threshold."""
    margin: float = PRIOR.margin
    """Overheads by which a preemption must pay under the prior."""
    prior_scale: float = 0.4
    """How strongly the prior's choice is preferred before anything is learned; 0 begins from nothing."""
    queue_slots: int = 16
    """Queued jobs that the agent sees and may start, the first in the prior's order."""
    hidden: int = 32
    """Width of the layers that every slot shares."""
    learning_rate: float = 2.5e-3
    """Of Adam, at the start; it falls linearly to 0 at the end of the steps."""
    environments: int = 32
    """Episodes played side by side."""
    rollout_steps: int = 256
    """Steps of each of them between updates."""
    batch: int = 2048
    """Steps in a gradient step."""
    epochs: int = 6
    """Passes over a rollout."""
    gae_lambda: float = 0.8
    """Weight of later steps in the estimate of an action's advantage."""
    clip: float = 0.2
    """How far the probability of an action may change in an update, as a share."""
    target_kl: float | None = None
    """Divergence from the old policy at which an update ends early; none by default."""
    entropy: float = 0.0
    """Weight of the policy's entropy in the loss."""

    def __post_init__(self) -> None:
        """Refuse numbers with which nothing can be learned, with a ValueError."""
        for names, least, wanted in (
            (AT_LEAST_ONE, 1, "at least 1"),
            (POSITIVE, math.ulp(0.0), "more than 0"),
            (NOT_NEGATIVE, 0, "at least 0"),
        ):
            for name in names:
                value = getattr(self, name)
                if value is not None and not value >= least:
                    raise ValueError(f"--{name.replace('_', '-')} {value:g}: expected {wanted}")

    @property
    def prior(self) -> Ranking:
        """The heuristic from which learning begins."""
        return Ranking("weighted", "if_it_pays", exponent=self.exponent, margin=self.margin)

    @property
    def rollout(self) -> int:
        """Steps of each environment between updates; fewer than `rollout_steps` where all steps are fewer."""
        return max(2, min(self.rollout_steps, -(-self.steps // self.environments)))

    def environment(self) -> dict[str, Any]:
        """Return the keywords of `GPUClusterEnv` under which the agent sees and acts."""
        return {
            "observation": "slots",
            "action": "pick",
            "queue_slots": self.queue_slots,
            "running_slots": 0,
            "exponent": self.exponent,
            "margin": self.margin,
            "tau_s": self.tau_s,
        }
