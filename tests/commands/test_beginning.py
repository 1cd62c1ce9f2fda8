"""`train_agent.py --init-from` begins elsewhere and says so; `benchmarks/evolve.py` keeps where constants are from."""

import json
from pathlib import Path

import pytest

from benchmarks import evolve
from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.constants import SEARCHED
from gpu_cluster_gym.simulator.rule import Rule
from gpu_cluster_gym.train_agent import main
from tests.cases.crowd import crowd

FEW = (
    *("--cluster", "2x8", "--jobs", "40", "--all-windows", "--windows", "4", "--validation-windows", "2"),
    *("--test-windows", "3", "--total-timesteps", "24", "--validate-every", "24", "--num-envs", "2"),
    *("--n-steps", "12", "--batch-size", "24", "--processes", "1"),
)


def trained(folder: Path, *args: str) -> int:
    return main(["--trace-file", crowd(folder / "jobs.csv"), *FEW, *args])


def test_an_agent_goes_on_from_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has the one at which it began, and the verdict is compared with that."""
    first, second = tmp_path / "first", tmp_path / "second"
    assert trained(tmp_path, "--out", str(first), "--weights", "price", "--decisions-per-window", "3") == 0
    capsys.readouterr()
    assert trained(tmp_path, "--out", str(second), "--init-from", str(first)) == 0
    out = capsys.readouterr().out
    rows = [line.split()[0] for line in out.splitlines() if line.startswith(("agent ", "began ", "start "))]
    assert rows[:3] == ["agent", "start", "began"]
    assert "where it began" in out
    kept = json.loads((second / "best" / "agent.json").read_text(encoding="utf-8"))["training"]
    assert (kept["init_from"], kept["weights"], kept["decisions_per_window"]) == (
        str(first.resolve()),
        ["price"],
        3,
    )


def test_a_wrong_beginning_is_refused_before_there_is_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trained(tmp_path, "--out", str(tmp_path / "run"), "--init-from", "constantz") == 2
    assert "begin constantz: expected union, constants, or the folder of an agent" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_constants_are_kept_with_where_they_are_from(tmp_path: Path) -> None:
    """Those found where finished jobs teach have a file of their own, which says at which weights the search began."""
    few = ("--population", "4", "--windows", "2", "--training", "2", "--choosing", "2", "--fresh", "2")
    begin = tmp_path / "begin.json"
    begin.write_text(json.dumps({"weights": {"price": 3.0}}), encoding="utf-8")
    args = ["--workload", "mixed", "--generations", "2", *few, "--history", "--init-from", str(begin)]
    evolve.main([*args, "--out", str(tmp_path)])
    kept = json.loads((tmp_path / f"mixed{baselines.TAUGHT}.json").read_text(encoding="utf-8"))
    assert kept["history"] is True
    assert f"--init-from {begin}" in kept["command"]
    assert "--history" in kept["command"]
    assert set(kept["weights"]) < set(Rule.__dataclass_fields__)
    assert not (tmp_path / "mixed.json").exists()


def test_a_search_begins_at_the_weights_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "begin.json"
    file.write_text(json.dumps({"weights": {"price": 3.0}}), encoding="utf-8")
    found = evolve.offsets_of(file)
    named = dict(zip(SEARCHED, found, strict=True))
    assert named.pop("price") > 0
    assert set(named.values()) == {0.0}
