"""Observations have named columns and parts with shapes; infos have the same keys for every action."""

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from docs.pages import observations
from gpu_cluster_gym.simulator.kernel.moves.move_list import FEATURES
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.kernel.union.steering import CRITIC
from tests.cases import tiny

KINDS: dict[str, dict[str, Any]] = {
    "tables": tiny.BY_RULE | {"observation": "tables", "queue_slots": 5},
    "slots": tiny.BY_RULE | {"queue_slots": 5},
    "sets": {"queue_slots": 5},
    "moves": {"action": "moves", "max_moves": 6},
    "steer": {"action": "steer", "privileged": True},
}
VECTORS = {"slots": KINDS["slots"], "moves": KINDS["moves"], "steer": KINDS["steer"]}
INFO = {"action_mask", "agrees", "elapsed", "executed", "illegal", "scale", "split", "unseen", "window"}


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


@pytest.mark.parametrize("kind", KINDS)
def test_the_mask_may_be_part_of_the_observation(kind: str, tmp_path: Path) -> None:
    """In the form that RLlib and TorchRL expect; single and in a batch, with the same parts."""
    keywords = KINDS[kind] | {"mask": "observation"}
    env = made(tmp_path, **keywords)
    plain, _ = made(tmp_path, **KINDS[kind]).reset(seed=0)
    seen, info = env.reset(seed=0)
    assert set(seen) == {"observations", "action_mask"}
    assert seen in env.observation_space
    assert tiny.bits(seen["observations"]) == tiny.bits(plain)
    assert seen["action_mask"].tolist() == info["action_mask"].tolist() == env.action_masks().tolist()
    assert tiny.bits(env.parts(seen)) == tiny.bits(env.parts(plain))
    chosen = tiny.scenario(tmp_path, tiny.mixed(0), physics="all")
    batch: Any = gymnasium.make_vec("GPUCluster-v2", 2, scenario=chosen, **keywords)
    many, _ = batch.reset(seed=0)
    assert many in batch.observation_space
    assert many["action_mask"].shape == (2, len(seen["action_mask"]))
    assert {name: part.shape[1:] for name, part in batch.unwrapped.parts(many).items()} == env.shapes


@pytest.mark.parametrize("kind", KINDS)
def test_every_action_has_the_same_info(kind: str, tmp_path: Path) -> None:
    env = made(tmp_path, **KINDS[kind])
    infos = [env.reset(seed=0)[1]]
    infos.append(env.step(env.action_space.sample())[4])
    kinds = [{name: np.asarray(value).dtype for name, value in info.items()} for info in infos]
    assert kinds[0] == kinds[1]
    assert set(kinds[0]) == INFO
    assert all(isinstance(value, np.generic | np.ndarray) for info in infos for value in info.values())
    chosen = tiny.scenario(tmp_path, tiny.mixed(0), physics="all")
    _, many = gymnasium.make_vec("GPUCluster-v2", 2, scenario=chosen, **KINDS[kind]).reset(seed=0)
    assert {name: values.dtype for name, values in many.items() if not name.startswith("_")} == kinds[0]


def column(env: Any, seen: Any, part: str, name: str) -> np.ndarray:
    found: np.ndarray = env.parts(seen)[part][..., env.columns[part].index(name)]
    return found


@pytest.mark.parametrize("kind", ["tables", "slots"])
def test_columns_of_a_queued_job_match_their_names(kind: str, tmp_path: Path) -> None:
    env = made(tmp_path, **KINDS[kind])
    seen, _ = env.reset(seed=0)
    over, steps = False, 0
    while not over and (steps := steps + 1) < 60:
        view, queue = env.episode.view, env.queue
        there = queue >= 0
        jobs = queue[there]
        gpus = np.log2(1.0 + view.jobs.num_gpus[jobs]) / 7
        np.testing.assert_allclose(column(env, seen, "queue", "gpus")[there], gpus, rtol=1e-6)
        age = np.log1p((view.now - view.jobs.submit_s[jobs]) / 60) / 4
        np.testing.assert_allclose(column(env, seen, "queue", "age")[there], age, rtol=1e-5)
        free = ((view.gpus.num_jobs == 0) & (view.gpus.reserved_for < 0)).mean()
        np.testing.assert_allclose(column(env, seen, "totals", "free_share"), free, rtol=1e-6)
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
def test_a_batch_is_split_into_the_same_parts(kind: str, tmp_path: Path) -> None:
    chosen = tiny.scenario(tmp_path, tiny.mixed(0), physics="all")
    batch: Any = gymnasium.make_vec("GPUCluster-v2", 3, scenario=chosen, **VECTORS[kind])
    seen, _ = batch.reset(seed=0)
    assert {name: part.shape for name, part in batch.parts(seen).items()} == {
        name: (3, *shape) for name, shape in batch.shapes.items()
    }


# Windows.


@pytest.mark.parametrize("kind", ["tables", "moves"])
def test_the_window_in_an_info_reproduces_the_episode(kind: str, tmp_path: Path) -> None:
    table = tiny.jobs(6 * tiny.COUNT)
    chosen = tiny.scenario(tmp_path, table, full_trace=False, all_windows=True, jobs=tiny.COUNT)
    env: Any = gymnasium.make("GPUCluster-v2", scenario=chosen, count=3, **KINDS[kind]).unwrapped
    first, info = env.reset(seed=3)
    assert info["split"] == "train"
    assert info["window"] in env.windows
    named = {name: info[name] for name in ("split", "window")}
    for number in env.windows:
        env.reset(options={"window": number})
    again, info = env.reset(options=named)
    assert tiny.bits(again) == tiny.bits(first)
    assert {name: info[name] for name in named} == named
    with pytest.raises(
        ValueError,
        match="split 'test': this environment was created with split='train'; create another with split='test'",
    ):
        env.reset(options={"split": "test", "window": 0})


def test_a_batch_has_the_same_infos(tmp_path: Path) -> None:
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
        ({"acton": "moves"}, "action"),
    ],
)
def test_an_unknown_keyword_is_answered_with_the_nearest(wrong: dict[str, Any], nearest: str) -> None:
    with pytest.raises(TypeError, match=f"unknown keyword .* did you mean '{nearest}'"):
        gymnasium.make("GPUCluster-v2", **wrong)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"action": "stear"}, ValueError, "did you mean 'steer'"),
        (
            {"action": "steer", "queue_slots": 4},
            TypeError,
            "keyword 'queue_slots' does not apply to action 'steer', which takes",
        ),
        (
            {"cluster": "64x8"},
            TypeError,
            "'cluster' is a field of the scenario: pass scenario={'cluster': '64x8'}",
        ),
        ({"queue_slots": 0}, ValueError, "queue_slots 0"),
        ({"split": "eval"}, ValueError, "unknown split 'eval': expected one of train, validation, test"),
    ],
)
def test_unsupported_options_are_refused_with_a_message(
    wrong: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        gymnasium.make("GPUCluster-v2", **({"count": 1} | wrong))


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"processes": 2}, TypeError, "unknown keyword 'processes': expected one of scenario.*threads"),
        ({"autoreset": "nextstep"}, ValueError, "did you mean 'NextStep'"),
        ({"num_envs": 0}, ValueError, "num_envs 0: expected a whole number, at least 1"),
    ],
)
def test_options_that_a_batch_does_not_support_are_refused(
    wrong: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        gymnasium.make_vec("GPUCluster-v2", **({"num_envs": 2, "count": 1} | wrong))


def test_a_batch_takes_an_action_for_each_environment() -> None:
    batch = gymnasium.make_vec("GPUCluster-v2", 3, count=1, workload="xonar_mix")
    batch.reset(seed=0)
    with pytest.raises(ValueError, match=r"expected \(3,\), one action per environment"):
        batch.step(np.zeros(2, int))


# The page.


def documented() -> dict[str, list[str]]:
    """Return the names in the first column of each table of the page, by heading."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", observations.pages()["observations.md"], flags=re.MULTILINE)[1:]:
        names = re.findall(r"^\| `([\w`, ]+)` \|", part, re.MULTILINE)
        found[part.split("`")[1]] = [name for row in names for name in re.split("`, `", row)]
    return found


def test_the_page_has_every_column(tmp_path: Path) -> None:
    page = documented()
    env = made(tmp_path, **KINDS["tables"])
    for part in (
        "queue",
        "running",
        "totals",
    ):
        assert page[part] == list(env.columns[part])
    assert (page["moves"], page["load"], page["critic"]) == (list(FEATURES), list(LOAD), list(CRITIC))
