"""Scenarios, the windows and full traces they describe, and the named workloads.

A public module of this folder is a named workload: it defines a `scenario` and, where no trace provides its jobs, the
`trace` that generates them. Flags override the fields of a scenario. Other packages add workloads by entry points in
the group `gpu_cluster_gym.workloads`: such a module, or a Scenario.

Where no workload is named, the fields are those of `philly`, which is steady. Fields that only windows of a number of
jobs have, a log, and another trace override those of `philly_backlog` instead, which is `Scenario()`: see `base`.
"""

from __future__ import annotations

if __name__ != "gpu_cluster_gym.workloads":
    raise ImportError("workloads is part of a package: import gpu_cluster_gym.workloads, not workloads")

from collections.abc import Mapping
from typing import Any

from gpu_cluster_gym.simulator.choice import ChoiceError, Wrong, changed
from gpu_cluster_gym.simulator.kernel.cluster.parameters import PARAMETERS, Parameters
from gpu_cluster_gym.traces import available, did_you_mean, find
from gpu_cluster_gym.workloads._present import Present, present
from gpu_cluster_gym.workloads._quotas import TENANT_COLUMNS
from gpu_cluster_gym.workloads._scenario import (
    EVERY,
    FULL_TRACE,
    MEASURED,
    PARTS,
    PROPORTIONAL,
    Scenario,
    Split,
    Window,
    parts_of,
)
from gpu_cluster_gym.workloads._shifts import SHIFTS, TRAINING_SHIFTS, applicable, describe_shift
from gpu_cluster_gym.workloads._steady import Offered, offered, offered_in_words, parts_in_words
from gpu_cluster_gym.workloads._windows import (
    ACCEPTANCE,
    ACCEPTED_RANGE,
    MAX_CANDIDATES,
    TooFewWindowsError,
    accepted,
    of_whole_log,
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
    refuse_idle_shares,
    seed_of_jobs,
    shifted,
    with_physics,
)

__all__ = [
    "ACCEPTANCE",
    "ACCEPTED_RANGE",
    "DEFAULT",
    "FILES",
    "FULL_TRACE",
    "MAX_CANDIDATES",
    "OF_JOBS",
    "PARTS",
    "PROPORTIONAL",
    "SHIFTS",
    "TENANT_COLUMNS",
    "TRAINING_SHIFTS",
    "Offered",
    "Present",
    "Scenario",
    "Split",
    "TooFewWindowsError",
    "Window",
    "Workload",
    "accepted",
    "applicable",
    "base",
    "cached",
    "describe_shift",
    "filled",
    "full_trace",
    "load",
    "make_scenario",
    "named",
    "names",
    "of_whole_log",
    "offered",
    "offered_in_words",
    "parts_in_words",
    "prepare",
    "present",
    "refuse_contradictions",
    "refuse_ineffective",
    "seed_of_jobs",
    "shifted",
    "up_to",
    "windows",
    "with_physics",
]

DEFAULT = "philly"
"""Name of the default workload."""
OF_JOBS = ("trace_file", "full_trace", "jobs", "all_windows", "target_load")
"""Fields that imply windows with a fixed number of jobs, or a log, where no workload is named."""


def names() -> list[str]:
    """Return the names of all workloads."""
    return available("workloads")


def named(name: str) -> Scenario:
    """Return the scenario of a named workload; ValueError for an unknown name lists the known ones and the nearest."""
    found: Scenario = find("workloads", name, "scenario", "workload")
    return found


def base(fields: Mapping[str, Any]) -> Scenario:
    """Return the scenario that fields change where no workload is named.

    It is the workload `DEFAULT`. Where a field names a log, another trace, the full trace, or a choice that only
    windows with a fixed number of jobs have, it is Scenario(): such windows, from an empty cluster.
    """
    other_jobs = fields.get("trace") not in (None, DEFAULT)
    other_windows = any(fields.get(name) for name in OF_JOBS) or fields.get("steady_load", 0) is None
    return Scenario() if other_jobs or other_windows else named(DEFAULT)


def refuse_contradictions(scenario: Scenario, fields: Mapping[str, Any], workload: str | None = None) -> None:
    """Raise ValueError where explicit fields apply only to windows with a fixed number of jobs, and these are steady.

    fields: those that override the scenario's.
    workload: name of the workload that they override.
    """
    if scenario.steady_load is None:
        return
    steady = f"--workload {workload}" if workload and not fields.get("steady_load") else "--steady-load"
    days = scenario.warm_days + scenario.counted_days + scenario.after_days
    if fields.get("full_trace"):
        raise ValueError(
            f"--full-trace replays all jobs from an empty cluster, but {steady} sets steady windows: drop either flag"
        )
    if fields.get("target_load"):
        raise ValueError(
            "--target-load does not apply to steady windows, whose load --steady-load sets: drop --target-load or "
            f"{steady}"
        )
    if "jobs" in fields and "steady_load" not in fields:
        raise ValueError(
            f"--jobs {fields['jobs']} does not apply to steady windows, which last {days:g} days: drop it "
            "(--warm-days, --counted-days and --after-days set their length), or name another workload, such as "
            "philly_backlog"
        )


def refuse_ineffective(scenario: Scenario, fields: Mapping[str, Any]) -> None:
    """Raise ChoiceError for an explicit field that has no effect, since the scenario does not simulate it.

    fields: those that override the scenario's.
    """
    if fields.get("borrowing", "none") != "none" and scenario.quotas is None:
        expected = f"none, or quotas as well, such as quotas {PROPORTIONAL}"
        raise ChoiceError([Wrong("borrowing", scenario.borrowing, expected)])
    if fields.get("partitions") and not {"partition", EVERY} & {*(scenario.constraints or "").split(",")}:
        raise ChoiceError(
            [Wrong("partitions", scenario.partitions, "constraints partition as well; otherwise drop it")]
        )
    parts = parts_of(scenario.physics_name)
    if MEASURED in parts:  # these depend on the log
        return
    refuse_idle_shares(scenario)
    of_parts = [(each.name, each.part, getattr(Parameters, each.name)) for each in PARAMETERS]
    of_parts += [(name, "profiles", getattr(Scenario, name)) for name in ("duty_error", "memory_error")]
    for name, part, usual in of_parts:
        if part not in (None, *parts) and fields.get(name, usual) != usual:
            expected = f"physics that include {part}, as {scenario.physics_name} do not; otherwise drop it"
            raise ChoiceError([Wrong(name, fields[name], expected)])


def make_scenario(workload: str | None = None, fields: Mapping[str, Any] | None = None) -> Scenario:
    """Return the scenario of a named workload, by default `base`, with some fields replaced, and physics spelt out.

    Raise ValueError for an unknown workload or field, for a value that is not allowed, for fields that contradict each
    other or have no effect, and for a workload's name in place of the fields.
    """
    if isinstance(fields, str):
        raise ValueError(
            f"scenario {fields!r}: expected a dict of fields; pass the name of a workload as "
            f"workload={fields!r}{did_you_mean(fields, names()) if fields not in names() else ''}"
        )
    if isinstance(fields, Mapping) and "workload" in fields:
        raise ValueError("scenario: 'workload' is not one of its fields; pass it as the keyword workload=")
    given: Any = {} if fields is None else fields
    usual = named(workload) if workload is not None else base(given if isinstance(given, Mapping) else {})
    found = changed(usual, given)
    refuse_contradictions(found, given, workload)
    refuse_ineffective(found, given)
    return with_physics(found)
