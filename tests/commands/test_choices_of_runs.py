"""Choices of a run folder, and flags that override them."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_cluster_gym.agents.training import MovesTraining, SteerTraining
from gpu_cluster_gym.evaluate import Evaluation
from gpu_cluster_gym.evaluation import run_folder
from gpu_cluster_gym.train_agent import Run, read_choices
from gpu_cluster_gym.workloads import named


def again(folder: Path, *flags: str) -> Run:
    """Return the choices of a run's folder with these flags."""
    return read_choices(["--config", str(folder), *flags])


def test_a_workload_flag_replaces_the_scenario_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The seed stays, other flags override, and naming the run's own workload changes nothing."""
    ran = Run(replace(named("philly"), seed=5), seeds=7)
    folder = run_folder.open_run_folder("test", ran, tmp_path / "out")
    found = again(folder, "--workload", "busy", "--jobs", "9")
    assert found.scenario == replace(named("busy"), seed=5, jobs=9)
    assert found.seeds == 7
    assert "--workload busy replaces the scenario of" in capsys.readouterr().err
    assert again(folder, "--workload", "philly").scenario == ran.scenario
    assert capsys.readouterr().err == ""


def test_an_action_flag_replaces_the_training_of_a_run(tmp_path: Path) -> None:
    ran = Run(
        training=SteerTraining(total_timesteps=48, learning_seed=3), scenario=named("busy"), test_windows=3
    )
    folder = run_folder.open_run_folder("test", ran, tmp_path / "out")
    found = again(folder, "--action", "moves", "--batch-size", "9")
    assert found.training == MovesTraining(learning_seed=3, batch_size=9)
    assert (found.scenario, found.test_windows) == (ran.scenario, 3)
    assert again(folder, "--action", "steer").training == ran.training


def test_only_the_scenario_is_read_from_a_run_of_evaluate(tmp_path: Path) -> None:
    scored = Evaluation(policy=("fifo",), scenario=named("busy"), windows=3)
    folder = run_folder.open_run_folder("test", scored, tmp_path / "scored")
    found = again(folder, "--seeds", "2")
    assert (found.scenario, found.seeds, found.test_windows) == (named("busy"), 2, Run().test_windows)
