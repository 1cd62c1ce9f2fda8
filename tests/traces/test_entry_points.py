"""Traces, workloads and policies of other installed packages, by entry points."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_gym import baselines, traces, workloads
from gpu_cluster_gym.simulator.episode import run

MODULE = """
from gpu_cluster_gym import traces
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import Scenario, named

policy = Ranking("estimate")
scenario = Scenario(trace="their_workload", cluster="1x2", jobs=8, physics="preemption", all_windows=True)

def trace(file=None, *, seed, jobs=None):
    return traces.load("philly", seed=seed, jobs=4000).query("num_gpus == 1").head(jobs).reset_index(drop=True)

def srtf(view):
    return Ranking("remaining")(view)

number = 3
"""
ENTRY_POINTS = """
[gpu_cluster_gym.policies]
their_sjf = their_lab
their_srtf = their_lab:srtf
their_number = their_lab:number
their_typo = their_lab:nothing
their_json = json
fifo = their_lab:srtf

[gpu_cluster_gym.traces]
their_trace = their_lab:trace

[gpu_cluster_gym.workloads]
their_workload = their_lab
their_scenario = their_lab:scenario
"""


@pytest.fixture(autouse=True)
def their_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a package on the path: a module, and the metadata of a distribution."""
    (tmp_path / "their_lab.py").write_text(MODULE, encoding="utf-8")
    info = tmp_path / "their_lab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-lab\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("their_lab", None)


def test_names_are_listed_without_importing_them() -> None:
    sys.modules.pop("their_lab", None)  # an earlier test may have loaded one by that name
    assert {"fifo", "their_sjf", "their_srtf"} <= set(baselines.names())
    assert {"philly", "their_trace"} <= set(traces.names())
    assert {"philly", "their_workload", "their_scenario"} <= set(workloads.names())
    assert "their_lab" not in sys.modules


def test_names_of_this_package_take_precedence() -> None:
    assert baselines.names().count("fifo") == 1
    assert baselines.load("fifo").key == "submit"  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "like"), [("their_sjf", "sjf"), ("their_srtf", None)])
def test_a_policy_runs_on_their_workload(name: str, like: str | None) -> None:
    load = workloads.windows(workloads.named("their_workload"), "test", 1)[0]

    def results(policy: str) -> Any:
        return load.results(run(baselines.make(baselines.load(policy)), load.episode()))

    found = results(name)
    assert len(found) == 8
    assert like is None or found.equals(results(like))


def test_a_scenario_and_a_trace_may_be_objects() -> None:
    assert workloads.named("their_scenario") == workloads.named("their_workload")
    assert set(traces.load("their_trace", seed=0, jobs=5)["num_gpus"]) == {1}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("their_typo", "policy 'their_typo': entry point 'their_lab:nothing' cannot be loaded"),
        ("their_json", "policy 'their_json': module json does not define 'policy'"),
        ("their_number", "policy 'their_number': its entry point is not callable"),
        (
            "their_srft",
            "unknown policy 'their_srft': expected one of .*their_srtf.*did you mean 'their_srtf'",
        ),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        baselines.load(name)


@pytest.mark.parametrize(("kind", "name"), [("policies", "their_sjf"), ("workloads", "their_workload")])
def test_a_command_lists_them_with_the_others(kind: str, name: str, their_lab: Path) -> None:
    code = f"from gpu_cluster_gym.evaluate import main; raise SystemExit(main(['--list', '{kind}']))"
    paths = os.pathsep.join([str(their_lab), *sys.path[1:]])
    env = os.environ | {"PYTHONPATH": paths}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert f"\n{name} " in found.stdout
