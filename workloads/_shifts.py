"""Shifts: the same windows under another load, other costs or other errors, to test how robust a policy's lead is.

A shift is written as its kind, with a strength where the kind has one: `load=1.25`, `wider_nodes`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpu_cluster_gym.traces import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.workloads._scenario import Scenario

Columns = Mapping[str, Any]
NO_STRENGTH = 0.0
MIN_DEADLINE_S = 1e-9  # of a deadline that was due before its job arrived; 0 would mean no deadline


class Kind(NamedTuple):
    """A kind of shift: a description, and its effect on the columns of the jobs and the fields of the scenario."""

    words: str
    """With the strength in braces where there is one."""
    columns: Callable[[pd.DataFrame, float, np.random.Generator], Columns] = lambda table, strength, rng: {}
    fields: Callable[[Scenario], Mapping[str, Any]] = lambda scenario: {}
    applies: Callable[[Scenario], bool] = lambda scenario: True

    @property
    def has_strength(self) -> bool:
        """Whether the kind takes a number."""
        return "{" in self.words


def _load(table: pd.DataFrame, strength: float, rng: np.random.Generator) -> Columns:
    """Multiply the arrival rate."""
    return with_arrivals(table, table["submit_s"] / strength)


def _bunches(table: pd.DataFrame, strength: float, rng: np.random.Generator) -> Columns:
    """Submit jobs in groups of `strength`, each at the arrival of its first job."""
    submit_s, group = table["submit_s"].to_numpy(), max(int(strength), 1)
    return with_arrivals(table, submit_s[[job // group * group for job in range(len(submit_s))]])


def with_arrivals(table: pd.DataFrame, submit_s: Any) -> Columns:
    """Return columns with other submission times, and with deadlines as long after these as before."""
    if "deadline_s" not in table:
        return {"submit_s": submit_s}
    due_s = table["deadline_s"]
    moved = (due_s + (submit_s - table["submit_s"])).clip(lower=MIN_DEADLINE_S)
    return {"submit_s": submit_s, "deadline_s": moved.where(due_s > 0, 0.0)}


def _run_times(table: pd.DataFrame, strength: float, rng: np.random.Generator) -> Columns:
    """Stretch run times, gaps between arrivals and deadlines, so that pauses cost relatively less."""
    names = ("submit_s", "duration_s", "profiled_duration_s", "predicted_duration_s", "deadline_s")
    return {name: table[name] * strength for name in names if name in table}


def _pauses(table: pd.DataFrame, strength: float, rng: np.random.Generator) -> Columns:
    """Multiply the duration of pauses and loads."""
    return {name: table[name] * strength for name in ("pause_s", "load_s")}


def _estimates(table: pd.DataFrame, strength: float, rng: np.random.Generator) -> Columns:
    """Multiply estimated run times by a lognormal error; strength: the standard deviation of its log."""
    noise = np.exp(strength * rng.standard_normal(len(table)))
    return {"profiled_duration_s": table["profiled_duration_s"] * noise}


def _other_contention(scenario: Scenario) -> Mapping[str, Any]:
    return {"contention_form": "excess" if scenario.contention_form == "turns" else "turns"}


def _true_run_times(scenario: Scenario) -> Mapping[str, Any]:
    """Show every policy true run times: an upper bound on the value of better estimates."""
    return {"physics": ",".join(part for part in scenario.parts if part != "estimates") or "none"}


def _wider_nodes(scenario: Scenario) -> Mapping[str, Any]:
    """Put the same GPUs into half as many nodes."""
    nodes, gpus = _uniform_nodes(scenario)
    return {"cluster": f"{nodes // 2}x{2 * gpus}"}


def _has_even_nodes(scenario: Scenario) -> bool:
    nodes, _ = _uniform_nodes(scenario)
    return nodes > 0 and nodes % 2 == 0 and scenario.partitions is None  # these name nodes by their numbers


def _uniform_nodes(scenario: Scenario) -> tuple[int, int]:
    """Return the numbers of nodes and of GPUs per node, (0, 0) unless all are V100 nodes of one size."""
    found = re.fullmatch(r"(\d+)x(\d+)", scenario.cluster_name)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _has_part(part: str) -> Callable[[Scenario], bool]:
    return lambda scenario: part in scenario.parts


KINDS = {
    "load": Kind("load x {:g}", _load),
    "bunches": Kind("arrivals in bunches of {:g}", _bunches),
    "run_times": Kind("run and interarrival times x {:g}", _run_times),
    "pauses": Kind("pause and load times x {:g}", _pauses, applies=_has_part("preemption")),
    "estimates": Kind("log error of estimates + {:g}", _estimates, applies=_has_part("estimates")),
    "true_run_times": Kind(
        "true run times instead of estimates", fields=_true_run_times, applies=_has_part("estimates")
    ),
    "other_contention": Kind(
        "the other form of contention", fields=_other_contention, applies=_has_part("sharing")
    ),
    "wider_nodes": Kind("half as many nodes, twice as wide", fields=_wider_nodes, applies=_has_even_nodes),
}
SHIFTS = (
    "load=0.8",
    "load=1.25",
    "bunches=8",
    "run_times=2",
    "pauses=0.4",
    "pauses=2.5",
    "estimates=0.5",
    "other_contention",
    "wider_nodes",
)
"""Shifts under which agents are tested."""
TRAINING_SHIFTS = (
    "load=0.9",
    "load=1.1",
    "bunches=4",
    "run_times=1.4",
    "pauses=0.6",
    "pauses=1.6",
    "estimates=0.25",
    "other_contention",
)
"""Shifts under which agents may train: milder than in tests, and not of all kinds."""


def parsed(shift: str) -> tuple[Kind, float]:
    """Return a shift's kind and strength; ValueError for an unknown shift."""
    if wrong := shift_expected(shift):
        raise ValueError(f"shift {shift!r}: expected {wrong}")
    name, _, strength = shift.partition("=")
    return KINDS[name], float(strength) if strength else NO_STRENGTH


def shift_expected(shift: str | None) -> str | None:
    """Return the known shifts, for the error about an unknown one; None for a valid shift."""
    if shift is None:
        return None
    name, sign, strength = shift.partition("=")
    kind = KINDS.get(name)
    if kind and kind.has_strength == bool(sign) and (not sign or _is_positive(strength)):
        return None
    written = (f"{each}=NUMBER" if kind.has_strength else each for each, kind in KINDS.items())
    return f"{', '.join(written)}, numbers above 0{'' if kind else did_you_mean(name, KINDS)}"


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def describe_shift(shift: str) -> str:
    """Return a description of a shift."""
    kind, strength = parsed(shift)
    return kind.words.format(strength)


def applicable(scenario: Scenario, shifts: tuple[str, ...] = SHIFTS) -> tuple[str, ...]:
    """Return the shifts that change anything in a scenario."""
    return tuple(shift for shift in shifts if parsed(shift)[0].applies(scenario))
