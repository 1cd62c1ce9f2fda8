"""Jobs that slow one another, as tables; and a policy without sense that shares, resizes and throttles."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from envs.cluster import Cluster
from envs.jobs import jobs_array
from envs.policy import Action, Placement, Policy, Preempt, Resize, Start, Throttle, Wait
from envs.scenario import Scenario
from envs.view import View
from envs.workload import Workload

SMALL = Cluster("small", (4, 2, 2), (16.0, 16.0, 24.0), (20, 10, 16), bandwidth_gbs=40.0)


def mixed_table(rng: np.random.Generator, count: int, *, cpu_share: float = 0.25) -> pd.DataFrame:
    """Draw jobs, some without GPUs, whose times never tie; `SMALL` can hold each."""
    gpus = rng.choice([1, 1, 1, 2, 2, 3, 4, 5], count) * (rng.random(count) >= cpu_share)
    duration = rng.lognormal(np.log(400), 1.0, count)
    cores = np.where(
        gpus > 0, np.ceil(gpus * rng.choice([0.5, 1, 2, 3, 4, 7], count)), rng.integers(1, 7, count)
    )
    pays = rng.integers(0, 2, (2, count))
    whole, duty = rng.choice([80.0, 150.0, 300.0], count), rng.uniform(0.3, 1.0, count)
    return pd.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(count)],
            "submit_s": np.sort(rng.uniform(0, 60.0 * count, count)),
            "num_gpus": gpus,
            "duration_s": duration,
            "kind": np.where(gpus > 0, "gpu", "cpu"),
            "gpu_memory_gib": np.where(gpus > 0, rng.uniform(2, 13, count), 0.0),
            "cpu_cores": cores.astype(int),
            "profiled_duration_s": duration * rng.lognormal(0, 0.4, count),
            "profiled_memory_gib": np.where(gpus > 0, rng.uniform(2, 13, count), 0.0),
            "active_ms": np.where(gpus > 0, whole * duty, 0.0),
            "idle_ms": np.where(gpus > 0, whole * (1 - duty), 0.0),
            "pause_s": pays[0] * rng.uniform(1, 40, count),
            "load_s": pays[1] * rng.uniform(1, 40, count),
            "predictable_from": rng.integers(0, 2, count).astype(float),
            "bandwidth_gbs": rng.choice([0.0, 5.0, 20.0], count) * rng.uniform(0.5, 1.5, count),
            "input_core_s": np.where(gpus > 0, rng.choice([0.0, 0.1, 0.4], count), 0.0),
            "sync_gb": np.where(gpus > 0, rng.choice([0.0, 0.1, 0.5], count), 0.0),
        }
    )


def workload(table: pd.DataFrame, cluster: Cluster = SMALL, **choices: Any) -> Workload:
    """Return jobs on a cluster, with all physics unless chosen."""
    scenario = Scenario(trace_file="mixed.csv", **({"physics": "all"} | choices))
    return Workload(table, jobs_array(table, cluster, scenario.parts), cluster, scenario)


class Whims:
    """A policy without sense: legal moves drawn at random; `refused` are the illegal ones that it thought of."""

    def __init__(self, legal: Callable[[Action], bool], seed: int, moves: int = 10**9) -> None:
        self.legal, self.rng, self.moves = legal, np.random.default_rng(seed), moves
        self.refused: list[Action] = []
        self.instant = -1

    def __call__(self, view: View) -> Action:
        """Make some moves at this instant, then wait; after so many moves in all, be sensible."""
        if self.moves <= 0:
            return sensible(view)
        self.moves -= 1
        if view.instant != self.instant:
            self.instant, self.left = view.instant, int(self.rng.integers(6))
        while self.left > 0:
            self.left -= 1
            if self.legal(action := self.idea(view)):
                return action
            self.refused.append(action)
        wait = Wait(float(self.rng.choice([1, 7.5, 60, 400])) if self.rng.random() < 0.3 else None)
        return wait if self.legal(wait) else sensible(view)

    def idea(self, view: View) -> Action:
        """Return some action, of which many are illegal."""
        rng, seen = self.rng, len(view.phase)
        kind, running = rng.random(), view.running
        some = int(rng.choice(running)) if len(running) and rng.random() < 0.9 else int(rng.integers(seen))
        if kind < 0.12:
            return Preempt(some)
        if kind < 0.27:
            return Resize(some, float(rng.choice([0.5, 1, 2, 3, 5])))
        if kind < 0.37:
            return Throttle(some, float(rng.choice([0.2, 0.5, 0.9, 1.0])))
        return self.some_start(view)

    def some_start(self, view: View) -> Action:
        rng = self.rng
        queue = view.queue
        job = int(rng.choice(queue)) if len(queue) else int(rng.integers(len(view.phase)))
        cores = None if rng.random() < 0.5 else float(rng.choice([-1, 0.5, 1, 2, 3, 6, np.nan]))
        if not view.num_gpus[job]:
            return Start(job, Placement((), cores, int(rng.integers(len(view.node_gpus)))))
        room = view.max_share - view.num_residents + np.isin(view.holder, view.pausing)
        gpus = np.flatnonzero(room > 0) if rng.random() < 0.8 else np.arange(len(room))
        count = min(int(view.num_gpus[job]), len(gpus))
        return Start(job, Placement(tuple(rng.choice(gpus, count, replace=False).tolist()), cores))


class Later:
    """One policy for so many instants, then another."""

    def __init__(self, first: Policy, then: Policy, instants: int) -> None:
        self.first, self.then, self.instants = first, then, instants

    def __call__(self, view: View) -> Action:
        """Ask the one whose turn it is."""
        return self.first(view) if view.instant <= self.instants else self.then(view)


def sensible(view: View) -> Action:
    """Start who fits on GPUs of its own, first come, first served; else wait."""
    for job in view.startable.tolist():
        if placement := view.place(job):
            return Start(job, placement)
    return Wait()


USUAL = {
    "submit_s": 0.0,
    "num_gpus": 1,
    "gpu_memory_gib": 1.0,
    "pause_s": 0.0,
    "load_s": 0.0,
    "active_ms": 50.0,
    "idle_ms": 50.0,
    "predictable_from": 0.0,
    "bandwidth_gbs": 0.0,
    "input_core_s": 0.0,
    "sync_gb": 0.0,
}


def table_of(*jobs: dict[str, Any]) -> pd.DataFrame:
    """Return jobs, of which only what is odd about them is said; a job asks for one core a GPU."""
    rows = [USUAL | {"job_id": f"j{number}"} | job for number, job in enumerate(jobs)]
    for row in rows:
        row.setdefault("cpu_cores", max(1, row["num_gpus"]))
        row.setdefault("kind", "gpu" if row["num_gpus"] else "cpu")
        row.setdefault("profiled_duration_s", row["duration_s"])
        row.setdefault("profiled_memory_gib", row["gpu_memory_gib"])
    return pd.DataFrame(rows)
