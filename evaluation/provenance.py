"""Where results come from: the code's commit, the versions of libraries, the machines, and what was drawn."""

import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_cluster_gym.workloads import Workload

ABOUT = "about.json"
ROOT = Path(__file__).resolve().parent.parent
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


def about(workloads: "Sequence[Workload]", heading: Sequence[str], notes: Sequence[str]) -> dict[str, Any]:
    """Return where results come from, as plain JSON; heading, notes: what is said above and below their table."""
    from gpu_cluster_gym.evaluation.table_notes import (
        origins,  # it loads what takes long, which --version is not to wait for
    )

    machines = workloads[0].cluster
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **versions()},
        "platform": platform.platform(),
        "cluster": machines.name,
        "node_gpus": list(machines.node_gpus),
        "node_gpu_memory_gib": list(machines.node_gpu_memory_gib),
        "windows": [load.window.number for load in workloads],
        "heading": list(heading),
        "notes": list(notes),
        "origins": origins(workloads[0].table, workloads[0].scenario),
    }


def versions() -> dict[str, str]:
    """Return the versions of the libraries that are installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """Return the commit of the checkout that runs, with what says that files differ from it; None outside of one."""
    try:
        top = _git("rev-parse", "--show-toplevel")
        if Path(top) != ROOT:
            return None
        return _git("rev-parse", "HEAD") + (" with changes" if _git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
