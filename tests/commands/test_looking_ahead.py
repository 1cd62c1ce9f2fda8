"""`--policy lookahead:NAME` is look-ahead based on a policy, compared with it; the base must be a rule or steer one."""

import json
from pathlib import Path

import pandas as pd
import pytest

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.resolve import BASELINES
from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.evaluate import chosen, main, print_notes, read_choices
from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead
from gpu_cluster_gym.simulator.rule_policy import Steered
from gpu_cluster_gym.workloads import Scenario
from tests.cases.crowd import TINY, opinionated


def test_look_ahead_is_compared_with_its_base(capsys: pytest.CaptureFixture[str]) -> None:
    """Constants, a pretrained agent, or union, each with and without look-ahead."""
    named = {
        "lookahead:constants": ["lookahead:constants", "constants", "union", *BASELINES, *FLOORS],
        "lookahead:ppo": ["lookahead:ppo", "ppo", *BASELINES, *FLOORS],
        "lookahead:union": ["lookahead:union", "union", *BASELINES, *FLOORS],
    }
    for name, rows in named.items():
        evaluation = read_choices(["--policy", name, "--workload", "mixed"])
        policies, reference = chosen(evaluation)
        print_notes(evaluation)
        assert list(policies) == rows
        assert reference == "fifo"
        ahead, on = list(policies.values())[:2]
        assert isinstance(ahead, LookAhead)
        assert isinstance(ahead.rule, Steered) or ahead.rule == on
    assert capsys.readouterr().out.count("ppo: the agent trained on mixed") == 1


@pytest.mark.parametrize("on", ["fifo", "tuned:xion", "ppo"])
def test_only_a_rule_over_moves_is_looked_ahead_on(on: str, tmp_path: Path) -> None:
    """Ppo stands for an agent of action plain, in a folder."""
    if on == "ppo":
        checkpoint.save(tmp_path / "best", Agent(opinionated(), TINY, Scenario()))
        on = str(tmp_path / "best")
    with pytest.raises(ValueError, match=f"lookahead:{on}: look-ahead requires the base policy union"):
        chosen(read_choices(["--policy", f"lookahead:{on}", "--workload", "mixed"]))


def test_look_ahead_is_not_based_on_an_agent_of_moves() -> None:
    with pytest.raises(
        ValueError, match=r"lookahead:ppo: .*for this workload, ppo is neither a rule nor a steering agent"
    ):
        chosen(read_choices(["--policy", "lookahead:ppo", "--workload", "aiturbo_ps"]))


def test_a_table_with_look_ahead(tmp_path: Path, capsys: pytest.CaptureFixture[str], patient: None) -> None:
    few = ("--workload", "mixed", "--jobs", "30", "--windows", "1", "--all-windows", "--out", str(tmp_path))
    assert main(["--policy", "lookahead:constants", *few]) == 0
    assert capsys.readouterr().err == ""
    assert "constants: union with " in (tmp_path / "notes.txt").read_text(encoding="utf-8")
    kept = json.loads((tmp_path / "summary.json").read_text())
    assert list(kept["mean_over_windows"])[:3] == ["lookahead:constants", "constants", "union"]
    without, ahead = (
        pd.read_csv(tmp_path / name / "jobs.csv") for name in ("constants", "lookahead_constants")
    )
    assert (without["submit_s"] == ahead["submit_s"]).all()
    assert (without["finish_s"] != ahead["finish_s"]).any()
