"""Checkpoints are JSON and weights: they are read back unchanged, refused where they do not fit, never executed."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_cluster_gym.agents import checkpoint, load_policy
from gpu_cluster_gym.agents.checkpoint import CHOICES, WEIGHTS, Agent
from gpu_cluster_gym.agents.networks import SteerNetwork
from gpu_cluster_gym.agents.training import SteerTraining
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.rule_policy import Rule, Steered
from gpu_cluster_gym.workloads import Scenario
from tests.cases.crowd import TINY, opinionated

SCENARIO = Scenario(cluster="2x8", jobs=40)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return the folder of an agent."""
    checkpoint.save(tmp_path / "agent", Agent(opinionated(), TINY, SCENARIO), about={"step": 7})
    return tmp_path / "agent"


def rewrite(folder: Path, change: dict[str, object]) -> None:
    """Change entries of an agent's choices."""
    choices = json.loads((folder / CHOICES).read_text())
    (folder / CHOICES).write_text(json.dumps(choices | change))


def test_an_agent_is_read_as_written(saved: Path) -> None:
    agent = checkpoint.load(saved)
    assert (agent.training, agent.scenario) == (TINY, SCENARIO)
    written, read = opinionated().state_dict(), agent.network.state_dict()
    assert written.keys() == read.keys()
    assert all(torch.equal(written[name], read[name]) for name in written)


def test_nothing_else_is_left_in_the_folder(saved: Path) -> None:
    checkpoint.save(saved, Agent(opinionated(seed=1), TINY, SCENARIO))
    assert sorted(file.name for file in saved.iterdir()) == [CHOICES, WEIGHTS]


def test_a_failed_write_keeps_the_agent_before(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(saved, Agent(opinionated(seed=1), TINY, SCENARIO))
    kept = checkpoint.load(saved).network.state_dict()
    assert all(torch.equal(kept[name], weights) for name, weights in opinionated().state_dict().items())


def test_other_features_are_refused(saved: Path) -> None:
    rewrite(saved, {"layout": checkpoint.LAYOUTS["plain"] | {"totals": ["free_share"]}})
    with pytest.raises(ValueError, match=r"observation format \(totals\) has changed .*: retrain the agent"):
        load_policy(saved)


def test_a_steering_agent_reads_the_load_by_name(tmp_path: Path) -> None:
    """An agent of fewer features, or in another order, answers as before."""
    reads = ("free_gpus", "jobs_queued", "hour_cos")
    training = SteerTraining(weights=("price", "harm"), hidden=4)
    network = SteerNetwork(2, 4, reads)
    torch.nn.init.normal_(network.offsets.weight, generator=torch.Generator().manual_seed(0))
    checkpoint.save(tmp_path / "agent", Agent(network, training, SCENARIO))
    read = checkpoint.load(tmp_path / "agent").network
    assert isinstance(read, SteerNetwork)
    load = np.arange(len(LOAD), dtype=np.float32) / 10
    wanted = network(torch.from_numpy(np.array([load[LOAD.index(name)] for name in reads]))[None])[0]
    assert read.choose(load).tolist() == pytest.approx(wanted.tolist())
    for wrong in (["free_gpus", "luck"], [], "free_gpus"):
        rewrite(tmp_path / "agent", {"layout": {"action": "steer", "load": wrong}})
        with pytest.raises(ValueError, match=r"observation format \(load\) has changed"):
            load_policy(tmp_path / "agent")


def test_a_steering_agent_keeps_its_start_whatever_the_default(tmp_path: Path) -> None:
    training = SteerTraining(weights=("price",), hidden=4)
    original = Agent(SteerNetwork(1, 4), training, SCENARIO, Rule(price=2.5, caution=0.5))
    checkpoint.save(tmp_path / "agent", original)
    assert checkpoint.load(tmp_path / "agent").start == original.start
    policy = load_policy(tmp_path / "agent")
    assert isinstance(policy, Steered)
    assert policy.offsets.start == original.start
    for wrong in ({"price": -1}, {"luck": 1}, {"price": "dear"}, 7):
        rewrite(tmp_path / "agent", {"layout": {"action": "steer", "load": list(LOAD), "start": wrong}})
        with pytest.raises(ValueError, match="invalid start rule"):
            load_policy(tmp_path / "agent")


@pytest.mark.parametrize(
    "change",
    [
        {"training": {"no_such_choice": 1}},
        {"training": {"queue_slots": "many"}},
        {"training": {"queue_slots": 10**9}},
        {"training": {"hidden": 64}},
        {"training": {"queue_slots": True}},
        {"training": {"tau_s": -1}},
        {"training": {"reward": "fame"}},
        {"scenario": {"jobs": 0}},
        {"scenario": {"node_mtbf": 1.0}},
        {"training": None},
        {"scenario": [1, 2]},
    ],
    ids=str,
)
def test_choices_that_cannot_be_are_refused(saved: Path, change: dict[str, object]) -> None:
    rewrite(saved, change)
    with pytest.raises(ValueError, match=str(saved)):
        load_policy(saved)


@pytest.mark.parametrize("content", [b"", b"not JSON", b"[" * 100_000, b"\xff\xfe", b"null"])
def test_choices_that_are_none_are_refused(saved: Path, content: bytes) -> None:
    (saved / CHOICES).write_bytes(content)
    with pytest.raises(ValueError, match=str(saved)):
        load_policy(saved)


def test_a_folder_without_an_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no readable agent"):
        load_policy(tmp_path)


def test_weights_cut_short_are_refused(saved: Path) -> None:
    content = (saved / WEIGHTS).read_bytes()
    for length in (0, 4, 100, len(content) - 1):
        (saved / WEIGHTS).write_bytes(content[:length])
        with pytest.raises(ValueError, match="does not hold this agent's weights"):
            load_policy(saved)


class Canary:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


def test_nothing_in_the_folder_is_executed(saved: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    hostile = pickle.dumps(Canary(canary))
    for name in ("policy.pth", "pytorch_variables.pth", "data.pkl", "agent.pkl"):
        (saved / name).write_bytes(hostile)
    load_policy(saved)
    (saved / WEIGHTS).write_bytes(hostile)
    with pytest.raises(ValueError, match="does not hold this agent's weights"):
        load_policy(saved)
    torch.save({"weights": Canary(canary)}, saved / WEIGHTS)
    with pytest.raises(ValueError, match="does not hold this agent's weights"):
        load_policy(saved)
    assert not canary.exists()
    pickle.loads(hostile)
    assert canary.exists()  # it would have shown


def test_weights_that_do_not_fit_the_choices_are_refused(saved: Path, tmp_path: Path) -> None:
    wide = replace(TINY, hidden=48)
    checkpoint.save(tmp_path / "wide", Agent(opinionated(wide), wide, SCENARIO))
    (tmp_path / "wide" / WEIGHTS).replace(saved / WEIGHTS)
    with pytest.raises(ValueError, match="does not hold this agent's weights"):
        load_policy(saved)
