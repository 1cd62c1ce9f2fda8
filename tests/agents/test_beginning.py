"""Learning goes on from an agent: what steers from its network, what chooses moves from what it does on average."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.initialization import held
from gpu_cluster_gym.agents.learn import learn, learner_of
from gpu_cluster_gym.agents.learned import policy_of
from gpu_cluster_gym.agents.moves import MovesLearner
from gpu_cluster_gym.agents.pretrained import SHIPPED
from gpu_cluster_gym.agents.steer import SteerLearner
from gpu_cluster_gym.agents.steer_network import SteerNetwork
from gpu_cluster_gym.agents.training import MOVES, PICK, STEER, Training
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.workloads import Scenario, named, windows

FEW = replace(STEER, windows=2, environments=2, validation_windows=2, rollout_steps=4, batch=8, steps=8)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return replace(named("mixed"), jobs=40)


@pytest.fixture(scope="module")
def earlier(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an agent with another base, fewer weights and other answers than one that begins."""
    folder = tmp_path_factory.mktemp("earlier")
    training = replace(FEW, weights=("price", "harm", "growth"), hidden=5, decisions=3)
    network = SteerNetwork(3, 5)
    torch.manual_seed(0)
    with torch.no_grad():
        network.offsets.weight.normal_(std=0.3)
    noted = {"offset_price": 0.5, "offset_harm": -0.5, "offset_growth": 0.25}
    agent = Agent(network, training, scenario, Rule(caution=2.0))
    checkpoint.save(folder, agent, about={"validation": noted})
    return folder


def beginning_at(folder: Path, training: Training = FEW) -> Training:
    return replace(training, begin=str(folder))


def test_what_steers_begins_as_the_agent(scenario: Scenario, earlier: Path) -> None:
    """Its weights, its width and how often it decides are the agent's, whatever is usual, and so is what it does."""
    agent = checkpoint.load(earlier)
    learner = learner_of(scenario, beginning_at(earlier))
    assert isinstance(learner, SteerLearner)
    network = learner.network(learner.model())
    assert learner.training.weights == agent.training.weights == ("price", "harm", "growth")
    loads = np.random.default_rng(0).random((5, len(LOAD))).astype(np.float32)
    offsets = [network.choose(load).tolist() for load in loads]
    assert offsets == [agent.network.choose(load).tolist() for load in loads]
    load = windows(scenario, "train", 1)[0]
    begun = policy_of(Agent(network, learner.training, learner.scenario, learner.begun.rule))
    ends = [run(each, load.episode()).state.finish_s[:40].tolist() for each in (begun, policy_of(agent))]
    assert ends[0] == ends[1] != run(Rule(), load.episode()).state.finish_s[:40].tolist()
    assert learner.start == Rule()


def test_it_goes_on_from_there(scenario: Scenario, earlier: Path, tmp_path: Path) -> None:
    learn(
        scenario, beginning_at(earlier, replace(FEW, steps=24, learning_rate=0.1, validate_every=8)), tmp_path
    )
    last = max((tmp_path / "checkpoints").iterdir(), key=lambda each: checkpoint.about(each)["step"])
    before, after = (checkpoint.load(folder).network.state_dict() for folder in (earlier, last))
    assert before.keys() == after.keys()
    moved = {name: float((after[name] - before[name]).abs().max()) for name in before}
    assert all(0 < each < 1 for each in moved.values()), moved


def test_an_agent_that_comes_with_the_project_may_go_on_elsewhere(scenario: Scenario) -> None:
    learner = learner_of(scenario, beginning_at(SHIPPED / "busy"))
    shipped = checkpoint.load(SHIPPED / "busy")
    assert learner.training.hidden == shipped.training.hidden
    assert learner.begun.rule == shipped.start


def test_moves_begin_at_what_the_agent_does_on_average(scenario: Scenario, earlier: Path) -> None:
    few = replace(MOVES, windows=1, environments=1, validation_windows=1, futures=1)
    learner = learner_of(scenario, beginning_at(earlier, few))
    assert isinstance(learner, MovesLearner)
    average = held(checkpoint.load(earlier), checkpoint.about(earlier)["validation"])
    assert learner.begun.rule == average
    assert average.price != Rule().price
    assert average.caution == 2.0
    played = policy_of(Agent(learner.network(learner.model()), few, scenario, learner.begun.rule))
    load = windows(scenario, "train", 1)[0]
    ends = [run(each, load.episode()).state.finish_s[:40].tolist() for each in (played, average)]
    assert ends[0] == ends[1]


def test_what_cannot_be_is_refused(scenario: Scenario, earlier: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="begin nowhere: expected union, constants, or the folder of an agent"
    ):
        learner_of(scenario, replace(FEW, begin="nowhere"))
    with pytest.raises(ValueError, match="of what steers or chooses moves"):
        learner_of(scenario, beginning_at(earlier, PICK))
    with pytest.raises(ValueError, match="it steers price"):
        learner_of(scenario, beginning_at(earlier, replace(FEW, weights=("harm",))))
    with pytest.raises(ValueError, match="normalize is for agents that begin anew"):
        learner_of(scenario, beginning_at(earlier, replace(FEW, normalize=True)))
    learner = learner_of(scenario, replace(MOVES, windows=1, environments=1))
    checkpoint.save(tmp_path, Agent(learner.network(learner.model()), learner.training, scenario))
    with pytest.raises(ValueError, match="expected an agent that steers, not one of action moves"):
        learner_of(scenario, beginning_at(tmp_path))
