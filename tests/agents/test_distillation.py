"""Distillation: the teachers of each workload, and a student that recognises the workload by its observations."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from stable_baselines3.common.logger import configure

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.learn import learner_of
from gpu_cluster_gym.agents.steer import SteerLearner
from gpu_cluster_gym.agents.training import SteerTraining
from gpu_cluster_gym.agents.warm_start import Distilled
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule
from gpu_cluster_gym.workloads import named
from tests.cases.crowd import crowded
from tests.cases.plain_vec_env import PlainVecEnv

OFFSETS = np.array([[0.5, -0.25], [0.5, -0.25], [-0.75, 0.0], [-0.75, 0.0]])
WEIGHTS = ("price", "harm")
FEW = SteerTraining(
    algorithm="distillation", weights=WEIGHTS, num_envs=5, windows=2, extra_workloads=("xonar_memory",)
)


class Sorts(PlainVecEnv):
    """Environments of two sorts, 1 or -1, which is observed together with noise; every other step ends a window."""

    def __init__(self) -> None:
        super().__init__(len(OFFSETS), Box(-8, 8, (2,), np.float32), Box(-1, 1, (2,), np.float32))
        self.acted: list[np.ndarray] = []
        self.rng, self._at = np.random.default_rng(0), 0

    def reset(self) -> np.ndarray:
        return self._seen()

    def step_async(self, actions: np.ndarray) -> None:
        self.acted.append(np.array(actions))

    def step_wait(self) -> Any:
        self._at += 1
        infos: list[dict[str, Any]] = [{} for _ in OFFSETS]
        return self._seen(), np.zeros(len(OFFSETS)), np.full(len(OFFSETS), self._at % 2 == 0), infos

    def _seen(self) -> np.ndarray:
        return np.column_stack([np.sign(OFFSETS[:, 0]), self.rng.normal(size=len(OFFSETS))]).astype(
            np.float32
        )


def distilled(tmp_path: Path, steps: int) -> tuple[Distilled, Sorts]:
    """Return a trained model, whose first 96 steps are distillation."""
    envs = Sorts()
    model = Distilled(
        "MlpPolicy", envs, n_steps=8, batch_size=32, use_sde=True, first=96, offsets=OFFSETS, seed=0
    )
    model.set_logger(configure(str(tmp_path), []))
    model.learn(steps)
    return model, envs


def test_it_recognises_the_workload_and_acts_as_its_teachers_half_of_the_time(tmp_path: Path) -> None:
    """By the observation; it visits the states that both lead to."""
    model, envs = distilled(tmp_path, 96)
    answers, _ = model.predict(envs.reset(), deterministic=True)
    assert answers == pytest.approx(OFFSETS, abs=0.1)
    like = np.mean([(each == OFFSETS.astype(np.float32)).all(1) for each in envs.acted])
    assert 0.3 < like < 0.7


def test_ppo_continues_with_its_own_choices(tmp_path: Path) -> None:
    model, envs = distilled(tmp_path, 160)
    assert not model.in_first
    later = np.array(envs.acted[-16:])
    assert not (later == OFFSETS.astype(np.float32)).all(2).any()


def test_each_environment_has_the_constants_of_its_workload_for_a_teacher() -> None:
    learner = learner_of(named("aiturbo_ps"), FEW)
    assert isinstance(learner, SteerLearner)
    found = learner.teacher_offsets()
    assert learner.shares == [3, 2]
    for rows, workload in ((found[:3], "aiturbo_ps"), (found[3:], "xonar_memory")):
        rule = replace(Rule(), **baselines.constants(workload).settings)
        assert rows == pytest.approx(np.tile(Offsets(Rule(), WEIGHTS).of_rule(rule), (len(rows), 1)))
    assert np.abs(found[0] - found[-1]).max() > 0.01


def test_where_no_constants_were_searched_the_rule_as_it_is_teaches(tmp_path: Path) -> None:
    learner = learner_of(crowded(tmp_path), FEW)
    assert isinstance(learner, SteerLearner)
    assert not learner.teacher_offsets()[:3].any()


def test_without_any_teacher_it_is_refused(tmp_path: Path) -> None:
    learner = learner_of(crowded(tmp_path), replace(FEW, extra_workloads=()))
    with pytest.raises(
        ValueError, match="--algorithm distillation requires constants, but none exist for any"
    ):
        learner.model()
