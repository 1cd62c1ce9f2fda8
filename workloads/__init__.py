"""What is simulated: scenarios, the windows and whole traces they stand for, and the named workloads.

A public module of this folder is a named workload: its `scenario`, and where no trace brings its jobs, the `trace` that
invents them. Flags override the fields of a scenario.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from traces import find, modules
from workloads._scenario import PARTS, WHOLE, Scenario, Split, Window

if TYPE_CHECKING:
    from workloads._windows import ACCEPTANCE, ACCEPTED_RANGE, MOST_TRIED, accepted, windows
    from workloads._workload import Workload, filled, load, prepare, seed_of_jobs, whole

__all__ = [
    "ACCEPTANCE",
    "ACCEPTED_RANGE",
    "MOST_TRIED",
    "PARTS",
    "WHOLE",
    "Scenario",
    "Split",
    "Window",
    "Workload",
    "accepted",
    "filled",
    "load",
    "named",
    "names",
    "prepare",
    "seed_of_jobs",
    "whole",
    "windows",
]

_LATER = dict.fromkeys(("ACCEPTANCE", "MOST_TRIED", "ACCEPTED_RANGE", "accepted", "windows"), "_windows") | (
    dict.fromkeys(("Workload", "filled", "load", "prepare", "seed_of_jobs", "whole"), "_workload")
)


if not TYPE_CHECKING:  # else a checker would believe in any name

    def __getattr__(name: str) -> Any:
        """Import what needs pandas and the kernel when it is first asked for."""
        if name not in _LATER:
            raise AttributeError(f"module 'workloads' has no attribute {name!r}")
        return getattr(import_module(f"workloads.{_LATER[name]}"), name)


def names() -> list[str]:
    """Return the names of all workloads."""
    return modules("workloads")


def named(name: str) -> Scenario:
    """Return the scenario of a named workload; ValueError names those that exist and the nearest."""
    found: Scenario = find("workloads", name, "scenario", "workload")
    return found
