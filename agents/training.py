"""Choices of training: a base class with the options of PPO, and one class for each action kind.

`SteerTraining`, `MovesTraining` and `PlainTraining` differ in their further options and in their defaults; `--action`
selects among them. Options that Stable-Baselines3 also has keep its names.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gpu_cluster_gym.simulator.choice import ChoiceError, Wrong, check, choice
from gpu_cluster_gym.traces import did_you_mean, modules, unknown
from gpu_cluster_gym.workloads import Scenario, names

OWN_CLUSTER = "own"
PRACTICE_DAYS = {"warm_days": 3.0, "counted_days": 3.0, "after_days": 6.0}
"""Days of a practice window, with a shorter warm-up and end than the standard ones."""
PRACTICE_JOBS = 4_096
"""Minimum capacity of the records of practice windows, in jobs: a quarter of the memory of standard ones, and the size
of records of `quick`, for which the simulator is compiled anyway."""
UNION, CONSTANTS = "union", "constants"  # values of `init_from`; others are folders
SRTF = "srtf"  # value of `--action plain` that begins with imitation
IMITATION_STEPS = 24_576
"""Steps of imitation, at most a quarter of all steps."""
SLOTS_IN_USE = 256
"""Minimum number of queue slots of a `plain` agent in use: with those of training, short jobs in the middle of a long
queue would be hidden; more slots in training cost time, and do not change what is learned."""
MOVE_KINDS = ("wait", "start", "displace", "move", "pause", "wait_a_minute")
"""Kinds of moves that are listed while cores and throttles follow the rule: the first of the kernel's `KINDS`."""


def workloads_expected(named: tuple[str, ...]) -> str | None:
    """Return the known workloads, with the nearest names, if any is unknown; else None."""
    wrong = sorted(set(named) - set(names()))
    return f"{', '.join(names())}{''.join(did_you_mean(each, names()) for each in wrong)}" if wrong else None


def kinds_expected(named: tuple[str, ...]) -> str | None:
    """Return the known kinds of moves if any is unknown; else None."""
    return None if set(named) <= set(MOVE_KINDS) else ", ".join(MOVE_KINDS)


def reward_expected(name: str) -> str | None:
    """Return the names of rewards if the given one is unknown; None for a known one, and for a function by its path."""
    if ":" in name or name in modules("envs.rewards"):
        return None
    known = modules("envs.rewards")
    return f"{', '.join(known)} or package.module:function{did_you_mean(name, known)}"


@dataclass(frozen=True)
class Training(ABC):
    """Options that all action kinds share: PPO on windows of a trace."""

    action: str = ""
    """steer: set the weights of the rule `union` a few times in each window. moves: choose each move from a list.
    plain: start a job, pause one, or wait, from random weights. The other training options, and their defaults, depend
    on it."""
    algorithm: str = "ppo"
    """Learning algorithm."""
    total_timesteps: int = choice(81_920, least=1)
    """Environment steps to train on, rounded up to whole rollouts."""
    windows: int = choice(200, least=1)
    """Number of training windows; fewer if the trace has fewer."""
    validation_windows: int = choice(40, least=1)
    """Number of validation windows, by which the checkpoint to keep is chosen; fewer if the trace has fewer."""
    validate_every: int = choice(3_072, least=1)
    """Steps between two validations, each of which also writes a checkpoint."""
    learning_seed: int | None = choice(None, least=0)
    """Seed of initial weights, sampled actions and batches; default: the scenario's seed."""
    hidden: int = choice(16, least=1)
    """Width of the hidden layers of the actor; with moves and plain, of the critic too."""
    learning_rate: float = choice(5e-4, above=0)
    """Initial learning rate of Adam; it decays linearly to 0."""
    num_envs: int = choice(64, least=1)
    """Parallel environments."""
    n_steps: int = choice(12, least=1)
    """Steps per environment and rollout."""
    batch_size: int = choice(384, least=1)
    """Minibatch size."""
    n_epochs: int = choice(5, least=1)
    """Passes over each rollout."""
    gae_lambda: float = choice(0.95, least=0)
    """Lambda of generalised advantage estimation."""
    clip_range: float = choice(0.3, above=0)
    """Clip range of PPO."""
    target_kl: float | None = choice(None, above=0)
    """KL divergence at which an update stops early; None: no limit."""
    ent_coef: float = choice(0.0, least=0)
    """Entropy coefficient of the loss."""

    def __post_init__(self) -> None:
        """Raise ChoiceError with every invalid option."""
        check(self)

    @property
    def first_phase(self) -> int:
        """Steps of the search or distillation before PPO."""
        return 0

    @property
    def rollout(self) -> int:
        """Steps per environment and rollout: `n_steps`, or fewer where `total_timesteps` are fewer."""
        return max(2, min(self.n_steps, -(-self.total_timesteps // self.num_envs)))

    @abstractmethod
    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environment that the agent observes and acts in."""


@dataclass(frozen=True)
class SteerTraining(Training):
    """Options of `--action steer`: the agent sets weights of the rule `union`."""

    action: Literal["steer"] = "steer"
    algorithm: Literal["ppo", "search", "distillation"] = "ppo"
    """ppo: a search for constants, then PPO. search: the search alone; the agent is constant. distillation: one network
    imitates the constants of each workload, then PPO."""
    weights: tuple[str, ...] = ()
    """Weights of the rule that the agent sets; default: sixteen of the 26, or eighteen if all workloads have a
    --run-time-predictor. See `RuleParameters` in simulator/kernel/union/weights.py for their names and meaning."""
    decisions_per_window: int = choice(12, least=1)
    """Decisions per window with a fixed number of jobs, after equal numbers of arrivals. A steady window has more or
    fewer, since its number of arrivals varies and it ends with its counted jobs."""
    init_from: str = UNION
    """Initial policy: `union`; `constants`, found by a search for the workload (`--policy constants`); or the folder of
    a steering agent, whose network, `weights`, `hidden` and `decisions_per_window` are used. Rewards and scores are
    relative to `union` in any case."""
    normalize: bool = False
    """Normalise observations, and rewards of each workload, by running statistics: useful where workloads differ in
    load or gain."""
    extra_workloads: tuple[str, ...] = choice((), expected=workloads_expected)
    """Additional workloads to train on. Each gets an equal share of the environments and the same number of arrivals
    between decisions."""
    domain_randomization: bool = False
    """Train and validate also under shifts of each workload: load, bunched arrivals, run times, pause times, worse
    estimates, and the other form of contention."""
    gamma: float = choice(0.97, least=0, most=1)
    """Discount factor."""
    exploration: float = choice(0.07, above=0)
    """Initial standard deviation of the action noise per hidden unit; gSDE keeps the noise fixed during a rollout."""
    search: float = choice(0.75, least=0, most=1)
    """Share of all steps that precede PPO. In them CMA-ES searches for constant weights, and PPO starts from the best
    validated ones; with distillation, the network is distilled instead. 0: PPO only. Unused with --algorithm search,
    and with the folder of an agent as --init-from."""
    sigma: float = choice(0.5, above=0)
    """Initial standard deviation of CMA-ES, in units of the weights' scales."""

    def __post_init__(self) -> None:
        """Raise ChoiceError with every invalid option, or for options that exclude each other."""
        super().__post_init__()
        if self.algorithm != "ppo" and self.init_from not in (UNION, CONSTANTS):
            expected = f"{UNION} or {CONSTANTS} with --algorithm {self.algorithm}"
            raise ChoiceError([Wrong("init_from", self.init_from, expected)])
        if self.init_from == CONSTANTS and self.extra_workloads:
            expected = "a single training workload (drop --extra-workloads)"
            raise ChoiceError([Wrong("init_from", self.init_from, expected)])

    @property
    def first_phase(self) -> int:
        """Steps of the search or distillation before PPO; 0 where an agent's network is trained further."""
        if self.algorithm == "search":
            return self.total_timesteps
        return round(self.search * self.total_timesteps) if self.init_from in (UNION, CONSTANTS) else 0

    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environment that the agent observes and acts in."""
        return {"action": "steer", "weights": self.weights, "decisions_per_window": self.decisions_per_window}


@dataclass(frozen=True)
class MovesTraining(Training):
    """Options of `--action moves`: the agent chooses each move from a list."""

    action: Literal["moves"] = "moves"
    algorithm: Literal["student", "ppo"] = "student"
    """student: supervised learning of the advantage of each move in simulated futures, as look-ahead estimates it. ppo:
    PPO instead."""
    total_timesteps: int = choice(262_144, least=1)
    validate_every: int = choice(32_768, least=1)
    hidden: int = choice(64, least=1)
    learning_rate: float = choice(2e-3, above=0)
    n_steps: int = choice(256, least=1)
    batch_size: int = choice(512, least=1)
    n_epochs: int = choice(20, least=1)
    init_from: str = UNION
    """Rule whose moves the agent changes: `union`; `constants`, found by a search for the workload (`--policy
    constants`); or the folder of a steering agent, which provides the rule with its mean weights. Scores are relative
    to `union` in any case."""
    gamma: float = choice(0.0, least=0, most=1)
    """Discount factor."""
    reward: Literal["rollout_advantage", "gain"] = "rollout_advantage"
    """Reward of PPO, as the environment names it. rollout_advantage: advantage of a move over the rule's own in
    simulated futures. gain: job-seconds saved relative to a run of `union`."""
    futures: int = choice(2, least=1)
    """Number of simulated futures per move."""
    tau_s: float | None = choice(3600.0, above=0)
    """Time constant of discounting in simulated futures, s; None: no discounting."""
    base_logit_scale: float = choice(4.0, least=0)
    """Initial logit of the rule's own move; 0 starts from a uniform policy."""
    allowed_moves: tuple[str, ...] = choice(("start", "displace", "move"), expected=kinds_expected)
    """Kinds of moves that may replace the rule's own, of wait, start, displace, move, pause and wait_a_minute. Waits
    and pauses are excluded by default: their simulated advantage assumes that the rule makes the next move, but the
    agent does."""

    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environment that the agent observes and acts in."""
        return {"action": "moves"}


@dataclass(frozen=True)
class PlainTraining(Training):
    """Options of `--action plain`: start a queued job, pause a running one, or wait; learned from random weights."""

    action: Literal["plain"] = "plain"
    algorithm: Literal["ppo"] = "ppo"
    init_from: Literal["random", "srtf"] = "random"
    """random: PPO from random weights. srtf: first imitate SRTF, from what the agent observes, for 24,576 steps,
    or a quarter of the steps if that is less."""
    total_timesteps: int = choice(400_000, least=1)
    windows: int = choice(64, least=1)
    validation_windows: int = choice(24, least=1)
    validate_every: int = choice(50_000, least=1)
    hidden: int = choice(32, least=1)
    learning_rate: float = choice(7e-4, above=0)
    num_envs: int = choice(64, least=1)
    n_steps: int = choice(32, least=1)
    batch_size: int = choice(1024, least=1)
    n_epochs: int = choice(4, least=1)
    gae_lambda: float = choice(0.8, least=0)
    clip_range: float = choice(0.2, above=0)
    target_kl: float | None = choice(0.02, above=0)
    reward: str = choice("balanced_regret", expected=reward_expected)
    """Reward: a module of envs/rewards, or a function of your own as package.module:function."""
    tau_s: float = choice(2 * 3600.0, above=0)
    """Time constant of the discount, s: costs that arise several time constants after an action hardly count."""
    critic_first: int = choice(8, least=0)
    """Number of first rollouts from which only the critic learns."""
    without_arrivals: bool = True
    """Exclude jobs that arrive during a step from its advantage: they cost the same whatever the action was."""
    queue_slots: int = choice(96, least=1)
    """Maximum number of queued jobs that the agent observes and may start in training; of a longer queue, the first and
    the last arrivals. After training, the agent observes at least 256."""
    running_slots: int = choice(48, least=0)
    """Maximum number of started jobs that the agent observes; it may pause those that run."""
    min_run_s: float = choice(1800.0, least=0)
    """Time that a job must run after a start before the agent may pause it, s. With lower values, agents learn to pause
    and restart jobs endlessly."""
    when_full: Literal["wait", "claim", "displace"] = "displace"
    """Effect of a start that does not fit. wait: it is illegal; claim: a job of several GPUs reserves those that are
    expected to be released first, and starts when the last of them is; displace: the agent next chooses running jobs to
    pause for it."""
    practice_cluster: str = "4x8"
    """Cluster for training, validation and test on steady windows, in place of --cluster. They also have 3, 3 and 6
    days, in place of --warm-days, --counted-days and --after-days: small windows are simulated quickly, and the agent
    can be used on any cluster. own: the scenario's cluster and days."""

    @property
    def first_phase(self) -> int:
        """Steps of the imitation before PPO."""
        return min(IMITATION_STEPS, self.total_timesteps // 4) if self.init_from == SRTF else 0

    @property
    def steps_of_actor(self) -> int:
        """Steps of PPO from which the actor learns too: all but those of the first rollouts; none where negative."""
        return self.total_timesteps - self.first_phase - self.critic_first * self.rollout * self.num_envs

    def practice(self, scenario: Scenario) -> Scenario:
        """Return the scenario to train and test on: of a steady one, shorter windows on the practice cluster."""
        if scenario.steady_load is None or self.practice_cluster == OWN_CLUSTER:
            return scenario
        practice = {"cluster": self.practice_cluster, "jobs": PRACTICE_JOBS, **PRACTICE_DAYS}
        return replace(scenario, **practice)  # type: ignore[arg-type]

    def in_use(self) -> "PlainTraining":
        """Return the options with which the agent acts after training: more queue slots, which share weights."""
        return replace(self, queue_slots=max(self.queue_slots, SLOTS_IN_USE))

    def acting(self) -> dict[str, Any]:
        """Return the keywords of the environment that define observations and actions."""
        return {
            "observation": "sets",
            "victims_by": "agent",
            "queue_slots": self.queue_slots,
            "running_slots": self.running_slots,
            "queue_order": "arrival",
            "min_run_s": self.min_run_s,
            "when_full": self.when_full,
            "margin": np.inf,  # the reference policy is FIFO
        }

    def environment(self) -> dict[str, Any]:
        """Return the keywords of the environment that the agent observes and acts in."""
        return {"action": "plain", **self.acting()}


KINDS: Mapping[str, type[Training]] = {"steer": SteerTraining, "moves": MovesTraining, "plain": PlainTraining}
"""The options of each action kind."""


def usual(action: str) -> Training:
    """Return the default options of an action kind; ValueError for an unknown one."""
    if action not in KINDS:
        raise ValueError(unknown("action", action, KINDS))
    return KINDS[action]()
