"""Policies under which jobs never end are left out of the table at the end of training, by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_cluster_gym.agents.callbacks import Validated
from gpu_cluster_gym.agents.training import SteerTraining
from gpu_cluster_gym.agents.validation import STALLED, Score
from gpu_cluster_gym.baselines import load
from gpu_cluster_gym.envs.agent_policy import ENDLESS
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.policy import Action, Policy
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.train_agent import Run, score_on, together, train
from tests.cases.crowd import crowded

WHY = "job 7 has failed 1,000 times"


def stuck(view: View) -> Action:
    """Raise as a policy under which jobs never end."""
    raise StalledEpisodeError(WHY)


def endless(view: View) -> Action:
    """Raise as an agent under which jobs never end."""
    raise StalledEpisodeError(ENDLESS)


def faulty(view: View) -> Action:
    raise RuntimeError("something else is wrong")


@pytest.fixture
def wanted(tmp_path: Path) -> Run:
    return Run(crowded(tmp_path), SteerTraining(), test_windows=2, processes=1)


def policies(**others: Policy) -> dict[str, Policy | type]:
    """Return the policies of a table, some of them replaced."""
    found: dict[str, Policy | type] = {"agent": load("srtf"), "union": load("las"), "fifo": load("fifo")}
    return found | others


@pytest.mark.parametrize(
    ("name", "policy", "why", "reference"),
    [("fifo", stuck, WHY, "union"), ("agent", endless, ENDLESS, "union"), ("union", stuck, WHY, "agent")],
)
def test_the_others_have_their_table(
    name: str,
    policy: Policy,
    why: str,
    reference: str,
    wanted: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = score_on(wanted, policies(**{name: policy}), 1, tmp_path / "run")
    assert set(found) == {"agent", "union", "fifo"} - {name}
    out = " ".join(capsys.readouterr().out.split())
    assert f"Left out: {name}, under which jobs never end: {why}." in out
    assert ("Mean JCT of the agent / union" in out) == (name == "fifo")
    assert ("No verdict on the agent: jobs never end under" in out) == (name != "fifo")
    kept = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert (kept["reference"], set(kept["by_window"])) == (reference, set(found))
    assert set(together([found, score_on(wanted, policies(), 1, tmp_path / "other")])) == set(found)


def test_an_error_reports_that_jobs_end_under_no_policy(wanted: Run, tmp_path: Path) -> None:
    nobody = policies(agent=stuck, union=stuck, fifo=stuck)
    with pytest.raises(StalledEpisodeError, match=f"jobs never end under any policy: {WHY}"):
        score_on(wanted, nobody, 1, tmp_path / "run")


def test_another_fault_is_no_reason_to_leave_a_policy_out(wanted: Run, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="something else is wrong"):
        score_on(wanted, policies(fifo=faulty), 1, tmp_path / "run")


def test_one_of_several_agents_without_an_end_leaves_no_verdict(
    wanted: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = {"agent_0": load("srtf"), "agent_1": stuck, "union": load("las")}
    score_on(replace(wanted, seeds=2), several, 2, tmp_path / "run")
    assert "No verdict on the 2 agents: jobs never end under agent_1." in capsys.readouterr().out


def test_where_no_validation_ends_there_is_no_agent_to_score(
    wanted: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = Score({}, {"start": STALLED}, {})

    def learned(*what: object, validated: Callable[[Validated], None], **how: object) -> Path:
        validated(Validated(0, never, never, best=False))
        return tmp_path / "best"

    monkeypatch.setattr("gpu_cluster_gym.agents.learn.learn", learned)
    with pytest.raises(ValueError, match="no agent is saved, since jobs never end"):
        train(wanted, 0, tmp_path)
