"""Shifts: the same windows under another load, other prices or other errors, to see what a policy's lead rests on."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from traces import stream

if TYPE_CHECKING:
    from workloads import Scenario, Workload

GROUP = 8  # jobs that come at once where arrivals are bunched
ERROR = 0.5  # deviation of the logarithm of an estimate, beside the error that it has


class Shift(NamedTuple):
    """What is changed: columns of the jobs, and choices of the scenario."""

    columns: "Callable[[Workload], Mapping[str, Any]]" = lambda load: {}
    choices: "Callable[[Scenario], Mapping[str, Any]]" = lambda scenario: {}
    applies: "Callable[[Scenario], bool]" = lambda scenario: True


def gaps(factor: float) -> Shift:
    """Stretch the time between arrivals."""
    return Shift(lambda load: {"submit_s": load.table["submit_s"] * factor})


def pauses(factor: float) -> Shift:
    """Make pauses and loads dearer, or cheaper."""
    return Shift(
        lambda load: {name: load.table[name] * factor for name in ("pause_s", "load_s")},
        applies=pauses_cost,
    )


def bunched(load: "Workload") -> Mapping[str, Any]:
    """Let each eight jobs come together, when the first of them came."""
    submit_s = load.table["submit_s"].to_numpy()
    return {"submit_s": submit_s[np.arange(len(submit_s)) // GROUP * GROUP]}


def longer(load: "Workload") -> Mapping[str, Any]:
    """Double run times and the time between arrivals, so that pauses cost half as much beside them."""
    names = ("submit_s", "duration_s", "profiled_duration_s", "predicted_duration_s")
    return {name: load.table[name] * 2 for name in names if name in load.table}


def misjudged(load: "Workload") -> Mapping[str, Any]:
    """Add an error to every estimate of a run time, drawn anew in each window."""
    draws = stream(load.scenario.seed, "shift of estimates", *load.window)
    noise = np.exp(ERROR * draws.standard_normal(len(load.table)))
    return {"profiled_duration_s": load.table["profiled_duration_s"] * noise}


def other_contention(scenario: "Scenario") -> Mapping[str, Any]:
    """Let jobs slow one another in the other form."""
    return {"contention_form": "excess" if scenario.contention_form == "turns" else "turns"}


def shares(scenario: "Scenario") -> bool:
    """Tell whether jobs may share GPUs."""
    return "sharing" in scenario.parts


def pauses_cost(scenario: "Scenario") -> bool:
    """Tell whether pauses take time."""
    return "preemption" in scenario.parts


def errs(scenario: "Scenario") -> bool:
    """Tell whether estimates err."""
    return "estimates" in scenario.parts


def wider_nodes(scenario: "Scenario") -> Mapping[str, Any]:
    """Put the same GPUs into half as many nodes."""
    nodes, gpus = like_nodes(scenario)
    return {"cluster": f"{nodes // 2}x{2 * gpus}"}


def like_nodes(scenario: "Scenario") -> tuple[int, int]:
    """Return how many nodes of how many GPUs there are, (0, 0) where they are not all V100s of one size."""
    found = re.fullmatch(r"(\d+)x(\d+)", scenario.cluster_name)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def can_be_halved(scenario: "Scenario") -> bool:
    """Tell whether there is an even number of nodes."""
    nodes, _ = like_nodes(scenario)
    return nodes > 0 and nodes % 2 == 0


SHIFTS: dict[str, Shift] = {
    "as it is": Shift(),
    "load x 0.8": gaps(1 / 0.8),
    "load x 1.25": gaps(1 / 1.25),
    f"arrivals in bunches of {GROUP}": Shift(bunched),
    "run times and gaps x 2": Shift(longer),
    "pauses and loads x 0.4": pauses(0.4),
    "pauses and loads x 2.5": pauses(2.5),
    f"estimates with an error of {ERROR:g} more": Shift(misjudged, applies=errs),
    "the other form of contention": Shift(choices=other_contention, applies=shares),
    "half as many nodes, twice as wide": Shift(choices=wider_nodes, applies=can_be_halved),
}


def shifted(workloads: "Sequence[Workload]", shift: Shift) -> "list[Workload]":
    """Return the same windows with a shift; they keep their numbers."""
    from workloads import prepare

    found = []
    for each in workloads:
        table = each.table.assign(**shift.columns(each))
        table.attrs = each.table.attrs
        scenario = replace(each.scenario, target_load=None, **shift.choices(each.scenario))
        found.append(prepare(table, scenario, window=each.window))
    return found
