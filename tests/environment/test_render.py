"""Rendering shows the current cluster: an image of constant size, in which jobs appear as they start."""

import re
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RecordVideo

from gpu_cluster_gym.envs import render
from gpu_cluster_gym.simulator.policy import Placement, Start
from gpu_cluster_gym.workloads import Scenario, full_trace
from tests.cases import tiny

SHAPE = (render.HEIGHT, render.WIDTH, 3)
MOST_STEPS = 40
ACTIONS = ("plain", "steer", "moves")


def made(folder: Path, mode: str, action: str = "plain") -> gymnasium.Env[Any, Any]:
    return gymnasium.make("GPUCluster-v2", scenario=tiny.scenario(folder), action=action, render_mode=mode)


def coloured(image: np.ndarray) -> float:
    """Return the share of an image that is neither black, white nor grey."""
    return float((np.ptp(image.astype(int), axis=2) > 20).mean())


@pytest.mark.parametrize("action", ACTIONS)
def test_an_image_has_one_shape_and_changes_as_jobs_start(action: str, tmp_path: Path) -> None:
    env = made(tmp_path, "rgb_array", action)
    env.reset(seed=0)
    env.action_space.seed(0)
    images = [env.render()]
    while len(images) < MOST_STEPS and np.array_equal(images[0], images[-1]):  # type: ignore[arg-type]
        env.step(env.action_space.sample())
        images.append(env.render())
    for image in images:
        assert isinstance(image, np.ndarray)
        assert image.shape == SHAPE
        assert image.dtype == np.uint8
    assert not np.array_equal(images[0], images[-1])  # type: ignore[arg-type]
    env.close()


def test_a_start_colours_as_many_gpus_as_it_takes(tmp_path: Path) -> None:
    """Two nodes of eight GPUs: a job takes four GPUs, then another job shares one of these."""
    table = tiny.jobs(2).assign(submit_s=0.0, num_gpus=[4, 1], gpu_memory_gib=4.0, duration_s=500.0)
    table = table.assign(startup_s=0.0)
    chosen = tiny.scenario(tmp_path, table, physics="memory,sharing", max_share=2)
    episode = full_trace(Scenario(**chosen)).episode()
    episode.advance()
    picture = render.Picture(shows=False)
    cells = [render._cells(episode.view)]
    before = picture.image(episode.view)
    episode.apply(Start(0, Placement((0, 1, 2, 3))))
    cells.append(render._cells(episode.view))
    after = picture.image(episode.view)
    episode.apply(Start(1, Placement((3,))))
    cells.append(render._cells(episode.view))
    first, then, shared = (each.reshape(2, 2, 8, 3) for each in cells)  # nodes, halves, GPUs
    assert len(np.unique(first.reshape(-1, 3), axis=0)) == 1, "all idle"
    changed = (first != then).any(axis=3)
    assert changed.all(axis=1).tolist() == [[True] * 4 + [False] * 4, [False] * 8]
    assert (then != shared).any(axis=3).sum() == 1, "half of a GPU"
    assert coloured(after) > coloured(before) + 0.1


def test_a_job_keeps_its_colour_until_it_ends(tmp_path: Path) -> None:
    env = made(tmp_path, "rgb_array", "plain")
    env.reset(seed=0)
    env.action_space.seed(0)
    over = False
    while not over:
        _, _, over, _, _ = env.step(env.action_space.sample())
    assert coloured(env.render()) < 0.02, "only the marks of the key are left"  # type: ignore[arg-type]


def test_colours_of_jobs_differ() -> None:
    colours = render.job_colours()
    assert len(set(colours)) == len(colours) == render.MAX_COLOURS
    assert all(re.fullmatch(r"#[0-9a-f]{6}", each) for each in colours)
    numbers = np.array([[int(each[at : at + 2], 16) for at in (1, 3, 5)] for each in colours], float)
    for apart in range(1, 8):
        gaps = np.abs(numbers[apart:] - numbers[:-apart]).max(axis=1)
        assert gaps.min() >= 24, f"jobs {apart} apart look alike"


def test_jobs_side_by_side_have_colours_of_their_own(tmp_path: Path) -> None:
    """Sixteen jobs on sixteen GPUs."""
    table = tiny.jobs(16).assign(submit_s=0.0, num_gpus=1, duration_s=500.0, startup_s=0.0)
    episode = full_trace(Scenario(**tiny.scenario(tmp_path, table, physics="none"))).episode()
    episode.advance()
    for job in range(16):
        episode.apply(Start(job, Placement((job,))))
    assert len(np.unique(render._cells(episode.view).reshape(-1, 3), axis=0)) == 16


def test_a_copy_renders_independently(tmp_path: Path) -> None:
    env = made(tmp_path, "rgb_array").unwrapped
    env.reset(seed=0)
    env.render()
    other = deepcopy(env)
    assert np.array_equal(env.render(), other.render())  # type: ignore[arg-type]
    env.step(int(np.flatnonzero(env.action_masks())[0]))  # type: ignore[attr-defined]
    assert not np.array_equal(env.render(), other.render())  # type: ignore[arg-type]


def test_without_a_mode_nothing_is_drawn(tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path))
    env.reset(seed=0)
    assert env.render() is None


@pytest.mark.parametrize("action", ACTIONS)
def test_a_window_needs_a_display(action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    monkeypatch.setattr(mpl, "get_backend", lambda: "agg")
    with pytest.raises(ValueError, match=r"no GUI backend here .* use render_mode='rgb_array'"):
        made(tmp_path, "human", action).reset(seed=0)


def test_a_window_shows_each_moment_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(render.Screen, "draw", lambda self, view: seen.append(view.now))
    env = made(tmp_path, "human")
    env.reset(seed=0)
    env.step(env.action_space.sample())
    assert len(seen) == 2


def test_an_unknown_mode_is_answered_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="'video': expected one of ansi, rgb_array, human"):
        render.Screen("video")


@pytest.mark.skipif(find_spec("moviepy") is None, reason="RecordVideo writes its films by moviepy")
def test_a_film_is_recorded(tmp_path: Path) -> None:
    env: Any = RecordVideo(made(tmp_path, "rgb_array", "plain"), str(tmp_path / "film"), video_length=6)
    env.reset(seed=0)
    for _ in range(8):
        env.step(env.action_space.sample())
    env.close()
    (film,) = (tmp_path / "film").glob("*.mp4")
    assert film.stat().st_size > 1_000
