"""Every policy gives the frozen results of `benchmarks/per_window.csv`, inside the kernel and step by step."""

import csv
import hashlib
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace, named, windows
from tests.cases import tiny
from tests.cases.shaped_jobs import TROUBLES, shaped
from tests.conftest import ROOT

WORKLOADS = ("mixed", "aiturbo_ps", "xion_small", "xonar_memory", "xonar_mix")
"""Workloads whose episodes take few seconds under every policy."""

VARIANTS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("aiturbo", {}, "d61736441af3f278"),
    ("aiturbo", {"borda": False}, "a75659ead964022d"),
    ("aiturbo", {"queues": True}, "72de1a84b4c0d619"),
    ("aiturbo", {"elastic": False}, "5a4c356fa9481931"),
    ("aiturbo", {"cpu_workers": False}, "e811eb6d83a0792d"),
    ("aiturbo", {"predictable": "all"}, "6c88e8f003e45bb0"),
    ("aiturbo", {"servers_on_gpus": True}, "60f50b4febc9906b"),
    ("optimus", {}, "8fb25fdb56c40f51"),
    ("optimus", {"error": 0.5}, "b895399f945ac917"),
    ("gavel", {}, "60dc2d75c9df3f51"),
    ("gavel", {"objective": "throughput"}, "f915089cc289a786"),
    ("tiresias", {"servers_on_gpus": True}, "e17a920bb0c4af6d"),
    ("union", {}, "09daf50edee21e70"),
)
"""Policies, settings, and digests on nodes that fail, which independent implementations in plain Python gave.

That of `union` was frozen in November 2026.
"""


@cache
def frozen() -> dict[str, list[dict[str, str]]]:
    """Return the rows of each workload."""
    with (ROOT / "benchmarks" / "per_window.csv").open(newline="", encoding="utf-8") as lines:
        rows = csv.DictReader(lines)
        return {name: list(group) for name, group in groupby(rows, lambda row: row["workload"])}


def digest(policy: Policy, load: Workload, *, step_by_step: bool = False) -> str:
    """Return a digest of the times at which jobs end."""
    table = load.results(run(policy, load.episode(), step_by_step=step_by_step, oracle=True))
    return hashlib.sha256(table["finish_s"].to_numpy(float).tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_results_equal_the_frozen_ones(workload: str) -> None:
    (load,) = windows(named(workload), "test", 1)
    differ = []
    for row in frozen()[workload]:
        if row["window"] == "0":
            for stepwise in (False, True):
                made = baselines.make(baselines.load(row["policy"]))
                if digest(made, load, step_by_step=stepwise) != row["digest"]:
                    differ.append((row["policy"], stepwise))
    assert differ == []


def test_variants_equal_the_frozen_ones_on_nodes_that_fail(tmp_path: Path) -> None:
    """Jobs crash and run out of memory, some have servers, and nodes of two types close."""
    load = full_trace(Scenario(**tiny.scenario(tmp_path, shaped(0), physics="all", **TROUBLES)))
    differ = []
    for name, choices, expected in VARIANTS:
        policy: Any = baselines.load(name)
        if digest(policy(**choices) if choices else baselines.make(policy), load) != expected:
            differ.append((name, choices))
    assert differ == []


def test_the_number_of_levels_of_tiresias_is_limited() -> None:
    policy: Any = baselines.load("tiresias")
    with pytest.raises(ValueError, match="9 limits between queues: expected at most 8"):
        policy(limits=tuple(map(float, range(1, 10))))
