"""What a scheduler is shown of jobs and machines does not depend on jobs to come."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.simulator.jobs import by_first_submission
from gpu_cluster_gym.workloads import Scenario, full_trace
from tests.cases import tiny

PHYSICS = (
    "memory,preemption,estimates",
    "memory,preemption,estimates,elastic",
    "cpu_jobs",
    "cores",
    "standard",
    "all",
)
FIRST = 2  # jobs of the table below that have arrived


def table(**later: Any) -> pd.DataFrame:
    """Return four jobs; the last two, which come much later, with other values."""
    jobs = pd.DataFrame(
        {
            "job_id": list("abcd"),
            "submit_s": [0.0, 1.0, 5000.0, 5001.0],
            "num_gpus": 1,
            "kind": "gpu",
            "duration_s": 100.0,
            "user": ["m", "n", "m", "n"],
            "cpu_cores": 6,
            "cpu_slowdown": 0.0,
            "servers": 0,
            "gpu_memory_gib": 4.0,
        }
    )
    for name, values in later.items():
        jobs[name] = [*jobs[name][:FIRST], *values]
    return jobs


LATER: dict[str, dict[str, Any]] = {
    "other users": {"user": ["a", "b"]},
    "other sizes": {"num_gpus": [2, 4]},
    "other cores": {"cpu_cores": [1, 2]},
    "one that can run on CPUs": {"cpu_slowdown": [0.0, 3.0]},
    "one with servers": {"servers": [0, 2]},
    "one without GPUs": {"num_gpus": [1, 0], "kind": ["gpu", "cpu"]},
}


def seen(folder: Path, jobs: pd.DataFrame, physics: str) -> dict[str, Any]:
    """Return what is shown, and the kernel's number of each class, once the first two jobs have arrived."""
    chosen = tiny.scenario(folder, jobs, physics=physics, cluster="1x4")
    episode = full_trace(Scenario(**chosen)).episode()
    episode.advance()
    episode.advance()
    view = episode.view
    assert len(view.jobs.submit_s) == FIRST
    jobs_shown = {name: getattr(view.jobs, name).tolist() for name in ("user", "cores_each")}
    classes = episode.jobs["request_class"][:FIRST].tolist()
    return jobs_shown | {
        "cores": view.nodes.unreserved_cores.tolist(),
        "cpu": view.cpu_limited,
        "class": classes,
    }


@pytest.mark.parametrize("physics", PHYSICS)
def test_nothing_shown_depends_on_jobs_to_come(physics: str, tmp_path: Path) -> None:
    usual = seen(tmp_path, table(), physics)
    differ = {name: seen(tmp_path, table(**later), physics) for name, later in LATER.items()}
    assert {name: found for name, found in differ.items() if found != usual} == {}


def test_users_are_numbered_by_their_first_submission() -> None:
    assert by_first_submission(np.array(["z", "a", "z", "m", "a"])).tolist() == [0, 1, 0, 2, 1]
