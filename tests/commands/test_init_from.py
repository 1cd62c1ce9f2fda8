"""`train_agent.py --init-from` trains from other policies; `python -m benchmarks.keep_constants` keeps constants."""

import json
from pathlib import Path

import pytest

from benchmarks import keep_constants
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.rule_policy import RULE_PARAMETERS, Rule
from gpu_cluster_gym.train_agent import main
from tests.cases.crowd import crowd

FEW = (
    *("--action", "steer"),
    *("--cluster", "2x8", "--jobs", "40", "--all-windows", "--windows", "4", "--validation-windows", "2"),
    *("--test-windows", "3", "--total-timesteps", "24", "--validate-every", "24", "--num-envs", "2"),
    *("--n-steps", "12", "--batch-size", "24", "--processes", "1"),
)


def trained(folder: Path, *args: str) -> int:
    return main(["--trace-file", crowd(folder / "jobs.csv"), *FEW, *args])


def test_an_agent_is_trained_from_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has the initial agent, and the verdict is relative to it."""
    first, second = tmp_path / "first", tmp_path / "second"
    assert trained(tmp_path, "--out", str(first), "--weights", "price", "--decisions-per-window", "3") == 0
    capsys.readouterr()
    assert trained(tmp_path, "--out", str(second), "--init-from", str(first)) == 0
    out = capsys.readouterr().out
    rows = [line.split()[0] for line in out.splitlines() if line.startswith(("agent ", "initial ", "union "))]
    assert rows[:3] == ["agent", "union", "initial"]
    assert "Mean JCT of the agent / initial (its initial policy)" in out
    kept = json.loads((second / "best" / "agent.json").read_text(encoding="utf-8"))["training"]
    assert (kept["init_from"], kept["weights"], kept["decisions_per_window"]) == (
        first.name,  # no path of the machine
        ["price"],
        3,
    )
    with pytest.raises(
        ValueError, match="RUN requires an agent trained with --action steer --algorithm search"
    ):
        keep_constants.main([str(second), "--workload", "mixed", "--out", str(tmp_path)])


def test_an_unknown_initial_policy_is_refused_before_there_is_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trained(tmp_path, "--out", str(tmp_path / "run"), "--init-from", "constantz") == 2
    assert "--init-from constantz: expected union, constants, or the folder" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_constants_are_kept_with_their_source(tmp_path: Path) -> None:
    """A search is a training without PPO; its result is a rule."""
    run = tmp_path / "run"
    assert trained(tmp_path, "--out", str(run), "--algorithm", "search") == 0
    keep_constants.main([str(run), "--workload", "mixed", "--out", str(tmp_path)])
    kept = json.loads((tmp_path / "mixed.json").read_text(encoding="utf-8"))
    assert "--algorithm search" in kept["command"]
    assert (kept["with_history"], kept["seed"]) == (False, 0)
    assert kept.keys() >= {"physics", "streams", "commit", "episodes", "validation", "windows"}
    assert set(kept["weights"]) == {each.name for each in RULE_PARAMETERS if each.scale > 0}
    assert isinstance(baselines.vary(Rule(), **kept["weights"]), Rule)
