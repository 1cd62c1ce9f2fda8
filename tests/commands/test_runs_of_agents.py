"""Agents of runs are judged on their training scenario; runs of several agents or unfinished ones are reported."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_cluster_gym import evaluate, train_agent
from gpu_cluster_gym.agents import checkpoint, pretrained
from gpu_cluster_gym.agents import resolve as policies
from gpu_cluster_gym.agents.protocol import all_candidates
from gpu_cluster_gym.agents.training import SteerTraining
from gpu_cluster_gym.evaluation import choices, run_folder
from gpu_cluster_gym.simulator.choice import ChoiceError
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.workloads import Scenario, named
from tests.cases.crowd import crowd

MIXED = pretrained.shipped_for("mixed").folder
SEVERAL = pretrained.shipped_for(None).folder
FEW = (
    *("--cluster", "2x8", "--jobs", "40", "--all-windows", "--windows", "2", "--validation-windows", "2"),
    *("--test-windows", "2", "--total-timesteps", "24", "--validate-every", "24", "--num-envs", "4"),
    *("--n-steps", "6", "--batch-size", "24", "--physics", "exclusive", "--processes", "1"),
)


def judged_on(*flags: str) -> Scenario:
    """Return the scenario on which agents are judged, by the flags of evaluate.py."""
    args = ["--protocol", *flags]
    asked = choices.asked_for(args, evaluate.Evaluation)
    return evaluate.candidates_of(evaluate.read_choices(args), asked)[0].scenario


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """Return an unfinished run of two agents."""
    for seed in (0, 1):
        shutil.copytree(MIXED, tmp_path / "five" / f"seed-{seed}" / run_folder.BEST)
    run_folder.write_json(tmp_path / "five" / run_folder.STATUS, {"status": "running"})
    return tmp_path / "five"


def test_agents_are_judged_on_their_training_scenario_with_flags_on_top(tmp_path: Path) -> None:
    learned = checkpoint.load(MIXED).scenario
    assert judged_on(str(MIXED)) == learned
    assert judged_on(str(MIXED), "--seed", "1", "--tick", "60") == replace(learned, seed=1, tick=60.0)
    assert judged_on(str(MIXED), "--workload", "busy", "--seed", "1") == replace(named("busy"), seed=1)
    assert judged_on(str(MIXED), "--trace", "philly") == replace(named("philly"), trace="philly")
    file = crowd(tmp_path / "jobs.csv")
    assert judged_on(str(MIXED), "--trace-file", file) == Scenario(trace_file=file)


def test_explicit_defaults_override(tmp_path: Path) -> None:
    """An explicit default overrides the training scenario."""
    learned = checkpoint.load(MIXED).scenario
    usual = Scenario().physics_name
    assert judged_on(str(MIXED), "--physics", usual) == replace(learned, physics=usual)
    assert learned.physics != usual
    file = tmp_path / "mine.json"
    file.write_text('{"seed": 1, "windows": 2}')
    assert judged_on(str(MIXED), "--config", str(file)) == replace(learned, seed=1)
    ran = run_folder.open_run_folder("test", evaluate.Evaluation(scenario=named("busy")), tmp_path / "ran")
    assert judged_on(str(MIXED), "--config", str(ran)) == named("busy")


def test_an_agent_of_several_workloads_is_judged_on_the_first_with_a_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    judged_on(str(SEVERAL))
    assert "trained on 8 workloads; windows are of the first" in capsys.readouterr().out
    judged_on(str(SEVERAL), "--workload", "busy")
    assert capsys.readouterr().out == ""


def test_the_same_agent_is_no_second_seed_however_it_is_written(five: Path) -> None:
    assert len(all_candidates([str(five)])) == 2
    for again in (f"{five}/", five / "seed-1" / "best", five / ".." / "five" / "seed-0"):
        with pytest.raises(ValueError, match=r"names an agent twice: name .*seed-[01].* once"):
            all_candidates([str(five), str(again)])


@pytest.mark.parametrize("part", ["", "seed-0", "seed-0/best"])
def test_an_unfinished_run_is_reported(five: Path, part: str) -> None:
    assert "five has not finished" in next(policies.notes([str(five / part)], named("mixed")))
    run_folder.write_json(five / run_folder.STATUS, {"status": "finished"})
    assert list(policies.notes([str(five / part)], named("mixed"))) == []


def test_a_run_of_several_agents_is_no_agent(five: Path) -> None:
    with pytest.raises(ValueError, match="has several agents: name one of its folders seed-0, seed-1"):
        policies.load(str(five), named("mixed"))


def test_distillation_takes_no_initial_agent() -> None:
    with pytest.raises(ChoiceError, match="expected union or constants with --algorithm distillation"):
        SteerTraining(algorithm="distillation", init_from=str(MIXED))


@pytest.mark.parametrize("left", ["", "seed-0/checkpoints", "fifo", "seed-0"])
def test_the_folder_of_a_failed_run_is_free_again_unless_something_is_left_in_it(
    tmp_path: Path, left: str
) -> None:
    """Agents, results or curves of a failed run could be mistaken for those of the next."""
    folder = run_folder.open_run_folder("test", Scenario(), tmp_path / "run")
    run_folder.write_json(folder / run_folder.STATUS, {"status": "failed"})
    if not left:
        assert run_folder.open_run_folder("test", Scenario(seed=1), folder) == folder
        assert json.loads((folder / run_folder.CHOICES).read_text())["seed"] == 1
        return
    (folder / left).mkdir(parents=True)
    with pytest.raises(
        ValueError, match=rf"is not empty \({left.split('/')[0]} ... of a failed run\): remove it"
    ):
        run_folder.open_run_folder("test", Scenario(), folder)
    assert (folder / run_folder.CHOICES).exists()


def test_jobs_that_never_end_are_reported_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stuck(*what: object) -> None:
        raise StalledEpisodeError("job 7 has failed 1,000 times")

    monkeypatch.setattr(train_agent, "train", stuck)
    out = tmp_path / "run"
    file = crowd(tmp_path / "jobs.csv")
    assert train_agent.main(["--trace-file", file, *FEW, "--out", str(out)]) == 2
    assert f"job 7 has failed 1,000 times; the agents so far are in {out}" in capsys.readouterr().err
    assert json.loads((out / run_folder.STATUS).read_text())["status"] == "failed"


def test_a_scenario_with_the_name_of_another_that_is_learned_on_keeps_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--workload xonar_mix --jobs 9 --extra-workloads xonar_mix`: training on both, and a table for each."""
    tables: list[str] = []

    def scored(wanted: train_agent.Run, policies: object, count: int, folder: Path) -> dict[str, object]:
        tables.append(f"{folder.name} {wanted.scenario.jobs}")
        return {}

    monkeypatch.setattr(train_agent, "score_on", scored)
    monkeypatch.setattr("gpu_cluster_gym.agents.table.in_table", lambda *what: {})
    monkeypatch.setattr("gpu_cluster_gym.agents.table.verdicts", lambda *what: [""])
    own = replace(named("xonar_mix"), jobs=9)
    training = SteerTraining(extra_workloads=("xonar_mix",))
    wanted = train_agent.Run(own, training, workload="xonar_mix")
    with pytest.raises((KeyError, IndexError)):  # there is no agent to name in the end
        train_agent.score(wanted, [], tmp_path)
    assert tables == ["own 9", "xonar_mix 10"]
