"""Learn: PPO on windows of a trace, beginning as a policy made by hand; the best agent by validation is kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.logger import configure

from gpu_cluster_gym.agents.callbacks import Curves, Ticker, Validated, Validator
from gpu_cluster_gym.agents.charts import choices_of
from gpu_cluster_gym.agents.initialization import like_its_agent
from gpu_cluster_gym.agents.learner import Learner, scenarios_of, seed_of
from gpu_cluster_gym.agents.moves import MovesLearner
from gpu_cluster_gym.agents.pick import PickLearner
from gpu_cluster_gym.agents.steer import SteerLearner
from gpu_cluster_gym.agents.tracking import Tracker, tracked
from gpu_cluster_gym.agents.training import CONSTANTS, UNION, Action, Algorithm, Training
from gpu_cluster_gym.agents.validation import Validation
from gpu_cluster_gym.envs.steer import usual_weights
from gpu_cluster_gym.evaluation.run_folder import BEST
from gpu_cluster_gym.workloads import Scenario, named

LEARNERS: dict[Action, type[Learner]] = {"steer": SteerLearner, "moves": MovesLearner, "plain": PickLearner}

ALGORITHMS: dict[Action, tuple[Algorithm, ...]] = {
    "steer": ("ppo", "evolution", "distillation"),
    "moves": ("student", "ppo"),
    "plain": ("ppo",),
}


def learn(
    scenario: Scenario,
    training: Training,
    out: Path,
    *,
    threads: int = 1,
    track: Tracker | None = None,
    stepped: Callable[[int], None] = lambda steps: None,
    validated: Callable[[Validated], None] = lambda validation: None,
) -> Path:
    """Train an agent and return the folder of the best one, by its greedy play on the validation windows.

    out: the run's folder: curves for TensorBoard, `validation.csv`, the last checkpoints and the best agent.
    threads: how many processors share the work, on which nothing depends.
    track: where the curves go besides.
    stepped, validated: told how many steps were taken, and of each validation.
    ValueError if the trace has not as many windows as the training asks for.
    """
    torch.set_num_threads(1)  # the network is small: more threads only wait for one another
    learner = learner_of(scenario, training, threads)
    with tracked(track, out, choices_of(learner)) as writers:
        validation = Validation(learner)
        model = learner.model()
        logger = configure(str(out), ["tensorboard"])
        logger.output_formats += writers
        model.set_logger(logger)
        callbacks = [Curves(learner), Ticker(stepped), Validator(learner, validation, out, validated)]
        model.learn(learner.training.steps, CallbackList(callbacks))
        logger.close()
    return out / BEST


def learner_of(scenario: Scenario, training: Training, threads: int = 1) -> Learner:
    """Return what learns an action, with a seed of its own; ValueError where it is not learned on several workloads."""
    if training.also and training.action != "steer":
        raise ValueError(f"also {', '.join(training.also)}: {training.action} is learned on one workload")
    if training.algorithm not in ALGORITHMS[training.action]:
        known = " or ".join(ALGORITHMS[training.action])
        raise ValueError(f"algorithm {training.algorithm}: {training.action} is learned by {known}")
    if training.vary and training.action != "steer":
        raise ValueError(f"vary: {training.action} is learned on the scenario as it is")
    if training.begin != UNION and training.action == "plain":
        raise ValueError(f"begin {training.begin}: of what steers or chooses moves")
    if training.algorithm == "distillation" and training.begin not in (UNION, CONSTANTS):
        raise ValueError(f"begin {training.begin}: what distillation teaches begins at {UNION}")
    if training.begin == CONSTANTS and training.also:
        raise ValueError(f"begin {training.begin}: of what learns on one workload")
    if training.vary and scenario.shift:
        raise ValueError(f"vary: the scenario has a shift already, {scenario.shift}")
    if twice := [name for name in training.also if named_twice(name, scenario, training)]:
        raise ValueError(f"also {twice[0]}: it is learned on already; name each workload once")
    training = like_its_agent(training)
    weights = training.weights or usual_weights(*scenarios_of(scenario, training).values())
    weights = weights if training.action == "steer" else ()
    seeded = replace(training, learning_seed=seed_of(scenario, training), weights=weights)
    return LEARNERS[training.action](scenario, seeded, threads)


def named_twice(name: str, scenario: Scenario, training: Training) -> bool:
    """Tell whether a workload to learn on besides is named again, or is the scenario itself."""
    return training.also.count(name) > 1 or replace(named(name), seed=scenario.seed) == scenario
