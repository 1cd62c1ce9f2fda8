"""Pretrained agents have a card with their results, and `--policy ppo` finds the right one."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ship
from gpu_cluster_gym import baselines, evaluate
from gpu_cluster_gym.agents import checkpoint, load_policy, pretrained
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.protocol import Candidate, trained_on
from gpu_cluster_gym.agents.set_network import SamplingAgent
from gpu_cluster_gym.agents.training import MovesTraining, PlainTraining, SteerTraining
from gpu_cluster_gym.baselines import load
from gpu_cluster_gym.envs.agent_policy import MovesAgent
from gpu_cluster_gym.evaluation import choices, comparison
from gpu_cluster_gym.simulator.rule_policy import Steered
from gpu_cluster_gym.train_agent import main as train
from gpu_cluster_gym.workloads import Scenario, named, names
from tests.cases.crowd import crowd

SHIPPED = pretrained.shipped()
FEW = (
    *("--action", "steer"),
    *("--cluster", "2x8", "--jobs", "40", "--all-windows", "--windows", "2", "--validation-windows", "2"),
    *("--test-windows", "2", "--total-timesteps", "48", "--validate-every", "24", "--num-envs", "4"),
    *("--n-steps", "6", "--batch-size", "24", "--physics", "exclusive", "--seeds", "2"),
    *("--processes", "1"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train two agents on a small trace, without images."""
    folder = tmp_path_factory.mktemp("ship")
    trace = crowd(folder / "jobs.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpu_cluster_gym.agents.callbacks.show_image", lambda *drawn: None)
        assert train(["--trace-file", trace, *FEW, "--out", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture
def shipped(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ship an agent of the run into a folder of the test."""
    for module in (pretrained, ship):
        monkeypatch.setattr(module, "SHIPPED", tmp_path)
    ship.main([str(run), "--name", "all"])
    return tmp_path / "all"


def test_the_best_on_validation_windows_is_shipped_with_its_card(run: Path, shipped: Path) -> None:
    card = (shipped / pretrained.CARD).read_text(encoding="utf-8")
    seeds = ship.seeds_of(run)
    best = min(seeds, key=lambda seed: seed.validation)
    assert checkpoint.load(shipped).training == checkpoint.load(best.folder / "best").training
    assert f"{best.validation:.4f} (this agent)" in card
    for seed in seeds:
        assert f"{seed.validation:.4f}" in card
    assert "## On 2 test windows of `own`" in card
    rows = re.findall(r"^\| (.+) \| \d\.\d{3} \| \d\.\d{3}-\d\.\d{3} \| [012] \|$", card, re.MULTILINE)
    assert {"its constant-action control", "`union`, its initial policy", "`fifo`", "`xion`"} <= set(rows)
    assert "--config agents/shipped/all/choices.json" in card


def test_a_students_card_has_its_allowed_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no constant-action policy."""
    monkeypatch.setattr("gpu_cluster_gym.agents.callbacks.show_image", lambda *drawn: None)
    for module in (pretrained, ship):
        monkeypatch.setattr(module, "SHIPPED", tmp_path / "shipped")
    student = ("--action", "moves", "--allowed-moves", "start", "move", "--out", str(tmp_path / "run"))
    fewer = [{"40": "20", "48": "24"}.get(word, word) for word in FEW[2:]]
    assert train(["--trace-file", crowd(tmp_path / "jobs.csv"), *fewer, *student]) == 0
    ship.main([str(tmp_path / "run"), "--name", "all"])
    card = (tmp_path / "shipped" / "all" / pretrained.CARD).read_text(encoding="utf-8")
    assert "\nThis agent imitates look-ahead on the rule `union`: " in card
    assert "Moves that may replace the rule's own: `start`, `move`." in card
    assert "It chooses among the moves of a list" in card
    assert "constant-action" not in card
    assert "Weights:" not in card


def test_an_agent_without_card_replaces_no_shipped_agent(
    run: Path, shipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {each.name: each.read_bytes() for each in shipped.iterdir()}
    shutil.copytree(run, tmp_path / "picks")
    for seed in ship.seeds_of(tmp_path / "picks"):
        by_ppo = MovesTraining(algorithm="ppo")
        agent, about = (
            Agent(checkpoint.new_network(by_ppo), by_ppo, Scenario()),
            checkpoint.about(seed.folder / "best"),
        )
        shutil.rmtree(seed.folder / "best")
        checkpoint.save(seed.folder / "best", agent, about=about)
    with pytest.raises(SystemExit):
        ship.main([str(tmp_path / "picks"), "--name", "all"])
    assert "steering and plain agents and for students of look-ahead only" in capsys.readouterr().err
    assert {each.name: each.read_bytes() for each in shipped.iterdir()} == before


def test_policy_ppo_is_the_agent_shipped_for_the_workload_or_for_all(
    shipped: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    few = ("--cluster", "4x8", "--jobs", "30", "--windows", "2", "--all-windows")
    assert evaluate.main(["--policy", "ppo", *few, "--out", str(tmp_path / "other")]) == 0
    out = capsys.readouterr().out
    assert "ppo: the general agent, since this scenario is not a named workload" in out
    assert re.search(r"^ppo +[\d,]+ ", out, re.MULTILINE)
    shipped.rename(shipped.with_name("quick"))
    assert pretrained.shipped_for("quick").folder.name == "quick"
    with pytest.raises(ValueError, match="no pretrained agent for mixed"):
        pretrained.shipped_for("mixed")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_agents_can_be_read_and_have_a_card(name: str) -> None:
    assert name in (pretrained.FOR_ALL, pretrained.PLAIN, *names())
    found = pretrained.shipped_plain() if name == pretrained.PLAIN else pretrained.shipped_for(name)
    agent: Any = checkpoint.load(found.folder)
    kind = {"steer": Steered, "moves": MovesAgent, "plain": SamplingAgent}[agent.training.action]
    assert isinstance(load_policy(found.folder), kind)
    card = (found.folder / pretrained.CARD).read_text(encoding="utf-8")
    for word in ("commit", "Trained on", "Reproduce", "test windows", "## Limitations"):
        assert word in card, word
    training = agent.training
    if not isinstance(training, PlainTraining):
        levers = training.weights if isinstance(training, SteerTraining) else training.allowed_moves
        assert levers
        assert all(f"`{lever}`" in card for lever in levers)


def test_the_agents_of_a_run_are_judged(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        comparison, "IQM_RESAMPLES", 100
    )  # for each of many policies; limits are not looked at
    flags = ["--windows", "2", "--out", str(tmp_path / "judged"), "--policy", "srsf"]
    assert evaluate.main(["--protocol", str(run), *flags]) == 0
    out = capsys.readouterr().out
    notes = (tmp_path / "judged" / "notes.txt").read_text(encoding="utf-8")
    rows = re.findall(r"^(.+?) +\d\.\d{3} +\d+\.\d{3}-\d\.\d{3} ", out, re.MULTILINE)
    assert {"mean_action", "fifo", "union", "srtf_oracle", "union_oracle", "srsf"} <= set(rows)
    assert "xonar" not in rows  # no job shares under --physics exclusive
    assert "mean JCT of 2 agents / that of the policy on 2 test windows" in " ".join(out.split())
    assert re.search(r"^load x 1\.25 +\d\.\d{3} \(\d\.\d{3}-\d\.\d{3}\) ", notes, re.MULTILINE)
    assert "too few windows for reliable intervals" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 100
    judged, learned = (
        choices.from_file(folder, evaluate.Evaluation) for folder in (tmp_path / "judged", run)
    )
    assert judged.items() >= learned.items()
    assert "2 test windows of 40 jobs" in (tmp_path / "judged" / "provenance.json").read_text(
        encoding="utf-8"
    )
    found = json.loads((tmp_path / "judged" / "protocol.json").read_text(encoding="utf-8"))
    assert found["against"]["fifo"]["windows"] == 2
    assert "the other form of contention" not in found["shifts"]  # under --physics exclusive
    assert 0 < found["gap_closed"]["srtf_oracle"] <= 1
    assert found["gap_closed"]["fifo"] < 0
    assert re.search(r"^srtf_oracle +\d+\.\d%$", notes, re.MULTILINE)
    assert not re.search(r"^fifo +-", notes, re.MULTILINE)
    assert found["to_bound"]["low"] >= 1
    assert f"Mean JCT of 2 agents / a lower bound for any schedule: {found['to_bound']['ratio']:.3f} (" in out
    shifts = notes.partition("Under shifts")[2].partition("CPU seconds")[0].splitlines()[2:-1]
    assert all(re.match(r"\S.{36} \d\.\d{3} \(", line) for line in shifts), shifts
    again = [*found["by_window"]["agent_0"], *found["by_window"]["agent_1"]]
    ratios = [
        ours["mean_jct_s"] / theirs["mean_jct_s"]
        for ours, theirs in zip(again, found["by_window"]["fifo"] * 2, strict=True)
    ]
    assert found["against"]["fifo"]["mean"]["ratio"] == pytest.approx(sum(ratios) / 4)


def test_agents_of_another_library_are_judged_one_a_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "IQM_RESAMPLES", 100)
    monkeypatch.setattr(baselines, "quick_names", lambda: ["fifo", "sjf", "srtf"])
    (tmp_path / "theirs.py").write_text(
        "from gpu_cluster_gym.baselines import load\nseed_0, seed_1 = load('srtf'), load('fifo')\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)  # where a user's own module lies
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    few = ["--cluster", "4x8", "--jobs", "30", "--windows", "2", "--all-windows"]
    out = ["--out", str(tmp_path / "judged")]
    assert evaluate.main(["--protocol", "theirs:seed_0", "theirs:seed_1", *few, *out]) == 0
    said = capsys.readouterr().out
    assert "mean JCT of 2 agents / that of the policy" in " ".join(said.split())
    assert "they are not known for all agents" in (tmp_path / "judged" / "notes.txt").read_text(
        encoding="utf-8"
    )
    found = json.loads((tmp_path / "judged" / "protocol.json").read_text(encoding="utf-8"))
    mine = found["by_window"]
    assert [row["mean_jct_s"] for row in mine["agent_0"]] == [row["mean_jct_s"] for row in mine["srtf"]]
    assert [row["mean_jct_s"] for row in mine["agent_1"]] == [row["mean_jct_s"] for row in mine["fifo"]]
    assert "mean_action" not in found["against"]
    for wrong, why in (
        (("theirs:seed_2",), "no callable attribute"),
        (("theirs:seed_0", "theirs:seed_0"), "names an agent twice"),
    ):
        assert evaluate.main(["--protocol", *wrong, *few]) == 2
        assert why in capsys.readouterr().err
    assert evaluate.main(["--protocol", "theirs:seed_0", "--full-trace"]) == 2
    assert "drop it or --protocol, which needs windows" in capsys.readouterr().err


def test_agents_trained_on_one_scenario_or_on_named_workloads() -> None:
    quick, mixed = (Candidate(lambda: load("fifo"), scenario=named(each)) for each in ("quick", "mixed"))
    unknown = Candidate(lambda: load("fifo"))
    assert trained_on([unknown, quick]) == named("quick")
    assert trained_on([unknown]) is None
    with pytest.raises(ValueError, match="trained on different scenarios"):
        trained_on([quick, mixed])


def test_a_folder_without_agents_is_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main(["--protocol", str(tmp_path)]) == 2
    assert re.search(r"has no readable agent.*module with an AgentPolicy", capsys.readouterr().err)
    assert evaluate.main(["--protocol", str(tmp_path), "--paper", "xion"]) == 2
    assert "--paper cannot be combined" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("mylab.agent", "such as mylab.agent:policy"),
        ("mylab/agent.py", "such as mylab.agent:policy"),
        ("mylab/agent.zip", "a module that loads it into an AgentPolicy"),
    ],
)
def test_a_file_is_no_policy(
    asked: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mylab").mkdir()
    for name in ("agent.py", "agent.zip"):
        (tmp_path / "mylab" / name).touch()
    assert evaluate.main(["--policy", asked, "--workload", "quick", "--windows", "1"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "expected one of" not in error


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--report",), "--report and --perfetto require --policy"),
        (("--policy", "fifo", "fifo"), "fifo twice"),
        (("--policy", "nobody"), "unknown policy 'nobody'"),
    ],
)
def test_a_judgement_takes_policies_as_a_table_does(
    flags: tuple[str, ...], said: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors come before there is a folder."""
    named = () if "--policy" in flags else ("--policy", "srsf")
    out = tmp_path / "judged"
    assert evaluate.main(["--protocol", str(run), *named, *flags, "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_a_judgement_names_the_agent_it_compares_with(capsys: pytest.CaptureFixture[str]) -> None:
    folder = pretrained.shipped_for("mixed").folder
    asked = ["--protocol", str(folder), "--policy", "ppo", "--workload", "busy"]
    evaluate.judgement(*evaluate.candidates_of(evaluate.read_choices(asked), {"workload": "busy"}))
    assert capsys.readouterr().out.count("ppo: the agent trained on busy; see ") == 1
