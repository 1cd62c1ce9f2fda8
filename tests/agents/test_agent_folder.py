"""Checkpoints are JSON, weights and digests: read back unchanged, refused where damaged or unfit, never executed."""

import json
import os
import pickle
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import methodcaller
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from benchmarks.trust import flipped_bits
from gpu_cluster_gym.agents import checkpoint, integrity, load_policy
from gpu_cluster_gym.agents.checkpoint import CHOICES, WEIGHTS, Agent
from gpu_cluster_gym.agents.networks import SteerNetwork
from gpu_cluster_gym.agents.pretrained import SHIPPED, shipped
from gpu_cluster_gym.agents.protocol import of_folder, trained_on
from gpu_cluster_gym.agents.training import SteerTraining
from gpu_cluster_gym.evaluation import run_folder
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
    integrity.sign(folder)


def reweigh(folder: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Change all weights of an agent, and sign them."""
    weights = safetensors.torch.load_file(folder / WEIGHTS)
    safetensors.torch.save_file({name: change(it) for name, it in weights.items()}, folder / WEIGHTS)
    integrity.sign(folder)


def test_an_agent_is_read_as_written(saved: Path) -> None:
    agent = checkpoint.load(saved)
    assert (agent.training, agent.scenario) == (TINY, SCENARIO)
    written, read = opinionated().state_dict(), agent.network.state_dict()
    assert written.keys() == read.keys()
    assert all(torch.equal(written[name], read[name]) for name in written)


def test_nothing_else_is_left_in_the_folder(saved: Path) -> None:
    checkpoint.save(saved, Agent(opinionated(seed=1), TINY, SCENARIO))
    assert sorted(file.name for file in saved.iterdir()) == [integrity.SUMS, CHOICES, WEIGHTS]


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
    integrity.sign(saved)
    with pytest.raises(ValueError, match=str(saved)):
        load_policy(saved)


def test_a_folder_without_an_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no readable agent"):
        load_policy(tmp_path)


def test_weights_cut_short_are_refused(saved: Path) -> None:
    content = (saved / WEIGHTS).read_bytes()
    for length in (0, 4, 100, len(content) - 1):
        (saved / WEIGHTS).write_bytes(content[:length])
        integrity.sign(saved)
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
    integrity.sign(saved)
    with pytest.raises(ValueError, match="does not hold this agent's weights"):
        load_policy(saved)
    torch.save({"weights": Canary(canary)}, saved / WEIGHTS)
    integrity.sign(saved)
    with pytest.raises(ValueError, match="does not hold this agent's weights"):
        load_policy(saved)
    assert not canary.exists()
    pickle.loads(hostile)
    assert canary.exists()  # it would have shown


def test_weights_that_do_not_fit_the_choices_are_refused(saved: Path, tmp_path: Path) -> None:
    wide = replace(TINY, hidden=48)
    checkpoint.save(tmp_path / "wide", Agent(opinionated(wide), wide, SCENARIO))
    (tmp_path / "wide" / WEIGHTS).replace(saved / WEIGHTS)
    integrity.sign(saved)
    with pytest.raises(ValueError, match="does not hold this agent's weights"):
        load_policy(saved)


# Damage: a file differs from its digest, or its digest is right but its content cannot be.


def test_no_flipped_bit_of_a_shipped_agent_is_accepted() -> None:
    """Five bits of each file; `python -m benchmarks.trust` flips 300."""
    figures = list(flipped_bits(flips=5))
    assert len(figures) == 5 * len(shipped())  # four files and their digests
    assert [figure.examples for figure in figures if figure.wrong] == []


def test_the_attack_notices_an_agent_whose_weights_have_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a reader that trusts what it reads."""
    monkeypatch.setattr(
        integrity, "read", lambda folder: {each.name: each.read_bytes() for each in folder.iterdir()}
    )
    assert sum(figure.wrong for figure in flipped_bits(["philly_backlog"], flips=5)) > 0


def test_common_tools_agree_with_the_digests(saved: Path) -> None:
    for folder in (saved, *(SHIPPED / name for name in shipped())):
        subprocess.run(
            ["sha256sum", "--check", "--strict", "--quiet", integrity.SUMS], cwd=folder, check=True
        )


def test_an_agent_without_digests_is_refused_with_the_remedy(saved: Path) -> None:
    (saved / integrity.SUMS).unlink()
    with pytest.raises(ValueError, match=r"SHA256SUMS: No such file .*run sha256sum .* > SHA256SUMS"):
        load_policy(saved)


@pytest.mark.parametrize(
    "line", ["", "0" * 64, "0" * 64 + "  ../agent.json", "0" * 64 + " *agent.json", "A" * 64 + "  agent.json"]
)
def test_digests_in_another_form_are_refused(saved: Path, line: str) -> None:
    (saved / integrity.SUMS).write_text((saved / integrity.SUMS).read_text() + line + "\n")
    with pytest.raises(ValueError, match="expected lines of a SHA-256 and a file name"):
        load_policy(saved)


def test_digests_without_the_weights_are_refused(saved: Path) -> None:
    lines = (saved / integrity.SUMS).read_text().splitlines(keepends=True)
    (saved / integrity.SUMS).write_text("".join(line for line in lines if WEIGHTS not in line))
    with pytest.raises(ValueError, match=r"lacks weights\.safetensors"):
        load_policy(saved)


@pytest.mark.parametrize("stop", range(4))
def test_a_crash_between_two_files_leaves_an_agent(
    saved: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """The process ends after `stop` of the files of a new agent: its digests, its weights, its digests alone."""
    before, written = opinionated().state_dict(), run_folder.write_atomically

    def crash(file: Path, content: bytes) -> None:
        nonlocal stop
        if stop == 0:
            raise KeyboardInterrupt
        stop -= 1
        written(file, content)

    monkeypatch.setattr("gpu_cluster_gym.agents.integrity.write_atomically", crash)
    after = opinionated(seed=1)
    with suppress(KeyboardInterrupt):
        checkpoint.save(saved, Agent(after, TINY, SCENARIO))
    found = checkpoint.load(saved).network.state_dict()
    assert any(
        all(torch.equal(found[name], it) for name, it in each.items())
        for each in (before, after.state_dict())
    )


def test_weights_without_bounds_or_of_another_type_or_shape_are_refused(saved: Path) -> None:
    whole = (saved / WEIGHTS).read_bytes()
    changes: list[tuple[Callable[[torch.Tensor], torch.Tensor], str]]
    unbounded = (float("nan"), float("inf"), -float("inf"), 1e38)
    kinds = (torch.float64, torch.float16, torch.int32, torch.bool)
    changes = [(partial(torch.full_like, fill_value=value), "expected finite values") for value in unbounded]
    changes += [(methodcaller("to", kind), r"expected torch.float32") for kind in kinds]
    changes += [(lambda it: it[None].contiguous(), r"expected torch.float32 \(")]
    for change, said in changes:
        (saved / WEIGHTS).write_bytes(whole)
        reweigh(saved, change)
        with pytest.raises(ValueError, match=said):
            load_policy(saved)


@pytest.mark.parametrize("name", [CHOICES, WEIGHTS, integrity.SUMS])
def test_only_regular_files_of_bounded_size_are_read(saved: Path, tmp_path: Path, name: str) -> None:
    (saved / name).rename(tmp_path / "elsewhere")
    (saved / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link"):
        load_policy(saved)
    (saved / name).unlink()
    os.mkfifo(saved / name)
    with pytest.raises(ValueError, match="expected a regular file"):
        load_policy(saved)
    (saved / name).unlink()
    with (saved / name).open("wb") as file:
        file.truncate(600_000_000)  # sparse
    with pytest.raises(ValueError, match="expected at most"):
        load_policy(saved)


@pytest.mark.parametrize("option", ["trace_file", "cluster", "run_time_predictor", "init_from"])
def test_options_of_an_agent_name_nothing_outside_its_folder(saved: Path, option: str) -> None:
    group = "training" if option == "init_from" else "scenario"
    options = json.loads((saved / CHOICES).read_text())[group]
    for path in ("/etc/passwd", "../other", "a/b", "..", "a\\b"):
        rewrite(saved, {group: options | {option: path}})
        with pytest.raises(ValueError, match=f"{option} .*: expected a name without a folder"):
            load_policy(saved)


def test_an_agent_keeps_only_the_names_of_the_files_of_its_training(tmp_path: Path) -> None:
    scenario = replace(SCENARIO, trace_file="/data/jobs.csv", cluster="../machines.csv")
    checkpoint.save(tmp_path / "agent", Agent(opinionated(), TINY, scenario))
    kept = checkpoint.load(tmp_path / "agent").scenario
    assert (kept.trace_file, kept.cluster) == ("jobs.csv", "machines.csv")


def test_no_file_named_by_an_agent_is_opened_for_its_scores(tmp_path: Path) -> None:
    checkpoint.save(
        tmp_path / "agent", Agent(opinionated(), TINY, replace(SCENARIO, trace_file="/data/jobs.csv"))
    )
    with pytest.raises(
        ValueError, match=r"trained with the file jobs.csv: name it with --trace-file, --cluster"
    ):
        trained_on([of_folder(tmp_path / "agent")])
