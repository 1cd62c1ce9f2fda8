"""Every number of an observation has a name, its part a shape, and its window a number by which to play it again."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gpu_cluster_gym.simulator.kernel.moves.move_list import FEATURES
from gpu_cluster_gym.simulator.kernel.rule.load import LOAD
from gpu_cluster_gym.simulator.kernel.rule.steering import CRITIC
from tests.cases import tiny
from tests.conftest import ROOT

KINDS: dict[str, dict[str, Any]] = {
    "tables": {"action": "primitive", "observation": "tables", "queue_slots": 5},
    "slots": {"action": "pick", "observation": "slots", "queue_slots": 5},
    "elastic": {"action": "elastic", "observation": "elastic", "queue_slots": 5},
    "moves": {"action": "moves", "max_moves": 6},
    "steer": {"action": "steer", "privileged": True},
}
VECTORS = {"slots": KINDS["slots"], "moves": KINDS["moves"], "steer": KINDS["steer"]}
PAGE = ROOT / "docs" / "observations.md"


def made(folder: Path, **keywords: Any) -> Any:
    chosen = tiny.scenario(folder, tiny.mixed(0), physics="all")
    return gymnasium.make("GPUCluster-v2", scenario=chosen, **keywords).unwrapped


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_all_that_is_seen(kind: str, tmp_path: Path) -> None:
    env = made(tmp_path, **KINDS[kind])
    seen, _ = env.reset(seed=0)
    parts = env.parts(seen)
    assert {name: part.shape for name, part in parts.items()} == env.shapes
    assert {name: len(columns) for name, columns in env.columns.items()} == {
        name: shape[-1] for name, shape in env.shapes.items()
    }
    assert sum(part.size for part in parts.values()) == gymnasium.spaces.flatdim(env.observation_space)
    assert all(len(set(columns)) == len(columns) for columns in env.columns.values())


def column(env: Any, seen: Any, part: str, name: str) -> np.ndarray:
    found: np.ndarray = env.parts(seen)[part][..., env.columns[part].index(name)]
    return found


@pytest.mark.parametrize("kind", ["tables", "slots", "elastic"])
def test_a_queued_jobs_columns_are_what_they_are_called(kind: str, tmp_path: Path) -> None:
    env = made(tmp_path, **KINDS[kind])
    seen, _ = env.reset(seed=0)
    over, steps = False, 0
    while not over and (steps := steps + 1) < 60:
        view, queue = env.episode.view, env._slots.queue
        there = queue >= 0
        jobs = queue[there]
        gpus = np.log2(1.0 + view.jobs.num_gpus[jobs]) / 7
        np.testing.assert_allclose(column(env, seen, "queue", "gpus")[there], gpus, rtol=1e-6)
        age = np.log1p((view.now - view.jobs.submit_s[jobs]) / 60) / 4
        np.testing.assert_allclose(column(env, seen, "queue", "age")[there], age, rtol=1e-5)
        free = ((view.gpus.num_jobs == 0) & (view.gpus.reserved_for < 0)).mean()
        np.testing.assert_allclose(column(env, seen, "totals", "free_share"), free, rtol=1e-6)
        if kind == "elastic":
            shares = view.gpus.num_jobs / 4
            np.testing.assert_allclose(column(env, seen, "gpus", "num_jobs"), shares, rtol=1e-6)
        seen, _, over, _, _ = env.step(int(env.action_masks().argmax()))
    assert steps > 20


def test_of_the_moves_listed_one_is_the_rules_own(tmp_path: Path) -> None:
    env = made(tmp_path, **KINDS["moves"])
    seen, _ = env.reset(seed=0)
    assert column(env, seen, "moves", "own_choice").argmax() == env.own_choice
    kinds = [move.kind for move in env.moves()]
    waits = column(env, seen, "moves", "wait")[: len(kinds)]
    assert [kind == "wait" for kind in kinds] == waits.astype(bool).tolist()


@pytest.mark.parametrize("kind", VECTORS)
def test_a_batch_is_taken_apart_alike(kind: str, tmp_path: Path) -> None:
    chosen = tiny.scenario(tmp_path, tiny.mixed(0), physics="all")
    batch: Any = gymnasium.make_vec("GPUCluster-v2", 3, scenario=chosen, **VECTORS[kind])
    seen, _ = batch.reset(seed=0)
    assert {name: part.shape for name, part in batch.parts(seen).items()} == {
        name: (3, *shape) for name, shape in batch.shapes.items()
    }


# Windows.


@pytest.mark.parametrize("kind", ["tables", "moves"])
def test_what_an_info_tells_of_a_window_begins_it_again(kind: str, tmp_path: Path) -> None:
    table = tiny.jobs(6 * tiny.COUNT)
    chosen = tiny.scenario(tmp_path, table, whole=False, all_windows=True, jobs=tiny.COUNT)
    env: Any = gymnasium.make("GPUCluster-v2", scenario=chosen, count=3, **KINDS[kind]).unwrapped
    first, info = env.reset(seed=3)
    assert info["split"] == "train"
    assert info["window"] in env.windows
    named = {name: info[name] for name in ("split", "window")}
    for number in env.windows:
        env.reset(options={"window": number})
    again, told = env.reset(options=named)
    assert tiny.bits(again) == tiny.bits(first)
    assert {name: told[name] for name in named} == named
    with pytest.raises(ValueError, match="split 'test': this environment has windows of 'train' alone"):
        env.reset(options={"split": "test", "window": 0})


def test_of_a_batch_it_is_told_alike(tmp_path: Path) -> None:
    chosen = tiny.scenario(tmp_path, tiny.mixed(0), physics="all")
    for keywords in VECTORS.values():
        batch = gymnasium.make_vec("GPUCluster-v2", 2, scenario=chosen, **keywords)
        _, info = batch.reset(seed=0)
        named = {name: info[name].tolist() for name in ("split", "window")}
        assert named == {"split": ["whole", "whole"], "window": [0, 0]}
        assert batch.reset(options=named)[1]["window"].tolist() == named["window"]


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ({"queue_slot": 3}, "queue_slots"),
        ({"action": "moves", "max_mvoes": 3}, "max_moves"),
        ({"splt": "test"}, "split"),
    ],
)
def test_an_unknown_keyword_is_answered_with_the_nearest(wrong: dict[str, Any], nearest: str) -> None:
    with pytest.raises(TypeError, match=f"there is no keyword .* did you mean '{nearest}'"):
        gymnasium.make("GPUCluster-v2", **wrong)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"action": "stear"}, ValueError, "did you mean 'steer'"),
        (
            {"action": "steer", "queue_slots": 4},
            TypeError,
            "queue_slots does not go with the action 'steer', but",
        ),
        ({"queue_slots": 0}, ValueError, "queue_slots 0"),
        ({"split": "eval"}, ValueError, "no split 'eval' among train, validation, test"),
    ],
)
def test_what_does_not_go_is_said(wrong: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        gymnasium.make("GPUCluster-v2", **wrong)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"processes": 2}, TypeError, "no keyword 'processes' among scenario.*threads"),
        ({"autoreset": "nextstep"}, ValueError, "did you mean 'NextStep'"),
        ({"num_envs": 0}, ValueError, "num_envs 0: expected a whole number, at least 1"),
    ],
)
def test_what_a_batch_does_not_take_is_said(wrong: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        gymnasium.make_vec("GPUCluster-v2", **({"num_envs": 2} | wrong))


def test_a_batch_takes_an_action_for_each_environment() -> None:
    batch = gymnasium.make_vec("GPUCluster-v2", 3, action="pick", count=1, workload="quick")
    batch.reset(seed=0)
    with pytest.raises(ValueError, match="2 actions for 3 environments"):
        batch.step(np.zeros(2, int))


def test_modules_are_found_without_being_imported_by_name() -> None:
    code = "import envs; print(envs.env.GPUClusterEnv.__name__, envs.steer.SteerEnv.__name__, hasattr(envs, 'nothing'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["GPUClusterEnv", "SteerEnv", "False"]


# The page.


def documented() -> dict[str, list[str]]:
    """Return the names in the first column of each table of the page, by the heading that the table stands under."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        names = re.findall(r"^\| `([\w`, ]+)` \|", part, re.MULTILINE)
        found[part.split("`")[1]] = [name for row in names for name in re.split("`, `", row)]
    return found


def test_the_page_has_every_column(tmp_path: Path) -> None:
    page = documented()
    env = made(tmp_path, **KINDS["elastic"])
    for part in (
        "queue",
        "running",
        "totals",
        "queue_more",
        "running_more",
        "gpus",
        "nodes",
        "partial_action",
    ):
        assert page[part] == list(env.columns[part])
    assert (page["moves"], page["load"], page["critic"]) == (list(FEATURES), list(LOAD), list(CRITIC))
