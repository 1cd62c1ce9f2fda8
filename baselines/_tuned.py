"""Results of searches for settings, one JSON file per workload.

`benchmarks/tune.py` writes settings of policies to `tuned/`. `benchmarks/keep_constants.py` writes constant weights of
the rule `union` to `constants/`.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from gpu_cluster_gym.traces import VERSION, did_you_mean
from gpu_cluster_gym.workloads import named

FOLDER = Path(__file__).parent / "tuned"
CONSTANTS = Path(__file__).parent / "constants"
TOGETHER = "together"  # file of the constants searched for several workloads at once
WITH_HISTORY = "-with-history"  # suffix of files of constants searched with a history of finished jobs
EARLIER = ", searched on windows of an earlier version"


class Tuned(NamedTuple):
    """A policy by name, the settings found for it (empty where its defaults did best), and their source."""

    policy: str
    settings: dict[str, Any]
    source: str

    @property
    def label(self) -> str:
        """The name in a table, beside the policy with default settings."""
        return f"tuned:{self.policy}"

    @property
    def earlier(self) -> bool:
        """Whether the search ran on windows that are no longer drawn."""
        return self.source.endswith(EARLIER)

    @property
    def description(self) -> str:
        """The settings found, as a sentence, with numbers to four digits."""
        short = {name: f"{v:.4g}" if isinstance(v, float) else v for name, v in self.settings.items()}
        found = ", ".join(f"{name} = {value}" for name, value in short.items())
        return f"{self.label}: {self.policy} {'with ' + found if found else 'with default settings'}, {self.source}."


class Constants(Tuned):
    """`union` with the weights found for a workload."""

    @property
    def label(self) -> str:
        """The name in a table, beside `union`."""
        return "constants"


def searched(workload: str) -> list[str]:
    """Return the names of the policies tuned for a workload."""
    return list(_read(workload)["policies"]) if workload in _workloads() else []


def tuned(workload: str, policy: str | None = None) -> Tuned:
    """Return a policy with the settings found for a workload; without a name, the best on validation windows.

    Raise ValueError for an untuned workload or policy, with the known ones.
    """
    found = _read(workload)
    name = policy or found["best"]
    if name not in found["policies"]:
        raise ValueError(
            f"policy {name!r} is not tuned for workload {workload!r}: expected {', '.join(found['policies'])}"
            f"{did_you_mean(name, found['policies'])}"
        )
    settings = found["policies"][name]["settings"]
    lists = {key: tuple(value) for key, value in settings.items() if isinstance(value, list)}
    source = f"found on training windows of {workload} with {found['budget']:,} simulated events"
    return Tuned(name, settings | lists, source + EARLIER * (found.get("streams") != VERSION))


def with_constants() -> list[str]:
    """Return the names of the workloads for which constants were searched."""
    files = sorted(file.stem for file in CONSTANTS.glob("*.json"))
    return [name for name in files if name != TOGETHER and not name.endswith(WITH_HISTORY)]


def constants(workload: str, *, with_history: bool = False) -> Constants:
    """Return `union` with the weights found for a workload.

    with_history: prefer weights found with a history of finished jobs, where such a search was run.
    Raise ValueError for a workload without constants, with the known ones.
    """
    known = with_constants()
    if workload not in known:
        raise ValueError(
            f"no constants exist for workload {workload!r}: expected {', '.join(known) or 'none'}; search some with "
            "train_agent.py --workload NAME --action steer --algorithm search and python -m benchmarks.keep_constants"
        )
    with_history = with_history and (CONSTANTS / f"{workload}{WITH_HISTORY}.json").exists()
    found = _constants(workload + WITH_HISTORY * with_history)
    under = f" under --physics {found['physics']}" if found["physics"] != named(workload).physics_name else ""
    of = f"{workload}{under}{' with history' * with_history}"
    source = f"found on training windows of {of} in {found['episodes']:,} simulated episodes"
    return Constants("union", found["weights"], source + EARLIER * (found["streams"] != VERSION))


def found_for(workload: str | None, *, with_history: bool = False) -> list[Tuned]:
    """Return the best tuned policy and the constants of a workload, where they exist; an empty list for None."""
    best = [tuned(workload)] if workload in _workloads() else []
    return [
        *best,
        *([constants(workload, with_history=with_history)] if workload in with_constants() else []),
    ]


def best_constants(workloads: Collection[str | None], *, with_history: bool = False) -> Constants | None:
    """Return `union` with the weights found for one workload, or for exactly these together; None without any."""
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
            f"no policy is tuned for workload {workload!r}: expected {', '.join(_workloads()) or 'none'}; tune with "
            "python -m benchmarks.tune --workload NAME"
        )
    found: dict[str, Any] = json.loads((FOLDER / f"{workload}.json").read_text(encoding="utf-8"))
    return found
