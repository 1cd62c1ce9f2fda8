"""Curves go to an installed tracker; a missing one is an error of one sentence.

The trackers are fakes with the signatures of wandb 0.31 and mlflow 3.17; the calls were tried with both.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.agents.callbacks import Tracker
from gpu_cluster_gym.agents.learn import learn
from gpu_cluster_gym.train_agent import main
from tests.cases.crowd import TINY, crowded

FEW = replace(TINY, total_timesteps=32, num_envs=4, n_steps=4, batch_size=16, validate_every=16)
STEPS = [0, 16, 32]  # of validations


class Fake:
    """A tracker: whether a run is open, and its records by step."""

    def __init__(self) -> None:
        self.open = False
        self.opened: list[str] = []
        self.choices: dict[str, Any] = {}
        self.numbers: list[tuple[int, dict[str, float]]] = []
        self.images: list[tuple[int, str, tuple[int, ...]]] = []

    @contextmanager
    def run(self, name: str) -> Iterator["Fake"]:
        self.opened.append(name)
        self.open = True
        yield self
        self.open = False

    def note_numbers(self, numbers: dict[str, float], step: int) -> None:
        assert self.open
        assert all(type(value) is float for value in numbers.values())
        self.numbers.append((step, numbers))

    def note_image(self, image: np.ndarray, name: str, step: int) -> None:
        assert self.open
        assert image.dtype == np.uint8
        self.images.append((step, name, image.shape))


class FakeError(Exception):
    """The error of a tracker."""


def wandb(fake: Fake) -> dict[str, Any]:
    class Shown:
        def __init__(self, data_or_path: np.ndarray) -> None:
            self.image = data_or_path

    def log(data: dict[str, Any], step: int | None = None) -> None:
        for name, value in data.items():
            if isinstance(value, Shown):
                fake.note_image(value.image, name, int(step or 0))
        fake.note_numbers(
            {name: it for name, it in data.items() if not isinstance(it, Shown)}, int(step or 0)
        )

    def init(*, project: str, name: str, dir: str, config: dict[str, Any], mode: str) -> Any:
        assert (project, mode) == ("gpu-cluster-gym", "offline")
        assert Path(dir).name == name
        fake.choices = config
        fake.log = log  # type: ignore[attr-defined]
        return fake.run(name)

    return {"init": init, "Image": Shown, "Error": FakeError}


def mlflow(fake: Fake) -> dict[str, Any]:
    def log_params(params: dict[str, Any]) -> None:
        assert fake.open
        assert len(params) <= 100
        for name, value in params.items():
            group, _, key = name.partition(".")
            fake.choices.setdefault(group, {})[key] = value

    def log_metrics(metrics: dict[str, float], step: int | None = None) -> None:
        fake.note_numbers(metrics, int(step or 0))

    def log_image(image: np.ndarray, *, key: str, step: int) -> None:
        fake.note_image(image, key, step)

    def start_run(run_name: str) -> Any:
        return fake.run(run_name)

    def set_experiment(experiment_name: str) -> None:
        assert experiment_name == "gpu-cluster-gym"

    made = (log_params, log_metrics, log_image, start_run, set_experiment)
    return {each.__name__: each for each in made} | {"MlflowException": FakeError}


MADE: dict[Tracker, Any] = {"wandb": wandb, "mlflow": mlflow}


@pytest.fixture(params=MADE)
def tracker(request: pytest.FixtureRequest) -> Tracker:
    found: Tracker = request.param
    return found


def stand_in(tracker: Tracker, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Replace a tracker by a fake."""
    module = ModuleType(tracker)
    vars(module).update(MADE[tracker](fake := Fake()), fake=fake)
    monkeypatch.setitem(sys.modules, tracker, module)
    return module


def test_the_tracker_gets_the_values_of_tensorboard(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = stand_in(tracker, monkeypatch).fake
    monkeypatch.delenv("WANDB_MODE", raising=False)
    learn(crowded(tmp_path), FEW, tmp_path / "mine", track=tracker)
    assert (fake.opened, fake.open) == (["mine"], False)
    assert set(fake.choices) == {"training", "scenario"}
    assert fake.choices["training"]["total_timesteps"] == 32
    agent = [(step, numbers["jct/agent"]) for step, numbers in fake.numbers if "jct/agent" in numbers]
    curve = pd.read_csv(tmp_path / "mine" / "validation.csv")
    assert agent == list(zip(curve["step"], curve["sampled_ratio_to_start"], strict=True))
    assert {"train/loss", "rollout/mean_reward", "jct/fifo"} <= {
        name for _, each in fake.numbers for name in each
    }
    assert [(step, name) for step, name, _ in fake.images] == [(step, "gantt") for step in STEPS]
    assert all(shape[2] == 3 for _, _, shape in fake.images)


def test_a_run_that_cannot_be_opened_is_one_sentence(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = stand_in(tracker, monkeypatch)

    def refuse(*args: object, **keywords: object) -> None:
        raise FakeError("no such server")

    monkeypatch.setattr(module, "init" if tracker == "wandb" else "set_experiment", refuse)
    with pytest.raises(ValueError, match=f"--track {tracker}: no such server"):
        learn(crowded(tmp_path), FEW, tmp_path / "mine", track=tracker)


def test_a_missing_tracker_is_named_with_its_extra(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of its name, which a tracker leaves where it ran, is not mistaken for it."""
    (tmp_path / tracker).mkdir()
    without = [each for each in sys.path if not (Path(each) / tracker).is_dir()]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *without])
    monkeypatch.delitem(sys.modules, tracker, raising=False)
    assert main(["--track", tracker, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert (
        said == f"train_agent.py: --track {tracker} requires {tracker}, not installed here: "
        f'run pip install -e ".[{tracker}]" in the clone\n'
    )
    assert not (tmp_path / "run").exists()
