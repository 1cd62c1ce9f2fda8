"""What searches found: a file for each workload.

`benchmarks/tune.py` leaves the settings and the scores of policies, `benchmarks/evolve.py` weights of the rule over
moves.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from gpu_cluster_gym.traces import VERSION, did_you_mean
from gpu_cluster_gym.workloads import named

FOLDER = Path(__file__).parent / "tuned"
CONSTANTS = Path(__file__).parent / "constants"
TOGETHER = "together"  # the file of constants for several workloads at once
WITH_HISTORY = "-with-history"  # suffix of files of constants searched with a run-time predictor
EARLIER = ", searched on windows of an earlier version"


class Tuned(NamedTuple):
    """A policy by name, the settings found for it (none where its defaults did best), and where they are from."""

    policy: str
    settings: dict[str, Any]
    source: str

    @property
    def label(self) -> str:
        """What to call it beside the policy with default settings."""
        return f"tuned:{self.policy}"

    @property
    def earlier(self) -> bool:
        """Whether it was found on windows that are drawn no longer."""
        return self.source.endswith(EARLIER)

    @property
    def told(self) -> str:
        """What the search found, in a sentence, its numbers to four digits."""
        short = {name: f"{v:.4g}" if isinstance(v, float) else v for name, v in self.settings.items()}
        found = ", ".join(f"{name} = {value}" for name, value in short.items())
        return f"{self.label}: {self.policy} {'with ' + found if found else 'with default settings'}, {self.source}."


class Constants(Tuned):
    """`union` with the weights found for a workload."""

    @property
    def label(self) -> str:
        """What to call it beside `union`."""
        return "constants"


def searched(workload: str) -> list[str]:
    """Return the names of the policies that were tuned for a workload."""
    return list(_read(workload)["policies"]) if workload in _workloads() else []


def tuned(workload: str, policy: str | None = None) -> Tuned:
    """Return a policy with the settings found for a workload; without a name the best of all on validation windows.

    ValueError names the workloads for which something was tuned, or what was.
    """
    found = _read(workload)
    name = policy or found["best"]
    if name not in found["policies"]:
        there = ", ".join(found["policies"])
        raise ValueError(
            f"policy {name!r} is not tuned for workload {workload!r}: there are {there}"
            f"{did_you_mean(name, found['policies'])}"
        )
    settings = found["policies"][name]["settings"]
    lists = {key: tuple(value) for key, value in settings.items() if isinstance(value, list)}
    source = f"found on training windows of {workload} with {found['budget']:,} simulated events"
    return Tuned(name, settings | lists, source + EARLIER * (found.get("streams") != VERSION))


def with_constants() -> list[str]:
    """Return the names of the workloads for which weights were searched."""
    files = sorted(file.stem for file in CONSTANTS.glob("*.json"))
    return [name for name in files if name != TOGETHER and not name.endswith(WITH_HISTORY)]


def constants(workload: str, *, with_history: bool = False) -> Constants:
    """Return `union` with the weights found for a workload; ValueError names the workloads for which there are some.

    with_history: whether run times are predicted from finished jobs; such weights were searched for some workloads.
    """
    known = with_constants()
    if workload not in known:
        raise ValueError(
            f"no constants were searched for workload {workload!r}: there are those of {', '.join(known) or 'none'}; "
            "python -m benchmarks.evolve --workload NAME searches some"
        )
    searched_with_history = with_history and (CONSTANTS / f"{workload}{WITH_HISTORY}.json").exists()
    found = _constants(workload + WITH_HISTORY * searched_with_history)
    under = f" under --physics {found['physics']}" if found["physics"] != named(workload).physics else ""
    predicted = " with predicted run times" * searched_with_history
    source = f"found on training windows of {workload}{under}{predicted} in {found['episodes']:,} simulated episodes"
    return Constants("union", found["weights"], source + EARLIER * (found["streams"] != VERSION))


def found_for(workload: str | None, *, with_history: bool = False) -> list[Tuned]:
    """Return what searches found for a workload: the best policy as tuned, and constants; none for None."""
    best = [tuned(workload)] if workload in _workloads() else []
    return [
        *best,
        *([constants(workload, with_history=with_history)] if workload in with_constants() else []),
    ]


def best_constants(workloads: Collection[str | None], *, with_history: bool = False) -> Constants | None:
    """Return `union` with the weights found for a workload, or for just these at once; None if there is no such."""
    if len(workloads) > 1:
        return _constants_together(workloads)
    (only,) = workloads
    return constants(only, with_history=with_history) if only in with_constants() else None


def _constants_together(workloads: Collection[str | None]) -> Constants | None:
    if not (CONSTANTS / f"{TOGETHER}.json").exists():
        return None
    found = _constants(TOGETHER)
    if set(found["workloads"]) != set(workloads):
        return None
    of = ", ".join(found["workloads"])
    source = f"found on training windows of {of} in {found['episodes']:,} simulated episodes"
    return Constants("union", found["weights"], source + EARLIER * (found["streams"] != VERSION))


def _constants(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CONSTANTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _workloads() -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.json"))


def _read(workload: str) -> dict[str, Any]:
    if workload not in _workloads():
        raise ValueError(
            f"nothing is tuned for workload {workload!r}: there are {', '.join(_workloads()) or 'none'}; "
            "python -m benchmarks.tune --workload NAME tunes for it"
        )
    found: dict[str, Any] = json.loads((FOLDER / f"{workload}.json").read_text(encoding="utf-8"))
    return found
