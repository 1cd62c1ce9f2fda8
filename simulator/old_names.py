"""Choices that had other names: what older files hold is read by the new name, and what is asked for is told it."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Now(NamedTuple):
    """The name that a choice has now, and what else is to be known of it."""

    name: str
    note: str = ""


FIELDS = {
    "node_mtbf": Now("node_mtbf_h", "in hours"),
    "node_repair": Now("node_repair_h", "in hours"),
    "drain_every": Now("drain_every_h", "in hours"),
    "drain_notice": Now("drain_notice_h", "in hours"),
    "drain_length": Now("drain_length_h", "in hours"),
    "prior_scale": Now("base_scale"),
}
"""Fields by their old name, each with the same meaning and unit as before."""

VALUES = {("discipline", "skip"): "greedy", ("preempt", "if_it_pays"): "cost_aware"}
"""Words by the name that their field has now, and their old form; several words in a field are joined by commas."""

BEFORE: dict[str, Any] = {
    "pressure_from": 1.0,
    "pressure_at_full": 1.0,
    "contention_form": "excess",
    "restart_cost": "dear",
}
"""What was simulated before these choices had a name, where that is not what they are by default."""
NAMED_BEFORE = frozenset({"max_share", "oom_victim", "restart_delay", "contention", "contention_loss"})
"""Choices of physics that a run's file has named since before those."""
ALL_BEFORE = (
    "memory,preemption,estimates,sharing,locality,cores,bandwidth,cpu_jobs,elastic,gpu_types,failures"
)
"""What all parts of physics were then."""
LEARNED_BEFORE = frozenset({"exploration", "gae_lambda", "clip", "entropy"})
"""Choices of learning that a run's file has named since before constants were searched first."""
OF_PICK = "base_scale"  # in every file of a training since it has this name


def current(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return choices of an older file by the names, and with the words, that they have now.

    One that holds all those of physics there were then, as each that a run has written does, means what was simulated
    then; one by hand that holds only some means what they are now. So do those of learning.
    """
    if given.keys() >= NAMED_BEFORE and not BEFORE.keys() & given.keys():
        every = {"physics": ALL_BEFORE} if given.get("physics") == "all" else {}
        given = {**given, **BEFORE, **every}
    by_name = {FIELDS[name].name if name in FIELDS else name: value for name, value in given.items()}
    if len(by_name) < len(given):
        twice = next(
            f"{old} and {now.name}" for old, now in FIELDS.items() if {old, now.name} <= given.keys()
        )
        raise ValueError(f"{twice} are one choice: give the second")
    if by_name.keys() >= LEARNED_BEFORE:
        by_name.setdefault("search", 0.0)
    if OF_PICK in by_name:
        by_name.setdefault("action", "plain")  # all that could be learned then
    return {name: word(name, value) if isinstance(value, str) else value for name, value in by_name.items()}


def word(name: str, value: str) -> str:
    """Return the words of a field in the form that they have now."""
    return ",".join(VALUES.get((name, each), each) for each in value.split(","))


def hint(name: str, *, as_flag: bool = False) -> str | None:
    """Say what a choice is called now; None of one that never had another name."""
    if name not in FIELDS:
        return None
    now = FIELDS[name]
    old, new = (f"--{each.replace('_', '-')}" if as_flag else each for each in (name, now.name))
    return f"{old} is now {new}" + (f", {now.note}" if now.note else "")
