"""Learn: masked PPO of one scoring network on windows of a trace, beginning as a heuristic."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.logger import configure

from agents.callbacks import BEST, Curves, Ticker, Validated, Validator
from agents.ppo import SlotPolicy, TimedBuffer, TimedPPO
from agents.saved_agent import Agent, new_network
from agents.training import Training
from agents.validation import Validation
from agents.vec_env import ClusterVecEnv
from envs.vector import GPUClusterVectorEnv
from traces import stream
from workloads import Scenario


def learn(
    scenario: Scenario,
    training: Training,
    out: Path,
    *,
    stepped: Callable[[int], None] = lambda steps: None,
    validated: Callable[[Validated], None] = lambda validation: None,
) -> Path:
    """Train an agent and return the folder of the best one, by its greedy play on the validation windows.

    out: the run's folder: curves for TensorBoard, `validation.csv`, the last checkpoints and the best agent.
    stepped, validated: told how many steps were taken, and of each validation.
    ValueError if the trace has not as many windows as the training asks for.
    """
    torch.set_num_threads(1)  # the network is small: more threads only wait for one another
    training = replace(training, learning_seed=seed_of(scenario, training))
    validation = Validation(scenario, training)
    model = new_model(scenario, training)
    model.set_logger(configure(str(out), ["tensorboard"]))
    validator = Validator(validation, Agent(new_network(training), training, scenario), out, validated)
    model.learn(training.steps, CallbackList([Curves(), Ticker(stepped), validator]))
    model.logger.close()
    return out / BEST


def seed_of(scenario: Scenario, training: Training) -> int:
    """Return the seed of whatever is random in learning."""
    return scenario.seed if training.learning_seed is None else training.learning_seed


def new_model(scenario: Scenario, training: Training) -> TimedPPO:
    """Return the algorithm with its environments, nothing learned yet."""
    choices = training.environment() | {"reward": training.reward, "count": training.windows}
    envs = GPUClusterVectorEnv(training.environments, asdict(scenario), autoreset="Disabled", **choices)
    return TimedPPO(
        SlotPolicy,
        ClusterVecEnv(envs),
        learning_rate=lambda left: training.learning_rate * max(left, 0.0),  # the last rollout runs over
        n_steps=training.rollout,
        batch_size=min(training.batch, training.rollout * training.environments),
        n_epochs=training.epochs,
        gamma=1.0,  # time is discounted by the buffer
        gae_lambda=training.gae_lambda,
        clip_range=training.clip,
        target_kl=training.target_kl,
        ent_coef=training.entropy,
        rollout_buffer_class=TimedBuffer,
        rollout_buffer_kwargs={"tau_s": training.tau_s},
        policy_kwargs={
            "slots": training.queue_slots,
            "hidden": training.hidden,
            "base_scale": training.base_scale,
        },
        seed=int(stream(seed_of(scenario, training), "learning").integers(2**31)),
        device="cpu",
    )
