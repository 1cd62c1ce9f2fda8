"""Every choice about how to learn."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from gpu_cluster_gym.simulator.choice import changed, check, choice
from gpu_cluster_gym.simulator.policy import BASE_POLICY, Ranking
from gpu_cluster_gym.traces import did_you_mean
from gpu_cluster_gym.workloads import names

UNION, CONSTANTS = "union", "constants"  # where learning may begin, or at an agent
Action = Literal["steer", "moves", "plain"]
Algorithm = Literal["ppo", "evolution", "distillation", "student"]
MOVE_KINDS = ("wait", "start", "displace", "move", "pause", "wait_a_minute")
"""Kinds of moves that are listed while cores and throttles follow by the rule: the first of the kernel's `KINDS`."""


def workloads_expected(named: tuple[str, ...]) -> str | None:
    """Return which workloads are expected where others are named, else None."""
    wrong = sorted(set(named) - set(names()))
    return f"{', '.join(names())}{''.join(did_you_mean(each, names()) for each in wrong)}" if wrong else None


def kinds_expected(named: tuple[str, ...]) -> str | None:
    """Return which kinds of moves are expected where others are named, else None."""
    return None if set(named) <= set(MOVE_KINDS) else ", ".join(MOVE_KINDS)


@dataclass(frozen=True)
class Training:
    """How to learn: PPO on windows of a trace, beginning as a policy made by hand that it may improve upon."""

    action: Action = "steer"
    """What the agent does: steer the rule over moves by its weights, with all levers, beginning as `union`; choose each
    of its moves; or pick the job to start, beginning as the threshold heuristic. It also sets the defaults of
    the choices below."""
    algorithm: Algorithm = "ppo"
    """ppo; of what steers evolution: whole windows are played by pairs of networks whose weights differ; or
    distillation: one network is taught the constants that were searched for each workload, by what it sees; of moves
    student: the network learns what each move wins in imagined futures."""
    steps: int = choice(81_920, least=1)
    """Decisions to learn from, rounded up to whole rollouts."""
    windows: int = choice(200, least=1)
    """Windows to learn on; as many as the trace has, if those are fewer."""
    validation_windows: int = choice(40, least=1)
    """Windows on which the best agent is chosen, and before it constants that were searched, or a student's margin."""
    validate_every: int = choice(3_072, least=1)
    """Steps between validations, each of which also writes a checkpoint."""
    learning_seed: int | None = choice(None, least=0)
    """Decides first weights, sampled actions and batches; the scenario's seed, if not given."""
    hidden: int = choice(16, least=1)
    """Width of the actor's layers."""
    learning_rate: float = choice(5e-4, above=0)
    """Of Adam, at the start; it falls linearly to 0 at the end of the steps."""
    environments: int = choice(64, least=1)
    """Episodes played side by side."""
    rollout_steps: int = choice(12, least=1)
    """Steps of each of them between updates."""
    batch: int = choice(384, least=1)
    """Steps in a gradient step."""
    epochs: int = choice(5, least=1)
    """Passes over a rollout."""
    gae_lambda: float = choice(0.95, least=0)
    """Weight of later steps in the estimate of an action's advantage."""
    clip: float = choice(0.3, above=0)
    """How far the probability of an action may change in an update, as a share."""
    target_kl: float | None = choice(None, above=0)
    """Divergence from the old policy at which an update ends early; none by default."""
    entropy: float = choice(0.0, least=0)
    """Weight of the policy's entropy in the loss."""
    weights: tuple[str, ...] = ()
    """steer: weights of the rule that are moved, the usual ones if none is named; `Rule` tells what each does."""
    decisions: int = choice(12, least=1)
    """steer: decisions a window, at like shares of its arrivals."""
    begin: str = UNION
    """steer, moves: the rule whose weights are moved or whose choices are changed: `union`; that with the constants
    that a search found for the workload (`--policy constants`); or the folder of an agent that steers: what steers goes
    on from its network, what chooses moves begins at what it does on average. It is compared with `union` in any case.
    An agent's own `weights`, `hidden` and `decisions` hold for what goes on from it.
    """
    normalize: bool = False
    """steer: show the network each number by its mean and deviation so far, and pay by the deviation of a workload's
    returns so far: for loads or gains that lie far apart."""
    also: tuple[str, ...] = choice((), expected=workloads_expected)
    """steer: named workloads to learn on besides the scenario's own, each with as many environments; there the agent
    decides after as many arrivals."""
    vary: bool = False
    """steer: learn on the windows of each workload under shifts too (load, bunched arrivals, run times, prices of
    pauses, worse estimates, the other form of contention), each with as many environments; chosen is what is best on
    all."""
    discount: float = choice(0.97, least=0, most=1)
    """steer, moves: how much the next step counts, over this one."""
    exploration: float = choice(0.07, above=0)
    """steer: size of the noise of actions at first, for each hidden unit; gSDE holds it for a rollout."""
    search: float = choice(0.75, least=0, most=1)
    """steer, by ppo, begun at a rule: share of the steps in which CMA-ES searches constants for the weights; PPO goes
    on from those that did best in a validation. 0: PPO from the first step. By distillation: share of the steps in
    which the network is taught, before PPO."""
    sigma: float = choice(0.5, above=0)
    """search: deviation of the first constants that are tried, in units of the weights' scales."""
    deviation: float = choice(0.1, above=0)
    """evolution: of the weights of the networks that are tried."""
    step_size: float = choice(0.03, above=0)
    """evolution: of Adam, in the place of the learning rate."""
    reward: Literal["rollout_advantage", "jct"] = "rollout_advantage"
    """plain, moves: by how much an action beats the base policy's own, of moves in imagined futures; or minus the time
    that jobs spend in the system, of moves over that of the rule's own run."""
    futures: int = choice(2, least=1)
    """moves: imagined futures in which a move is tried."""
    tau_s: float | None = choice(4 * 3600.0, above=0)
    """plain, moves: time constant by which what comes later counts less, s: of rollouts; of plain that of PPO too."""
    exponent: float = BASE_POLICY.exponent
    """plain: of a job's GPUs in the base policy's order; see baselines.xion_threshold."""
    margin: float = choice(BASE_POLICY.margin, least=0)
    """plain: overheads by which a preemption must pay under the base policy."""
    base_scale: float = choice(0.4, least=0)
    """plain, moves: how strongly the base policy's choice is preferred before anything is learned; 0 begins from
    nothing."""
    instead: tuple[str, ...] = choice(("start", "displace", "move"), expected=kinds_expected)
    """moves: kinds of moves that may be made in the place of the rule's own. A wait or a pause is not among them:
    imagined, it wins by what the rule does next, and then the agent makes another choice there."""
    queue_slots: int = choice(16, least=1)
    """plain: queued jobs that the agent sees and may start, the first in the base policy's order."""

    def __post_init__(self) -> None:
        """Refuse numbers with which nothing can be learned; ChoiceError names each."""
        check(self)

    @property
    def evolves(self) -> bool:
        """Whether networks are tried in pairs, in the place of PPO."""
        return self.algorithm == "evolution"

    @property
    def first_phase(self) -> int:
        """Decisions in which constants are searched, or taught, before PPO learns."""
        anew = self.begin in (UNION, CONSTANTS) and self.algorithm in ("ppo", "distillation")
        return round(self.search * self.steps) if self.action == "steer" and anew else 0

    @property
    def base_policy(self) -> Ranking:
        """The heuristic from which learning to pick begins."""
        return Ranking("weighted", "cost_aware", exponent=self.exponent, margin=self.margin)

    @property
    def rollout(self) -> int:
        """Steps of each environment between updates; fewer than `rollout_steps` where all steps are fewer."""
        return max(2, min(self.rollout_steps, -(-self.steps // self.environments)))

    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environment under which the agent sees and acts."""
        if self.action == "steer":
            return {"action": "steer", "weights": self.weights, "decisions_per_window": self.decisions}
        if self.action == "moves":
            return {"action": "moves"}
        return {
            "observation": "slots",
            "action": "plain",
            "queue_slots": self.queue_slots,
            "running_slots": 0,
            "exponent": self.exponent,
            "margin": self.margin,
            "tau_s": self.tau_s,
        }


STEER = Training()
PICK = replace(
    STEER,
    action="plain",
    steps=140_000,
    validation_windows=20,
    validate_every=20_000,
    hidden=32,
    learning_rate=2.5e-3,
    environments=32,
    rollout_steps=256,
    batch=2048,
    epochs=6,
    gae_lambda=0.8,
    clip=0.2,
)
MOVES = replace(
    STEER,
    action="moves",
    algorithm="student",
    steps=262_144,
    validate_every=32_768,
    hidden=64,
    learning_rate=2e-3,
    rollout_steps=256,
    batch=512,
    epochs=20,
    discount=0.0,
    tau_s=3600.0,
    base_scale=4.0,
)
USUAL = {"steer": STEER, "plain": PICK, "moves": MOVES}


def usual(action: str) -> Training:
    """Return the choices that are usual for what an agent does; ValueError for what is no action."""
    return USUAL[action] if action in USUAL else changed(STEER, {"action": action})
