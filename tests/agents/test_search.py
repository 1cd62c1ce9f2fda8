"""The search for constants before PPO: candidates, their windows, and the start of PPO."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.callbacks import Validated
from gpu_cluster_gym.agents.learn import learn, learner_of
from gpu_cluster_gym.agents.training import CONSTANTS, MovesTraining, PlainTraining, SteerTraining
from gpu_cluster_gym.agents.warm_start import STALLED, TOGETHER, SearchFirst, side_by_side
from gpu_cluster_gym.workloads import Scenario
from tests.cases.crowd import crowded
from tests.cases.plain_vec_env import PlainVecEnv

TARGET = np.array([0.4, -0.6])
STEPS = 3  # a window


class Bowl(PlainVecEnv):
    """Environments whose reward is minus the squared distance from `TARGET`, plus a much larger constant of the window.

    An action whose first component exceeds 0.8 has a huge reward, but its window never ends.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, Box(-8, 8, (3,), np.float32), Box(-1, 1, (2,), np.float32))
        self.windows, self.batch = tuple(range(10)), object()
        self.played: list[list[int]] = []
        self._at = 0

    def reset(self) -> np.ndarray:
        self._at = 0
        self.played.append([each.get("window", -1) for each in self._options])
        self._reset_options()
        return np.zeros((self.num_envs, 3), np.float32)

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        self._at += 1
        paid = 100.0 * np.array(self.played[-1]) - ((self._actions - TARGET) ** 2).sum(1)
        cut = self._actions[:, 0] > 0.8
        dones = np.full(self.num_envs, self._at == STEPS) | cut
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": bool(each)} for each in cut]
        return np.zeros((self.num_envs, 3), np.float32), np.where(cut, 1e6, paid), dones, infos


class Noted(BaseCallback):
    """Records biases and progress at each rollout, and keeps the best constants as a validation does."""

    def __init__(self) -> None:
        super().__init__()
        self.biases: list[np.ndarray] = []
        self.left: list[float] = []
        self.least = np.inf

    def _on_rollout_start(self) -> None:
        model: Any = self.model
        self.biases.append(model._biases().numpy().copy())
        self.left.append(model._current_progress_remaining)
        apart = float(((self.biases[-1] - TARGET) ** 2).sum())
        if apart < self.least:
            self.least = apart
            model.keep()

    def _on_step(self) -> bool:
        return True


def searched(generations: int, rollouts: int = 0, count: int = 8) -> tuple[SearchFirst, Noted, Bowl]:
    """Run a search of some generations of 16 candidates, and rollouts of PPO after it."""
    envs, noted, steps = Bowl(count), Noted(), 16 // TOGETHER * count * STEPS
    model = SearchFirst(
        "MlpPolicy",
        envs,
        first=generations * steps,
        sigma=0.5,
        n_steps=STEPS,
        batch_size=count * STEPS,
        seed=0,
    )
    with torch.no_grad():
        for each in model.policy.action_net.parameters():
            each.zero_()
    model._best[:] = 0
    model.set_logger(configure(None, []))
    model.learn(generations * steps + rollouts * count * STEPS, noted)
    return model, noted, envs


def test_the_mean_moves_to_where_returns_are_highest() -> None:
    """Windows differ by hundreds and candidates by less than one; windows that never end are a trap."""
    model, noted, _ = searched(30)
    assert model._biases().numpy() == pytest.approx(TARGET, abs=0.05)
    assert noted.biases[0].tolist() == [0.0, 0.0]
    assert model.num_timesteps == model.first


def test_every_candidate_of_a_generation_plays_the_same_windows() -> None:
    _, _, envs = searched(2)
    first, second = envs.played[1:5], envs.played[5:9]
    assert all(each == first[0] for each in first)
    assert all(each == second[0] for each in second)
    assert first[0] != second[0]
    assert first[0][:TOGETHER] == [first[0][0]] * TOGETHER
    assert first[0][TOGETHER:] == [first[0][TOGETHER]] * TOGETHER


@pytest.mark.parametrize(("count", "together"), [(1, 1), (3, 1), (6, 2), (12, 4)])
def test_any_number_of_environments_serves(count: int, together: int) -> None:
    """Every candidate plays the same windows."""
    model, _, envs = searched(1, count=count)
    assert side_by_side(envs) == together
    assert np.isfinite(model._returns).all()
    judged = envs.played[1:]
    assert len(judged) == 16 // together
    assert all(each == judged[0] for each in judged)
    assert all(len(set(judged[0][i : i + together])) == 1 for i in range(0, count, together))


@pytest.mark.parametrize(("environments", "together"), [(12, 2), (24, 4), (9, 1)])
def test_every_candidate_plays_as_often_on_each_workload(
    scenario: Scenario, environments: int, together: int
) -> None:
    """Two workloads share the environments evenly, whatever their numbers of windows."""
    learner: Any = learner_of(scenario, replace(FEW, num_envs=environments, extra_workloads=("xonar_mix",)))
    assert side_by_side(learner.environments()) == together


def test_a_window_that_never_ends_counts_as_the_worst() -> None:
    model, noted, envs = searched(1)
    numbers = [3] * envs.num_envs
    offsets = np.full((envs.num_envs, 2), 3.0)  # in scales: an action of 1
    returns = model._play(envs, model._init_callback(noted), numbers, offsets)
    assert returns is not None
    assert returns.tolist() == [STALLED] * envs.num_envs


def test_ppo_continues_from_the_best_constants() -> None:
    """PPO starts from the best validated mean, which is not the last one."""
    model, noted, _ = searched(6, rollouts=4)
    assert model._ppo_started
    means, initial, after = noted.biases[:7], noted.biases[7], noted.biases[8]
    best = int(np.argmin([((each - TARGET) ** 2).sum() for each in means]))
    assert best not in (0, 6)  # else this test proves nothing
    assert initial.tolist() == means[best].tolist()
    assert 0 < np.abs(after - initial).max() < 0.01


def test_the_learning_rate_falls_over_the_steps_of_ppo_alone() -> None:
    _, noted, _ = searched(3, rollouts=4)
    assert noted.left[1:5] == [1.0] * 4
    assert noted.left[5:] == pytest.approx([0.75, 0.5, 0.25])


FEW = SteerTraining(
    total_timesteps=400,
    search=0.5,
    windows=3,
    validation_windows=2,
    validate_every=80,
    num_envs=8,
    n_steps=4,
    batch_size=16,
    decisions_per_window=4,
)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return crowded(tmp_path_factory.mktemp("crowd"))


def test_an_agent_is_learned_and_kept(scenario: Scenario, tmp_path: Path) -> None:
    seen: list[Validated] = []
    learn(scenario, FEW, tmp_path, validated=seen.append)
    assert seen[0].own.ratio == pytest.approx(1.0)
    assert len({each.own.ratio for each in seen}) > 1


def test_a_search_alone_leaves_constants(scenario: Scenario, tmp_path: Path) -> None:
    """The last agent has the same actions for all observations, and other ones than the first agent."""
    seen: list[Validated] = []
    learn(scenario, replace(FEW, algorithm="search"), tmp_path, validated=seen.append)
    last = max((tmp_path / "checkpoints").iterdir())
    network: Any = checkpoint.load(last).network
    loads = torch.from_numpy(np.random.default_rng(0).normal(size=(5, len(network.reads))).astype(np.float32))
    with torch.no_grad():
        answers = network(loads).numpy()
    assert (answers == answers[0]).all()
    assert np.abs(answers).max() > 0
    spread = [value for name, value in seen[-1].own.metrics.items() if name.startswith("spread_")]
    assert spread
    assert max(spread) == 0


@pytest.mark.parametrize(
    "choices",
    [{"search": 0.0}, {"init_from": "runs/an-agent"}],
    ids=["no share", "a network that has learned"],
)
def test_steps_of_the_search(choices: dict[str, Any]) -> None:
    assert SteerTraining(**choices).first_phase == 0
    assert PlainTraining().first_phase == MovesTraining().first_phase == 0
    assert SteerTraining(init_from=CONSTANTS).first_phase == SteerTraining().first_phase == 61_440


def test_without_a_search_it_is_ppo_as_it_is(scenario: Scenario) -> None:
    assert not isinstance(learner_of(scenario, replace(FEW, search=0.0)).model(), SearchFirst)
    assert isinstance(learner_of(scenario, FEW).model(), SearchFirst)
