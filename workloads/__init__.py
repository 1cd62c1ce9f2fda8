"""Scenarios, the windows and full traces they describe, and the named workloads.

A public module of this folder is a named workload: it defines a `scenario` and, where no trace provides its jobs, the
`trace` that generates them. Flags override the fields of a scenario. Other packages add workloads by entry points in
the group `gpu_cluster_gym.workloads`: such a module, or a Scenario.
"""

from __future__ import annotations

if __name__ != "gpu_cluster_gym.workloads":
    raise ImportError("workloads is part of a package: import gpu_cluster_gym.workloads, not workloads")

from collections.abc import Mapping
from typing import Any

from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.traces import available, did_you_mean, find
from gpu_cluster_gym.workloads._present import Present, present
from gpu_cluster_gym.workloads._scenario import FULL_TRACE, PARTS, PROPORTIONAL, Scenario, Split, Window
from gpu_cluster_gym.workloads._shifts import SHIFTS, TRAINING_SHIFTS, applicable, describe_shift
from gpu_cluster_gym.workloads._steady import loads
from gpu_cluster_gym.workloads._windows import (
    ACCEPTANCE,
    ACCEPTED_RANGE,
    MAX_CANDIDATES,
    accepted,
    up_to,
    windows,
)
from gpu_cluster_gym.workloads._workload import (
    FILES,
    Workload,
    cached,
    filled,
    full_trace,
    load,
    prepare,
    seed_of_jobs,
    shifted,
    with_physics,
)

__all__ = [
    "ACCEPTANCE",
    "ACCEPTED_RANGE",
    "FILES",
    "FULL_TRACE",
    "MAX_CANDIDATES",
    "PARTS",
    "PROPORTIONAL",
    "SHIFTS",
    "TRAINING_SHIFTS",
    "Present",
    "Scenario",
    "Split",
    "Window",
    "Workload",
    "accepted",
    "applicable",
    "cached",
    "describe_shift",
    "filled",
    "full_trace",
    "load",
    "loads",
    "make_scenario",
    "named",
    "names",
    "prepare",
    "present",
    "seed_of_jobs",
    "shifted",
    "up_to",
    "windows",
    "with_physics",
]


def names() -> list[str]:
    """Return the names of all workloads."""
    return available("workloads")


def named(name: str) -> Scenario:
    """Return the scenario of a named workload; ValueError for an unknown name lists the known ones and the nearest."""
    found: Scenario = find("workloads", name, "scenario", "workload")
    return found


def make_scenario(workload: str | None = None, fields: Mapping[str, Any] | None = None) -> Scenario:
    """Return the scenario of a named workload, by default Philly's, with some fields replaced, and physics spelt out.

    Raise ValueError for an unknown workload or field, for a value that is not allowed, and for a workload's name in
    place of the fields.
    """
    if isinstance(fields, str):
        raise ValueError(
            f"scenario {fields!r}: expected a dict of fields; pass the name of a workload as "
            f"workload={fields!r}{did_you_mean(fields, names())}"
        )
    if isinstance(fields, Mapping) and "workload" in fields:
        raise ValueError("scenario: 'workload' is not one of its fields; pass it as the keyword workload=")
    usual = Scenario() if workload is None else named(workload)
    return with_physics(changed(usual, {} if fields is None else fields))
