"""Environments divided among processes are one batch, bit for bit."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import VectorEnv

from envs.processes import GPUClusterProcesses
from tests.cases import tiny

COUNT = 3


@pytest.fixture(scope="module", params=["pick", "primitive"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[VectorEnv, VectorEnv]]:
    """Return a batch in two processes, and one in none, which begin anew at once."""
    folder, table = tmp_path_factory.mktemp("windows"), tiny.jobs(4 * 16)
    chosen = tiny.scenario(folder, table, whole=False, all_windows=True, jobs=16)
    choices: dict[str, Any] = {"action": request.param, "count": 4, "queue_slots": 8, "autoreset": "SameStep"}
    made = [
        gymnasium.make_vec("GPUCluster-v1", COUNT, scenario=chosen, processes=count, **choices)
        for count in (2, 1)
    ]
    yield made[0], made[1]
    made[0].close()


def told(info: dict[str, Any], i: int) -> dict[str, Any]:
    """Return what is told of one environment, in order of names."""
    there = sorted(name for name in info if not name.startswith("_") and info[f"_{name}"][i])
    return {name: told(info[name], i) if isinstance(info[name], dict) else info[name][i] for name in there}


def bits(answer: tuple[Any, ...]) -> bytes:
    """Return what a step or reset gave as bytes."""
    return tiny.bits([*answer[:-1], [told(answer[-1], i) for i in range(COUNT)]])


def test_they_are_one_batch(both: tuple[VectorEnv, VectorEnv]) -> None:
    rng = np.random.default_rng(0)
    divided, one = both
    answers = divided.reset(seed=5), one.reset(seed=5)
    ends = 0
    while ends <= COUNT:
        masks = answers[0][-1]["action_mask"]
        assert bits(answers[0]) == bits(answers[1])
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        answers = divided.step(actions), one.step(actions)  # type: ignore[assignment]
        ends += int((answers[0][2] | answers[0][3]).sum())  # type: ignore[misc]


def test_options_and_masks_reach_each_of_them(both: tuple[VectorEnv, VectorEnv]) -> None:
    divided, _ = both
    assert isinstance(divided, GPUClusterProcesses)
    _, info = divided.reset(options={"window": [3, 0, 1]})
    assert info["window"].tolist() == [3, 0, 1]
    assert divided.reset(options={"window": 2})[1]["window"].tolist() == [2] * COUNT
    assert divided.action_masks().any(axis=1).all()


def test_what_is_refused_there_is_refused_here(both: tuple[VectorEnv, VectorEnv]) -> None:
    divided, _ = both
    _, info = divided.reset(seed=0)
    first = info["action_mask"].argmax(axis=1)
    with pytest.raises(ValueError, match="environment 2: action 99 is illegal now"):
        divided.step(np.where(np.arange(COUNT) == 2, 99, first))
    found = divided.step(first)
    divided.reset(seed=0)
    assert bits(found) == bits(divided.step(first))
    with pytest.raises(ValueError, match="2 seeds for 3 environments"):
        divided.reset(seed=[1, 2])  # type: ignore[arg-type]


def test_there_are_no_more_processes_than_environments() -> None:
    with pytest.raises(ValueError, match="processes 4: expected 1 to 3"):
        GPUClusterProcesses(3, 4)
