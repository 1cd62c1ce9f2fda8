"""Evolution strategies: pairs of networks on the same windows, and the direction in which their returns differ."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.callbacks import Validated
from gpu_cluster_gym.agents.evolution import Evolution, acts, ascent, groups_of_windows, mirrored
from gpu_cluster_gym.agents.learn import learn, learner_of
from gpu_cluster_gym.agents.steer import SteerLearner
from gpu_cluster_gym.agents.training import PICK, STEER
from gpu_cluster_gym.workloads import Scenario
from tests.cases.crowd import crowded

FEW = replace(
    STEER,
    algorithm="evolution",
    steps=96,
    windows=3,
    validation_windows=2,
    validate_every=48,
    environments=5,
    rollout_steps=6,
    batch=15,
    decisions=4,
    step_size=0.5,
)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return crowded(tmp_path_factory.mktemp("crowd"))


def model_of(scenario: Scenario, **choices: Any) -> Evolution:
    model: Any = learner_of(scenario, replace(FEW, **choices)).model()
    assert isinstance(model, Evolution)
    return model


def test_the_direction_is_up_a_slope() -> None:
    """Where returns rise along one direction, and windows differ by far more, that direction is found."""
    rng = np.random.default_rng(0)
    slope, draws = np.array([3.0, 0.0, -1.0]), rng.standard_normal((4_000, 3))
    windows = np.repeat(rng.normal(0, 100, 4_000), 2)
    found = ascent(draws, windows + mirrored(draws, 8_000) @ slope)
    assert found / np.linalg.norm(found) == pytest.approx(slope / np.linalg.norm(slope), abs=0.05)


def test_one_window_does_not_decide_alone() -> None:
    draws = np.eye(4)
    returns = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1e6, -1e6])
    found = ascent(draws, returns)
    assert found[3] == pytest.approx(3.0 / 4)  # cut
    assert ascent(draws, np.zeros(8)).tolist() == [0.0] * 4
    assert ascent(draws, np.array([1.0])).tolist() == [0.0] * 4  # no pair


def test_mirror_images_stand_beside_each_other() -> None:
    draws = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert mirrored(draws, 3).tolist() == [[1.0, 2.0], [-1.0, -2.0], [3.0, 4.0]]


def test_a_network_answers_as_torch_does(scenario: Scenario) -> None:
    model = model_of(scenario)
    with torch.no_grad():
        for each in model.actor():
            each.copy_(torch.randn(each.shape, generator=torch.Generator().manual_seed(1)) / 4)
    size = sum(each.numel() for each in model.actor())
    seen = np.random.default_rng(0).normal(size=(2, model.observation_space.shape[0])).astype(np.float32)  # type: ignore[index]
    found = acts(model.perturbed(np.zeros((2, size))), seen)
    wanted = model.policy.get_distribution(torch.from_numpy(seen)).mode().detach().numpy()
    assert found == pytest.approx(wanted, abs=1e-5)
    moved = acts(model.perturbed(np.ones((2, size))), seen)
    assert np.abs(moved - wanted).min() > 0.01


def test_pairs_play_the_same_windows(scenario: Scenario) -> None:
    model = model_of(scenario)
    assert model.env is not None
    numbers = groups_of_windows(model.env, np.random.default_rng(1), 2)
    assert len(numbers) == 5
    assert numbers[0] == numbers[1]
    assert numbers[2] == numbers[3]
    assert len(set(numbers)) > 1


@pytest.mark.parametrize(("environments", "shares"), [(6, [4, 2]), (7, [4, 3]), (10, [6, 4])])
def test_no_pair_plays_on_two_workloads(scenario: Scenario, environments: int, shares: list[int]) -> None:
    """One that is left over, which is of no pair, stands last."""
    both: dict[str, Any] = {"environments": environments, "batch": 6 * environments, "also": ("xonar_mix",)}
    learner = learner_of(scenario, replace(FEW, **both))
    assert isinstance(learner, SteerLearner)
    assert learner.shares == shares
    model = model_of(scenario, **both)
    assert model.env is not None
    batches = model.env.get_attr("batch")
    assert all(batches[2 * pair] is batches[2 * pair + 1] for pair in range(environments // 2))


def test_each_workload_has_a_pair(scenario: Scenario) -> None:
    with pytest.raises(ValueError, match="environments 3: expected two a workload, 4, or more"):
        learner_of(scenario, replace(FEW, environments=3, batch=18, also=("xonar_mix",))).model()


def test_it_steps_towards_what_won(scenario: Scenario) -> None:
    """The draw of the winners of a pair is what the weights move along."""
    model = model_of(scenario, environments=2)
    before = [each.detach().clone() for each in model.actor()]
    size = sum(each.numel() for each in before)
    model._draws, model._returns = np.full((1, size), 1.0), np.array([2.0, 1.0])
    model._setup_learn(FEW.steps)
    model.train()
    for each, was in zip(model.actor(), before, strict=True):
        assert (each > was).all()


def test_an_agent_is_learned_and_kept(scenario: Scenario, tmp_path: Path) -> None:
    seen: list[Validated] = []
    best = learn(scenario, FEW, tmp_path / "first", validated=seen.append)
    assert seen[0].greedy.ratio == pytest.approx(1.0)
    assert seen[-1].greedy.ratio != seen[0].greedy.ratio
    assert checkpoint.load(best).training.algorithm == "evolution"
    again = learn(scenario, FEW, tmp_path / "again")
    for agent in (best, again):
        assert sorted(each.name for each in agent.iterdir()) == ["agent.json", "weights.safetensors"]
    assert (best / "weights.safetensors").read_bytes() == (again / "weights.safetensors").read_bytes()


def test_what_picks_is_learned_by_ppo(scenario: Scenario) -> None:
    with pytest.raises(ValueError, match="algorithm evolution: plain is learned by ppo"):
        learner_of(scenario, replace(PICK, algorithm="evolution"))
