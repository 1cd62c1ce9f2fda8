"""Shifts: the same windows under another load, other prices or other errors, to see what a policy's lead rests on.

A shift is written as its kind, with a strength where the kind has one: `load=1.25`, `wider_nodes`.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_cluster_gym.traces import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.workloads._scenario import Scenario
    from gpu_cluster_gym.workloads._workload import Workload

Columns = Mapping[str, Any]
NO_STRENGTH = 0.0
SOONEST_S = 1e-9  # at which a job is due that was due before it came; at 0 it would have no deadline


class Kind(NamedTuple):
    """A kind of shift: what it does in words, and to the columns of the jobs and the choices of the scenario."""

    words: str
    """With the strength in braces where there is one."""
    columns: "Callable[[Workload, float], Columns]" = lambda load, strength: {}
    choices: "Callable[[Scenario], Mapping[str, Any]]" = lambda scenario: {}
    applies: "Callable[[Scenario], bool]" = lambda scenario: True

    @property
    def has_strength(self) -> bool:
        """Whether a number belongs to it."""
        return "{" in self.words


def closer(load: "Workload", strength: float) -> Columns:
    """Let so many times as many jobs arrive an hour."""
    return arriving(load.table, load.table["submit_s"] / strength)


def bunched(load: "Workload", strength: float) -> Columns:
    """Let each so many jobs come together, when the first of them came."""
    submit_s, group = load.table["submit_s"].to_numpy(), max(int(strength), 1)
    return arriving(load.table, submit_s[[job // group * group for job in range(len(submit_s))]])


def arriving(table: "pd.DataFrame", submit_s: Any) -> Columns:
    """Return when jobs come, and when they are due: as long after it as before, 0 where there is no deadline."""
    if "deadline_s" not in table:
        return {"submit_s": submit_s}
    due_s = table["deadline_s"]
    moved = (due_s + (submit_s - table["submit_s"])).clip(lower=SOONEST_S)
    return {"submit_s": submit_s, "deadline_s": moved.where(due_s > 0, 0.0)}


def longer(load: "Workload", strength: float) -> Columns:
    """Stretch run times, the time between arrivals and that to deadlines, so that pauses cost less beside them."""
    names = ("submit_s", "duration_s", "profiled_duration_s", "predicted_duration_s", "deadline_s")
    return {name: load.table[name] * strength for name in names if name in load.table}


def dearer(load: "Workload", strength: float) -> Columns:
    """Make pauses and loads dearer, or cheaper."""
    return {name: load.table[name] * strength for name in ("pause_s", "load_s")}


def misjudged(load: "Workload", strength: float) -> Columns:
    """Add an error to every estimate of a run time, drawn anew in each window; strength: deviation of its logarithm."""
    from numpy import exp  # what only tells flags loads no NumPy

    from gpu_cluster_gym.traces import stream

    draws = stream(load.scenario.seed, "shift of estimates", *load.window)
    noise = exp(strength * draws.standard_normal(len(load.table)))
    return {"profiled_duration_s": load.table["profiled_duration_s"] * noise}


def other_contention(scenario: "Scenario") -> Mapping[str, Any]:
    """Let jobs slow one another in the other form."""
    return {"contention_form": "excess" if scenario.contention_form == "turns" else "turns"}


def truths(scenario: "Scenario") -> Mapping[str, Any]:
    """Let every policy know run times, which none can in earnest: what it is worth to know."""
    return {"physics": ",".join(part for part in scenario.parts if part != "estimates") or "none"}


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


KINDS = {
    "load": Kind("load x {:g}", closer),
    "bunches": Kind("arrivals in bunches of {:g}", bunched),
    "run_times": Kind("run times and gaps x {:g}", longer),
    "pauses": Kind("pauses and loads x {:g}", dearer, applies=pauses_cost),
    "estimates": Kind("estimates with an error of {:g} more", misjudged, applies=errs),
    "true_run_times": Kind("true run times in the place of estimates", choices=truths, applies=errs),
    "other_contention": Kind("the other form of contention", choices=other_contention, applies=shares),
    "wider_nodes": Kind("half as many nodes, twice as wide", choices=wider_nodes, applies=can_be_halved),
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
"""Those under which agents are judged."""
VARIED = (
    "load=0.9",
    "load=1.1",
    "bunches=4",
    "run_times=1.4",
    "pauses=0.6",
    "pauses=1.6",
    "estimates=0.25",
    "other_contention",
)
"""Those under which agents may learn: lesser ones than they are judged under, and not all kinds."""


def parsed(shift: str) -> tuple[Kind, float]:
    """Return a shift's kind and strength; ValueError for what is none."""
    if wrong := shift_expected(shift):
        raise ValueError(f"shift {shift!r}: expected {wrong}")
    name, _, strength = shift.partition("=")
    return KINDS[name], float(strength) if strength else NO_STRENGTH


def shift_expected(shift: str | None) -> str | None:
    """Return what is expected where a text is no shift, else None."""
    if shift is None:
        return None
    name, sign, strength = shift.partition("=")
    kind = KINDS.get(name)
    if kind and kind.has_strength == bool(sign) and (not sign or is_positive(strength)):
        return None
    written = (f"{each}=NUMBER" if kind.has_strength else each for each, kind in KINDS.items())
    return f"{', '.join(written)}, numbers above 0{'' if kind else did_you_mean(name, KINDS)}"


def is_positive(text: str) -> bool:
    """Tell whether a text is a number above 0."""
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def in_words(shift: str) -> str:
    """Say what a shift does."""
    kind, strength = parsed(shift)
    return kind.words.format(strength)


def applicable(scenario: "Scenario", shifts: tuple[str, ...] = SHIFTS) -> tuple[str, ...]:
    """Return those of some shifts that change anything in a scenario."""
    return tuple(shift for shift in shifts if parsed(shift)[0].applies(scenario))


def shifted(load: "Workload", shift: str) -> "Workload":
    """Return the same window with a shift; it keeps its number. ValueError where it would change nothing."""
    from gpu_cluster_gym.workloads._workload import prepare

    kind, strength = parsed(shift)
    if not kind.applies(load.scenario):
        raise ValueError(f"shift {shift}: {in_words(shift)} would change nothing in this scenario")
    table = load.table.assign(**kind.columns(load, strength))
    table.attrs = load.table.attrs
    scenario = replace(load.scenario, target_load=None, shift=None, **kind.choices(load.scenario))
    found = prepare(table, scenario, window=load.window)
    return replace(found, scenario=replace(scenario, shift=shift, target_load=load.scenario.target_load))
