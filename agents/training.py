"""Every choice about how to learn."""

from dataclasses import dataclass
from typing import Any, Literal

from simulator.choice import check, choice
from simulator.policy import BASE_POLICY, Ranking


@dataclass(frozen=True)
class Training:
    """How to learn: PPO on windows of a trace, beginning as the threshold heuristic that it may improve upon."""

    steps: int = choice(140_000, least=1)
    """Decisions to learn from, rounded up to whole rollouts."""
    windows: int = choice(200, least=1)
    """Windows to learn on; as many as the trace has, if those are fewer."""
    validation_windows: int = choice(20, least=1)
    """Windows on which the best agent is chosen; no other use is made of them."""
    validate_every: int = choice(20_000, least=1)
    """Steps between validations, each of which also writes a checkpoint."""
    learning_seed: int | None = choice(None, least=0)
    """Decides first weights, sampled actions and batches; the scenario's seed, if not given."""
    reward: Literal["rollout_advantage", "jct"] = "rollout_advantage"
    """By how much an action beats the base policy's own, or minus the time that jobs spend in the system."""
    tau_s: float | None = choice(4 * 3600.0, above=0)
    """Time constant by which what comes later counts less, s: of rollouts and of PPO's discount; None for none."""
    exponent: float = BASE_POLICY.exponent
    """Of a job's GPUs in the base policy's order; see baselines.xion_threshold."""
    margin: float = choice(BASE_POLICY.margin, least=0)
    """Overheads by which a preemption must pay under the base policy."""
    base_scale: float = choice(0.4, least=0)
    """How strongly the base policy's choice is preferred before anything is learned; 0 begins from nothing."""
    queue_slots: int = choice(16, least=1)
    """Queued jobs that the agent sees and may start, the first in the base policy's order."""
    hidden: int = choice(32, least=1)
    """Width of the layers that every slot shares."""
    learning_rate: float = choice(2.5e-3, above=0)
    """Of Adam, at the start; it falls linearly to 0 at the end of the steps."""
    environments: int = choice(32, least=1)
    """Episodes played side by side."""
    rollout_steps: int = choice(256, least=1)
    """Steps of each of them between updates."""
    batch: int = choice(2048, least=1)
    """Steps in a gradient step."""
    epochs: int = choice(6, least=1)
    """Passes over a rollout."""
    gae_lambda: float = choice(0.8, least=0)
    """Weight of later steps in the estimate of an action's advantage."""
    clip: float = choice(0.2, above=0)
    """How far the probability of an action may change in an update, as a share."""
    target_kl: float | None = choice(None, above=0)
    """Divergence from the old policy at which an update ends early; none by default."""
    entropy: float = choice(0.0, least=0)
    """Weight of the policy's entropy in the loss."""

    def __post_init__(self) -> None:
        """Refuse numbers with which nothing can be learned; ChoiceError names each."""
        check(self)

    @property
    def base_policy(self) -> Ranking:
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
