"""Provenance of a run: commit, library versions, cluster, windows, and the origin of job columns."""

import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_cluster_gym.workloads import Workload

PROVENANCE = "provenance.json"
ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("agents", "baselines", "envs", "evaluation", "experiments", "simulator", "traces", "workloads")
"""Folders of the package, in which new modules count as changes of the checkout."""
LIBRARIES = (
    "gpu-cluster-gym",
    "numpy",
    "pandas",
    "numba",
    "scipy",
    "gymnasium",
    "torch",
    "stable-baselines3",
)


def collect(workloads: "Sequence[Workload]", heading: Sequence[str], notes: Sequence[str]) -> dict[str, Any]:
    """Return the content of provenance.json.

    heading: lines above the table of results. notes: notes below it.
    """
    from gpu_cluster_gym.evaluation.table_notes import (
        origins,  # slow to import, and --version needs `versions` alone
        trace_used,
    )

    cluster = workloads[0].cluster
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **versions()},
        "platform": platform.platform(),
        "trace": trace_used(workloads[0].scenario),
        "cluster": cluster.name,
        "node_gpus": list(cluster.node_gpus),
        "node_gpu_memory_gib": list(cluster.node_gpu_memory_gib),
        "windows": [load.window.number for load in workloads],
        "first_submissions": first_submissions(workloads),
        "heading": list(heading),
        "notes": list(notes),
        "column_origins": origins(workloads[0].table, workloads[0].scenario),
    }


def first_submissions(workloads: "Sequence[Workload]") -> list[str | None]:
    """Return date and time of the first submission that counts in each window; None for jobs without dates."""
    from gpu_cluster_gym.evaluation.describe import (
        FIRST_DATE_S,
        LAST_DATE_S,
        local_time,
    )  # slow to import, too

    found: list[str | None] = []
    for load in workloads:
        time_s = load.table.attrs.get("zero_s", 0.0) + float(load.jobs["submit_s"][load.first_counted])
        dated = FIRST_DATE_S <= time_s < LAST_DATE_S
        zone = load.scenario.time_zone
        found.append(f"{local_time(time_s, zone):%Y-%m-%d %H:%M:%S %Z}" if dated else None)
    return found


def versions() -> dict[str, str]:
    """Return the versions of the installed libraries."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """Return the commit of the running checkout, marked if it differs in a tracked file or has new modules; else None.

    New modules are Python files in the package's folders, such as a policy that is not committed.
    """
    try:
        top = _git("rev-parse", "--show-toplevel")
        if Path(top) != ROOT:
            return None
        changed = _git("status", "--porcelain", "-uno")
        changed += _git("status", "--porcelain", "-uall", "--", *(f"{each}/*.py" for each in FOLDERS))
        return _git("rev-parse", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
