"""A training run that ended at any moment is resumed, to the weights and curves of one that was never interrupted."""

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.trust import points
from gpu_cluster_gym.agents import integrity, resumption, steer, warm_start
from gpu_cluster_gym.agents.learn import learn
from gpu_cluster_gym.agents.training import MovesTraining, SteerTraining, Training
from gpu_cluster_gym.evaluation.run_folder import RESUMABLE
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.workloads import Scenario
from tests.cases.crowd import TINY, crowded

FEW = SteerTraining(
    total_timesteps=400,
    windows=4,
    validation_windows=2,
    validate_every=150,
    num_envs=4,
    n_steps=3,
    batch_size=6,
    decisions_per_window=4,
    hidden=4,
    search=0.5,
)
"""Three generations, then rollouts that end in the middle of windows."""
PLAIN = replace(TINY, total_timesteps=384, validate_every=100, n_steps=16, critic_first=2)
"""Six rollouts, the first two of which teach the critic alone; they end in the middle of windows."""
STUDENT = MovesTraining(
    total_timesteps=192,
    windows=4,
    validation_windows=2,
    validate_every=100,
    num_envs=4,
    n_steps=8,
    batch_size=16,
    n_epochs=2,
    hidden=4,
)
"""Six rollouts that end in the middle of windows."""
KINDS: dict[str, Training] = {
    "search, then PPO": FEW,
    "PPO": replace(FEW, search=0.0, total_timesteps=96),
    "distillation, then PPO": replace(FEW, algorithm="distillation"),
    "normalised": replace(FEW, normalize=True),
    "normalised, several workloads": replace(
        FEW, normalize=True, domain_randomization=True, num_envs=9, n_steps=2, total_timesteps=500, search=0.8
    ),
    "student": STUDENT,
    "PPO on moves": replace(STUDENT, algorithm="ppo", reward="gain"),
    "plain": PLAIN,
    "imitation, then PPO": replace(PLAIN, init_from="srtf"),
    "plain, one environment": replace(PLAIN, num_envs=1, total_timesteps=48),
}
OFTEN = {"search, then PPO": 0.7, "distillation, then PPO": 0.3, "normalised, several workloads": 0.7} | {
    "student": 0.3,
    "plain": 0.7,
    "imitation, then PPO": 0.3,
}
"""Kinds in which all others are contained, and when each is ended; the rest is tried nightly."""
CASES = [
    pytest.param(kind, share, marks=() if OFTEN.get(kind) == share else pytest.mark.slow)
    for kind in KINDS
    for share in (0.3, 0.7)
]
Whole = Callable[[str], Path]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save a state before each rollout."""
    monkeypatch.setattr(resumption, "SHARE", 1.0)


@pytest.fixture(scope="module", autouse=True)
def constants() -> Iterator[None]:
    """Let constants exist for the scenario, which distillation teaches in few steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steer, "searched", lambda scenario: Rule(price=0.5))
        patch.setattr(warm_start.Distilled, "lesson_steps", 20)
        yield


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return crowded(tmp_path_factory.mktemp("crowd"))


class KilledError(Exception):
    """The end of a run at any moment."""


def until(steps: int) -> Callable[[int], None]:
    """Return a callback that ends a run after a number of steps, those before it was resumed included."""
    taken = 0

    def step(more: int) -> None:
        nonlocal taken
        taken += more
        if taken >= steps:
            raise KilledError

    return step


def scramble() -> None:
    """Leave all global generators in another state, as in another process."""
    random.seed(9)
    np.random.seed(9)  # noqa: NPY002
    torch.manual_seed(9)


def files(out: Path) -> dict[str, bytes]:
    """Return agents and validations of a run."""
    found = [each for each in out.rglob("*") if each.is_file() and "tfevents" not in each.name]
    return {str(each.relative_to(out)): each.read_bytes() for each in found if RESUMABLE not in str(each)}


def curves(out: Path) -> list[tuple[str, int, str]]:
    """Return every point of the curves, except those of time; values as text, in which nan equals nan."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [(tag, step, repr(value)) for tag, step, value in points(out)]


@pytest.fixture(scope="module")
def whole(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Return a function that returns the folder of an uninterrupted run of a kind."""

    @cache
    def folder(kind: str) -> Path:
        out = tmp_path_factory.mktemp("whole")
        learn(scenario, KINDS[kind], out)
        return out

    return folder


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("kind", "share"), CASES)
def test_a_resumed_run_equals_an_uninterrupted_one(
    kind: str, share: float, whole: Whole, scenario: Scenario, tmp_path: Path
) -> None:
    """KilledError in the first generation, in others, in PPO, and near the end."""
    training, out = KINDS[kind], whole(kind)
    with pytest.raises(KilledError):
        learn(scenario, training, tmp_path, stepped=until(round(share * training.total_timesteps)))
    continued = resumption.saved_steps(tmp_path)
    assert continued <= share * training.total_timesteps
    scramble()
    steps: list[int] = []
    learn(scenario, training, tmp_path, resume=True, stepped=steps.append)
    assert resumption.saved_steps(tmp_path) == 0, "the training has finished"
    assert files(tmp_path) == files(out)
    assert curves(tmp_path) == curves(out)
    assert curves(out)
    assert sum(steps) >= training.total_timesteps, "progress includes the steps before"


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_is_killed_again_and_again_comes_to_the_same_end(
    whole: Whole, scenario: Scenario, tmp_path: Path
) -> None:
    training, out = FEW, whole("search, then PPO")
    for steps in (150, 240, 280, 310):
        scramble()
        try:
            learn(scenario, training, tmp_path, stepped=until(steps), resume=True)
        except KilledError:
            continue
        break
    learn(scenario, training, tmp_path, resume=True)
    assert files(tmp_path) == files(out)
    assert curves(tmp_path) == curves(out)


@pytest.mark.usefixtures("undrawn")
def test_states_take_a_small_share_of_the_time(
    whole: Whole, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where writing must take next to no time, the first state is the only one, and the run is repeated from it."""
    training, out = PLAIN, whole("plain")
    monkeypatch.setattr(resumption, "SHARE", 1e-9)
    written: list[int] = []
    monkeypatch.setattr(resumption, "_write", noting(resumption._write, written))
    with pytest.raises(KilledError):
        learn(scenario, training, tmp_path, stepped=until(round(0.6 * training.total_timesteps)))
    assert written == [0]
    scramble()
    learn(scenario, training, tmp_path, resume=True)
    assert files(tmp_path) == files(out)


def noting(write: Callable[..., None], steps: list[int]) -> Callable[..., None]:
    """Return `_write`, which notes the steps of a state."""

    def noted(out: Path, arrays: resumption.Arrays, values: resumption.Values) -> None:
        steps.append(values.get("steps", -1))
        write(out, arrays, values)

    return noted


@pytest.mark.usefixtures("undrawn")
def test_a_finished_training_is_not_repeated(whole: Whole, scenario: Scenario) -> None:
    training, out = FEW, whole("search, then PPO")
    before = files(out)
    assert learn(scenario, training, out, resume=True, stepped=until(1)) == out / "best"
    assert files(out) == before


def test_a_damaged_state_is_refused(scenario: Scenario, tmp_path: Path) -> None:
    (tmp_path / RESUMABLE).mkdir()
    (tmp_path / RESUMABLE / resumption.STATE).write_bytes(b"nothing")
    integrity.sign(tmp_path / RESUMABLE)
    with pytest.raises(ValueError, match="has no readable state"):
        learn(scenario, FEW, tmp_path, resume=True)


def test_a_first_state_without_its_digests_is_none(tmp_path: Path) -> None:
    """The run was killed while it wrote it: the training begins again."""
    (tmp_path / RESUMABLE).mkdir()
    (tmp_path / RESUMABLE / resumption.STATE).write_bytes(b"half")
    assert not resumption.finished(tmp_path)
    assert not resumption.saved(tmp_path)
