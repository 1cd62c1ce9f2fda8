"""Stable-Baselines3 sees a batch as it would see single environments."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from gpu_cluster_gym.agents.vec_env import ClusterVecEnv
from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.envs.registration import make_vec
from gpu_cluster_gym.workloads import Scenario
from tests.cases import tiny
from tests.cases.crowd import crowded

COUNT, STEPS = 3, 400
CHOICES: dict[str, Any] = tiny.BY_RULE | {"count": 4, "queue_slots": 8, "illegal": "raise"}


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return crowded(tmp_path_factory.mktemp("crowd"))


def batch(scenario: Scenario, **choices: Any) -> ClusterVecEnv:
    return ClusterVecEnv(make_vec(COUNT, asdict(scenario), autoreset="Disabled", **(CHOICES | choices)))


def singles(scenario: Scenario, **choices: Any) -> DummyVecEnv:
    return DummyVecEnv([lambda: GPUClusterEnv(asdict(scenario), **(CHOICES | choices)) for _ in range(COUNT)])


@pytest.mark.parametrize("reward", ["jct", "rollout_advantage"])
def test_a_batch_is_a_dummy_of_single_environments(reward: str, scenario: Scenario) -> None:
    """Over several episodes: observations, rewards, ends, infos of steps and of resets, and their types."""
    one, other = batch(scenario, reward=reward), singles(scenario, reward=reward)
    rng, ends = np.random.default_rng(0), 0
    for each in (one, other):
        each.seed(7)
    assert tiny.bits(one.reset()) == tiny.bits(other.reset())
    for _ in range(STEPS):
        masks = one.action_masks()
        assert tiny.bits(one.env_method("action_masks")) == tiny.bits(other.env_method("action_masks"))
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        found, wanted = one.step(actions), other.step(actions)
        assert tiny.bits(found[:3]) == tiny.bits(wanted[:3])
        for mine, theirs in zip((*found[3], *one.reset_infos), (*wanted[3], *other.reset_infos), strict=True):
            assert mine.keys() == theirs.keys()
            for name, value in theirs.items():
                assert tiny.bits(mine[name]) == tiny.bits(value), name
                assert type(mine[name]) is type(value), name
        ends += int(found[2].sum())
    assert ends >= COUNT


def test_the_last_observation_of_an_episode_is_kept(scenario: Scenario) -> None:
    env = batch(scenario)
    env.reset()
    dones = np.zeros(COUNT, bool)
    while not dones.any():
        seen, _, dones, infos = env.step(env.action_masks().argmax(axis=1))
    i = int(dones.argmax())
    last = infos[i]["terminal_observation"]
    assert tiny.bits(last) != tiny.bits(np.asarray(seen)[i])
    assert not last[-9:-1].any(), "nothing is queued when all jobs are done"
    assert infos[i]["TimeLimit.truncated"] is False
    assert "jct_ratio" in infos[i]


def test_masks_are_found_as_maskable_ppo_looks_for_them(scenario: Scenario) -> None:
    env = VecMonitor(batch(scenario))
    env.reset()
    assert env.has_attr("action_masks")
    masks = np.stack(env.env_method("action_masks"))
    assert masks.shape == (COUNT, 9)
    assert masks.dtype == bool
    assert env.env_method("action_masks", indices=[1])[0].tolist() == masks[1].tolist()


@pytest.mark.filterwarnings("ignore:.*a legal action replaces it")
def test_stock_ppo_learns_on_it(scenario: Scenario) -> None:
    """Without masks, where illegal actions are forgiven."""
    env = batch(scenario, illegal="next_legal")
    PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu", seed=0).learn(64)
    assert (env.env.info()["illegal"] > 0).any()


def test_unsupported_features_of_a_batch_are_reported(scenario: Scenario) -> None:
    env = batch(scenario)
    assert env.get_attr("render_mode") == [None] * COUNT
    assert not env.has_attr("nothing")
    with pytest.raises(AttributeError, match="method 'render': expected action_masks or results"):
        env.env_method("render")
    with pytest.raises(AttributeError, match="windows cannot be set"):
        env.set_attr("windows", ())
    with pytest.raises(ValueError, match="autoreset NextStep: expected Disabled"):
        ClusterVecEnv(make_vec(COUNT, asdict(scenario), **CHOICES))


def test_options_name_the_windows(scenario: Scenario, tmp_path: Path) -> None:
    env = batch(scenario)
    env.set_options([{"window": 1}, {}, {"window": 0}])
    env.seed(0)
    env.reset()
    windows = [info["window"] for info in env.reset_infos]
    assert (windows[0], windows[2]) == (1, 0)
