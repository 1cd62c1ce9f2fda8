"""Initialisation from an agent: steering agents take its network, agents of moves its constant-action policy."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.checkpoint import Agent, policy_of
from gpu_cluster_gym.agents.initialization import constant_policy
from gpu_cluster_gym.agents.learn import learn, learner_of
from gpu_cluster_gym.agents.moves import MovesLearner
from gpu_cluster_gym.agents.networks import SteerNetwork
from gpu_cluster_gym.agents.pretrained import SHIPPED
from gpu_cluster_gym.agents.steer import SteerLearner
from gpu_cluster_gym.agents.training import MovesTraining, SteerTraining
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.workloads import Scenario, named, windows

FEW = SteerTraining(windows=2, num_envs=2, validation_windows=2, n_steps=4, batch_size=8, total_timesteps=8)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return replace(named("mixed"), jobs=40)


@pytest.fixture(scope="module")
def earlier(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an agent with another base, fewer weights and other answers than an untrained one."""
    folder = tmp_path_factory.mktemp("earlier")
    training = replace(FEW, weights=("price", "harm", "growth"), hidden=5, decisions_per_window=3)
    network = SteerNetwork(3, 5)
    torch.manual_seed(0)
    with torch.no_grad():
        network.offsets.weight.normal_(std=0.3)
    noted = {"offset_price": 0.5, "offset_harm": -0.5, "offset_growth": 0.25}
    agent = Agent(network, training, scenario, Rule(caution=2.0))
    checkpoint.save(folder, agent, about={"validation": noted})
    return folder


def initialised_from(folder: Path, training: Any = FEW) -> Any:
    return replace(training, init_from=str(folder))


def test_a_steering_agent_starts_as_the_other(scenario: Scenario, earlier: Path) -> None:
    """Its weights, width, decisions and actions are those of the agent, not the defaults."""
    agent: Any = checkpoint.load(earlier)
    learner = learner_of(scenario, initialised_from(earlier))
    assert isinstance(learner, SteerLearner)
    network = learner.network(learner.model())
    assert isinstance(agent.training, SteerTraining)
    assert learner.training.weights == agent.training.weights == ("price", "harm", "growth")
    loads = np.random.default_rng(0).random((5, len(LOAD))).astype(np.float32)
    offsets = [network.choose(load).tolist() for load in loads]
    assert offsets == [agent.network.choose(load).tolist() for load in loads]
    load = windows(scenario, "train", 1)[0]
    initialised = policy_of(Agent(network, learner.training, learner.scenario, learner.initial.rule))
    ends = [
        run(each, load.episode()).state.finish_s[:40].tolist() for each in (initialised, policy_of(agent))
    ]
    assert ends[0] == ends[1] != run(Rule(), load.episode()).state.finish_s[:40].tolist()
    assert learner.start == Rule()


def test_it_is_trained_further(scenario: Scenario, earlier: Path, tmp_path: Path) -> None:
    learn(
        scenario,
        initialised_from(earlier, replace(FEW, total_timesteps=24, learning_rate=0.1, validate_every=8)),
        tmp_path,
    )
    last = max((tmp_path / "checkpoints").iterdir(), key=lambda each: checkpoint.about(each)["step"])
    before, after = (checkpoint.load(folder).network.state_dict() for folder in (earlier, last))
    assert before.keys() == after.keys()
    moved = {name: float((after[name] - before[name]).abs().max()) for name in before}
    assert all(0 < each < 1 for each in moved.values()), moved


def test_a_pretrained_agent_may_be_trained_further(scenario: Scenario) -> None:
    learner = learner_of(scenario, initialised_from(SHIPPED / "busy"))
    shipped = checkpoint.load(SHIPPED / "busy")
    assert learner.training.hidden == shipped.training.hidden
    assert learner.initial.rule == shipped.start


def test_moves_start_as_the_constant_action_policy(scenario: Scenario, earlier: Path) -> None:
    few = MovesTraining(windows=1, num_envs=1, validation_windows=1, futures=1)
    learner = learner_of(scenario, initialised_from(earlier, few))
    assert isinstance(learner, MovesLearner)
    average = constant_policy(checkpoint.load(earlier), checkpoint.about(earlier)["validation"])
    assert learner.initial.rule == average
    assert average.price != Rule().price
    assert average.caution == 2.0
    played = policy_of(Agent(learner.network(learner.model()), few, scenario, learner.initial.rule))
    load = windows(scenario, "train", 1)[0]
    ends = [run(each, load.episode()).state.finish_s[:40].tolist() for each in (played, average)]
    assert ends[0] == ends[1]


def test_invalid_options_are_refused(scenario: Scenario, earlier: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="--init-from nowhere: expected union, constants, or the folder of a steering agent"
    ):
        learner_of(scenario, replace(FEW, init_from="nowhere"))
    with pytest.raises(ValueError, match="--weights must be those of the agent, price harm growth"):
        learner_of(scenario, initialised_from(earlier, replace(FEW, weights=("harm",))))
    with pytest.raises(ValueError, match="--normalize requires an untrained agent"):
        learner_of(scenario, initialised_from(earlier, replace(FEW, normalize=True)))
    learner = learner_of(scenario, MovesTraining(windows=1, num_envs=1))
    checkpoint.save(tmp_path, Agent(learner.network(learner.model()), learner.training, scenario))
    with pytest.raises(ValueError, match="expected a steering agent, not one with action moves"):
        learner_of(scenario, initialised_from(tmp_path))
