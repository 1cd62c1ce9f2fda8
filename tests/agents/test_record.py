"""Recorded data sets: their actions, played again, are the episode of the scheduler."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.record import main, record
from gpu_cluster_gym.agents.training import PlainTraining
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Scenario, full_trace
from tests.cases import tiny

minari = pytest.importorskip("minari", reason="minari is optional")
pytest.importorskip("h5py", reason="h5py is optional")


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a scenario of a few jobs; data sets are in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "runs" / "minari"))
    return tiny.scenario(tmp_path, tiny.jobs(12))


@pytest.mark.parametrize("name", ["fifo", "sjf", "srtf", "random"])
def test_the_actions_played_again_give_the_same_episode(name: str, chosen: dict[str, Any]) -> None:
    data = record(name, {"scenario": chosen}, 1, f"gpu-cluster/tiny/{name}-v0")
    (played,) = data
    env: Any = minari.load_dataset(data.id).recover_environment().unwrapped
    seen, info = env.reset(options={"window": int(played.id)})
    ended = False
    for action, before, reward in zip(played.actions, played.observations, played.rewards, strict=False):
        assert not ended
        assert info["action_mask"][action]
        assert np.array_equal(seen, before)
        seen, again, ended, _, info = env.step(action)
        assert again == reward
    assert ended
    if name in ("fifo", "sjf"):
        load = full_trace(Scenario(**chosen))
        assert env.results().equals(load.results(run(baselines.make(baselines.load(name)), load.episode())))


def test_a_data_set_is_replaced_and_has_the_environment_of_training(chosen: dict[str, Any]) -> None:
    first, second = (
        record("random", {"scenario": chosen}, 1, "gpu-cluster/tiny/random-v0") for _ in range(2)
    )
    assert minari.list_local_datasets().keys() == {"gpu-cluster/tiny/random-v0"}
    assert first.total_steps == second.total_steps, "random actions have a seed"
    env: Any = second.recover_environment().unwrapped
    assert env.action_space.n == PlainTraining().queue_slots + PlainTraining().running_slots + 1


def test_an_unknown_scheduler_is_one_sentence(
    chosen: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fifoo"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "fifo, sjf, srtf, random" in said
