"""Scripts of actions for timelines worked by hand. A job requests one core per GPU by default."""

from typing import Any

import pandas as pd
import pytest

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.policy import Action, Placement, Wait
from gpu_cluster_gym.simulator.view import View
from tests.accounts.twins import Twins
from tests.cases.mixed_jobs import table_of, workload

ONE = Cluster("one node", (2,), (16.0,), (16,), bandwidth_gbs=40.0)
TWO = Cluster(
    "two nodes", (2, 2), (16.0, 16.0), (16, 16), intra_gbs=25.0, inter_gbs=6.25, intra_ms=0.0, inter_ms=20.0
)
SHARED = "memory,preemption,sharing"
CORES = "memory,preemption,cores,cpu_jobs"
EVERYTHING = "memory,preemption,sharing,locality,cores,bandwidth,cpu_jobs"

SUDDEN = {"pressure_from": 1.0, "pressure_at_full": 1.0}  # memory slows no job before it is full

BUSY = {"active_ms": 90.0, "idle_ms": 10.0}
# Four cores bring input as fast as the GPU takes it, 0.1 s an iteration
FED = {"input_core_s": 0.4, "cpu_cores": 4}


def job(duration: float, **given: Any) -> dict[str, Any]:
    """Make a job on one GPU that keeps it busy half of the time, with 1 GiB, free preemption and no input."""
    return {"duration_s": duration} | given


def on(*gpus: int, cores: float | None = None, **shape: int) -> Placement:
    return Placement(gpus, cores, **shape)


def at(node: int, cores: float | None = None, **shape: int) -> Placement:
    return Placement((), cores, node, **shape)


Lines = dict[int, list[Action]]  # actions by second


class Script:
    """Policy that carries out given actions at given times."""

    def __init__(self, lines: Lines) -> None:
        self.lines = sorted((time, list(actions)) for time, actions in lines.items())

    def __call__(self, view: View) -> Action:
        """Return the next action that is due, or wait for it."""
        while self.lines and not self.lines[0][1]:
            self.lines.pop(0)
        if not self.lines:
            return Wait()
        time, actions = self.lines[0]
        return actions.pop(0) if time <= view.now else Wait(time - view.now)


def played(
    jobs: list[dict[str, Any]],
    lines: Lines,
    *,
    cluster: Cluster = ONE,
    physics: str = SHARED,
    **choices: Any,
) -> pd.DataFrame:
    """Return the results of jobs started by a script; `tests/accounts/fluid.py` must agree throughout."""
    work = workload(table_of(*jobs), cluster, physics=physics, **(SUDDEN | choices))
    twins = Twins(work)
    assert twins.play(Script(lines)) == []
    return work.results(twins.episode)


def booked(results: pd.DataFrame, job: int, names: str) -> Any:
    """Return some columns of a job with approximately these values."""
    return pytest.approx([float(results[name].iloc[job]) for name in names.split()])


def ends(results: pd.DataFrame) -> Any:
    return pytest.approx(results["finish_s"].tolist())
