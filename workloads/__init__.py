"""What is simulated: scenarios, the windows and whole traces they stand for, and the named workloads.

A public module of this folder is a named workload: its `scenario`, and where no trace brings its jobs, the `trace` that
invents them. Flags override the fields of a scenario.
"""

from __future__ import annotations

if __name__ != "gpu_cluster_gym.workloads":
    raise ImportError("workloads is part of a package: import gpu_cluster_gym.workloads, not workloads")

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.traces import did_you_mean, find, modules
from gpu_cluster_gym.workloads._files import kept
from gpu_cluster_gym.workloads._scenario import FULL_TRACE, PARTS, Scenario, Split, Window
from gpu_cluster_gym.workloads._shifts import SHIFTS, VARIED, applicable, in_words, shifted

if TYPE_CHECKING:
    from gpu_cluster_gym.workloads._windows import (
        ACCEPTANCE,
        ACCEPTED_RANGE,
        MOST_TRIED,
        accepted,
        up_to,
        windows,
    )
    from gpu_cluster_gym.workloads._workload import Workload, filled, full_trace, load, prepare, seed_of_jobs

__all__ = [
    "ACCEPTANCE",
    "ACCEPTED_RANGE",
    "FULL_TRACE",
    "MOST_TRIED",
    "PARTS",
    "SHIFTS",
    "VARIED",
    "Scenario",
    "Split",
    "Window",
    "Workload",
    "accepted",
    "applicable",
    "chosen",
    "filled",
    "full_trace",
    "in_words",
    "kept",
    "load",
    "named",
    "names",
    "prepare",
    "seed_of_jobs",
    "shifted",
    "up_to",
    "windows",
]

_LATER = dict.fromkeys(
    ("ACCEPTANCE", "MOST_TRIED", "ACCEPTED_RANGE", "accepted", "up_to", "windows"), "_windows"
) | (dict.fromkeys(("Workload", "filled", "load", "prepare", "seed_of_jobs", "full_trace"), "_workload"))


if not TYPE_CHECKING:  # else a checker would believe in any name

    def __getattr__(name: str) -> Any:
        """Import what needs pandas and the kernel when it is first asked for."""
        if name not in _LATER:
            raise AttributeError(f"module 'workloads' has no attribute {name!r}")
        return getattr(import_module(f"gpu_cluster_gym.workloads.{_LATER[name]}"), name)


def names() -> list[str]:
    """Return the names of all workloads."""
    return modules("workloads")


def named(name: str) -> Scenario:
    """Return the scenario of a named workload; ValueError names those that exist and the nearest."""
    found: Scenario = find("workloads", name, "scenario", "workload")
    return found


def chosen(workload: str | None = None, fields: Mapping[str, Any] | None = None) -> Scenario:
    """Return the scenario of a named workload, Philly's without one, with the fields in place of its own.

    ValueError for a workload, a field or a value that cannot be, and for a workload's name where fields belong.
    """
    if isinstance(fields, str):
        raise ValueError(
            f"scenario {fields!r}: expected a dict of its fields; a workload is named by "
            f"workload={fields!r}{did_you_mean(fields, names())}"
        )
    if isinstance(fields, Mapping) and "workload" in fields:
        raise ValueError("scenario: no field of it is 'workload'; name it beside, by the keyword workload=")
    return changed(Scenario() if workload is None else named(workload), {} if fields is None else fields)
