"""Training: PPO on windows of a trace, initialised as a heuristic policy; the best validated agent is kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from stable_baselines3.common.callbacks import CallbackList

from gpu_cluster_gym.agents.callbacks import (
    Curves,
    Ticker,
    Tracker,
    Validated,
    Validator,
    choices_of,
    logged,
    tracked,
)
from gpu_cluster_gym.agents.initialization import resolved
from gpu_cluster_gym.agents.moves import MovesLearner
from gpu_cluster_gym.agents.plain import PlainLearner
from gpu_cluster_gym.agents.ppo import Learner, scenarios_of, seed_of
from gpu_cluster_gym.agents.resumption import Resumption, finished, note_finished
from gpu_cluster_gym.agents.steer import SteerLearner
from gpu_cluster_gym.agents.training import SteerTraining, Training
from gpu_cluster_gym.agents.validation import Validation
from gpu_cluster_gym.envs.steer import usual_weights
from gpu_cluster_gym.evaluation.run_folder import BEST
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule
from gpu_cluster_gym.workloads import Scenario, named

LEARNERS: dict[str, type[Learner]] = {"steer": SteerLearner, "moves": MovesLearner, "plain": PlainLearner}


def learn(
    scenario: Scenario,
    training: Training,
    out: Path,
    *,
    threads: int = 1,
    track: Tracker | None = None,
    stepped: Callable[[int], None] = lambda steps: None,
    validated: Callable[[Validated], None] = lambda validation: None,
    resume: bool = False,
) -> Path:
    """Train an agent and return the folder of the best one, by its score on the validation windows.

    out: folder of the run, for curves (TensorBoard), `validation.csv`, the last checkpoints and the best agent.
    threads: processors; results do not depend on it.
    track: additional experiment tracker.
    stepped, validated: called with the number of steps taken, at first with those before the training was resumed,
    and after each validation.
    resume: continue the training in `out`, which was of the same choices, where it ended; see `resumption`.
    Raise ValueError for a trace with fewer windows than the training needs, and for a damaged state.
    """
    if resume and finished(out):
        return out / BEST
    torch.set_num_threads(1)  # the network is too small for more threads to pay off
    learner = learner_of(scenario, training, threads)
    with tracked(track, out, choices_of(learner)) as trackers:
        validation = Validation(learner)
        model = learner.model()
        resumption = Resumption(model, out, resume=resume)
        validator = Validator(learner, validation, out, validated, resumes=resumption.resumes)
        resumption.begin(validator)
        callbacks = [Curves(learner), Ticker(stepped), validator]
        with logged(out, trackers) as logger:
            model.set_logger(logger)
            model.learn(learner.training.total_timesteps, CallbackList(callbacks))
    note_finished(out)
    return out / BEST


def learner_of(scenario: Scenario, training: Training, threads: int = 1) -> Learner:
    """Return the learner of an action kind, with its seed and weights filled in; ValueError for invalid options."""
    training = replace(resolved(training), learning_seed=seed_of(scenario, training))
    if isinstance(training, SteerTraining):
        if training.domain_randomization and scenario.shift:
            raise ValueError(f"--domain-randomization requires a scenario without --shift {scenario.shift}")
        extra = training.extra_workloads
        for name in extra:
            if extra.count(name) > 1 or replace(named(name), seed=scenario.seed) == scenario:
                raise ValueError(
                    f"--extra-workloads {name}: it is a training workload already; name each workload once"
                )
        weights = training.weights or usual_weights(*scenarios_of(scenario, training).values())
        Offsets(Rule(), weights)  # ValueError for an unknown one
        training = replace(training, weights=weights)
    return LEARNERS[training.action](scenario, training, threads)
