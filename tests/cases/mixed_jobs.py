"""Tables of interfering jobs, and a random policy that shares, resizes and throttles."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.constraints import Constraints
from gpu_cluster_gym.simulator.episode import infeasible_jobs, lay_out
from gpu_cluster_gym.simulator.jobs import jobs_array
from gpu_cluster_gym.simulator.policy import Action, Placement, Policy, Preempt, Resize, Start, Throttle, Wait
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import COLUMNS
from gpu_cluster_gym.workloads import Scenario, Workload

SMALL = Cluster("small", (4, 2, 2), (16.0, 16.0, 24.0), (20, 10, 16), bandwidth_gbs=40.0)
TYPES = replace(SMALL, node_types=("v100", "k80", "a100"))
SLOW = replace(SMALL, inter_gbs=1.0)
OUTAGES: dict[str, Any] = {  # of nodes, in hours; s of progress between checkpoints
    "node_mtbf_h": 0.7,
    "node_repair_h": 0.05,
    "drain_every_h": 0.5,
    "drain_notice_h": 0.06,
    "drain_length_h": 0.05,
    "checkpoint_every": 100.0,
}


def mixed_table(rng: np.random.Generator, count: int, *, cpu_share: float = 0.25) -> pd.DataFrame:
    """Draw jobs, some without GPUs, whose times never tie; `SMALL` can hold each."""
    gpus = rng.choice([1, 1, 1, 2, 2, 3, 4, 5], count) * (rng.random(count) >= cpu_share)
    duration = rng.lognormal(np.log(400), 1.0, count)
    cores = np.where(
        gpus > 0, np.ceil(gpus * rng.choice([0.5, 1, 2, 3, 4, 7], count)), rng.integers(1, 7, count)
    )
    pays = rng.integers(0, 2, (2, count))
    whole, duty = rng.choice([80.0, 150.0, 300.0], count), rng.uniform(0.3, 1.0, count)
    table = pd.DataFrame(
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
            "profiled_active_ms": np.where(gpus > 0, whole * duty**1.2, 0.0),
            "profiled_idle_ms": np.where(gpus > 0, whole * (1 - duty**1.2), 0.0),
            "pause_s": pays[0] * rng.uniform(1, 40, count),
            "load_s": pays[1] * rng.uniform(1, 40, count),
            "startup_s": np.where(gpus > 0, duration % 30 * (duration % 3 > 1), 0.0),
            "predictable_from": rng.choice([0.0, 1.0, 0.25, 0.66], count),
            "bandwidth_gbs": rng.choice([0.0, 5.0, 20.0], count) * rng.uniform(0.5, 1.5, count),
            "input_core_s": np.where(gpus > 0, rng.choice([0.0, 0.1, 0.4], count), 0.0),
            "sync_gb": np.where(gpus > 0, rng.choice([0.0, 0.1, 0.5], count), 0.0),
        }
    )
    return table.assign(**elastic(rng, gpus), predicted_duration_s=duration * rng.lognormal(0, 0.1, count))


def elastic(rng: np.random.Generator, gpus: np.ndarray) -> dict[str, Any]:
    """Draw the shapes of jobs, how they scale, and when they fail by themselves."""
    count = len(gpus)
    return {
        "servers": np.where((gpus > 0) & (rng.random(count) < 0.5), rng.integers(1, 4, count), 0),
        "min_workers": np.maximum(gpus - rng.integers(0, 4, count), np.minimum(gpus, 1)),
        "max_workers": gpus + rng.integers(0, 4, count) * (gpus > 0),
        "scaling_loss": rng.choice([0.0, 0.1, 0.4], count),
        "cpu_slowdown": np.where(gpus > 0, rng.choice([0.0, 1.5, 4.0], count), 0.0),
        "crash_at": rng.choice([1.0, 1.0, 0.37, 0.81], count),
        "model": rng.choice(["resnet50", "lstm", "vgg16"], count),
    }


def workload(table: pd.DataFrame, cluster: Cluster = SMALL, **choices: Any) -> Workload:
    """Return jobs on a cluster, with all physics unless chosen."""
    scenario = Scenario(trace_file="mixed.csv", **({"physics": "all"} | choices))
    lacking = [column for column in COLUMNS if column.always and column.name not in table]
    table = table.assign(**{column.name: column.neutral for column in lacking})
    return Workload(table, jobs_array(table, cluster, scenario.parts), cluster, scenario)


def bound(work: Workload, seed: int) -> Workload:
    """Return the same jobs, of which some may use some nodes only, and some wait for others, earlier or later ones."""
    rng = np.random.default_rng([seed, 7])
    count, nodes = len(work.jobs), work.cluster.num_nodes
    may_use = (rng.random((count, nodes)) < 0.5) | (rng.random((count, 1)) < 0.3)
    place = np.argsort(np.argsort(np.arange(count) + rng.normal(0, 1.0, count)))
    pairs = [(a, b) for a in range(count) for b in range(count) if 0 < place[a] - place[b] < 4]
    waits_for = np.array([pair for pair in pairs if rng.random() < 0.15], np.int64).reshape(-1, 2)
    constraints = Constraints(np.arange(nodes), may_use, waits_for)
    jobs, fields = work.jobs.copy(), work.physics.fields(work.cluster) | constraints.fields()
    states = lay_out(jobs, work.cluster, "best_fit", **fields)
    may_use[infeasible_jobs(states, jobs)] = True
    return replace(work, constraints=constraints)


class Whims:
    """Random policy: legal moves drawn at random; `refused` are the illegal moves that it considered."""

    def __init__(self, legal: Callable[[Action], bool], seed: int, moves: int = 10**9) -> None:
        self.legal, self.rng, self.moves = legal, np.random.default_rng(seed), moves
        self.refused: list[Action] = []
        self.instant = -1

    def __call__(self, view: View) -> Action:
        """Make some moves at this instant, then wait; after a number of moves in all, be sensible."""
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
        """Return some action, which is often illegal."""
        rng, seen = self.rng, len(view.jobs.phase)
        kind, running = rng.random(), view.running
        some = int(rng.choice(running)) if len(running) and rng.random() < 0.9 else int(rng.integers(seen))
        if kind < 0.12:
            return Preempt(some)
        if kind < 0.27:
            return Resize(some, float(rng.choice([0.5, 1, 2, 3, 5, 8])))
        if kind < 0.37:
            return Throttle(some, float(rng.choice([0.2, 0.5, 0.9, 1.0])))
        if kind < 0.5:
            return Resize(some, 2.0 if kind < 0.38 else None, self.some_placement(view, some))
        queue = view.queue
        return self.some_start(view, int(rng.choice(queue)) if len(queue) else some)

    def some_start(self, view: View, job: int) -> Start:
        return Start(job, self.some_placement(view, job))

    def some_placement(self, view: View, job: int) -> Placement:
        """Return some GPUs, or a node, for a job that has a queue, in some shape."""
        rng = self.rng
        cores = None if rng.random() < 0.6 else float(rng.choice([-1, 0.5, 1, 2, 3, 6, 10, np.nan]))
        node = int(rng.integers(len(view.nodes.num_gpus)))
        if not view.jobs.num_gpus[job]:
            return Placement((), cores, node)
        workers, servers = self.some_shape(view, job)
        if view.jobs.cpu_slowdown[job] and rng.random() < 0.3:
            return Placement((), cores if rng.random() < 0.2 else None, node, workers, servers)
        room = view.max_share - view.gpus.num_jobs + np.isin(view.gpus.first_owner, [*view.pausing, job])
        gpus = np.flatnonzero(room > 0) if rng.random() < 0.8 else np.arange(len(room))
        asked = int(view.jobs.num_gpus[job]) if workers is None else workers
        beside = bool(servers) and rng.random() < 0.3
        count = min(asked + (servers or 0) * beside, len(gpus))
        named = asked if beside else workers if rng.random() < 0.2 else None
        return Placement(tuple(rng.choice(gpus, count, replace=False).tolist()), cores, None, named, servers)

    def some_shape(self, view: View, job: int) -> tuple[int | None, int | None]:
        """Return some numbers of workers and servers, None for those requested."""
        rng = self.rng
        if rng.random() < 0.4:
            return None, None
        least, most = int(view.jobs.min_workers[job]), int(view.jobs.max_workers[job])
        workers = int(rng.integers(least, most + 1) + rng.choice([-1, 1]) * (rng.random() < 0.1))
        servers = int(rng.choice([1, 2, 3, 5, 11])) if view.jobs.servers[job] or rng.random() < 0.1 else None
        return max(workers, 1), servers


class Later:
    """One policy for a number of instants, then another."""

    def __init__(self, first: Policy, then: Policy, instants: int) -> None:
        self.first, self.then, self.instants = first, then, instants

    def __call__(self, view: View) -> Action:
        """Call the current policy."""
        return self.first(view) if view.instant <= self.instants else self.then(view)


def sensible(view: View) -> Action:
    """Start the jobs that fit on exclusive GPUs, first come, first served; else wait."""
    for job in view.startable.tolist():
        if placement := view.place(job):
            return Start(job, placement)
    return Wait()


USUAL: dict[str, Any] = {
    "submit_s": 0.0,
    "num_gpus": 1,
    "gpu_memory_gib": 1.0,
    "pause_s": 0.0,
    "load_s": 0.0,
    "startup_s": 0.0,
    "active_ms": 50.0,
    "idle_ms": 50.0,
    "predictable_from": 0.0,
    "bandwidth_gbs": 0.0,
    "input_core_s": 0.0,
    "sync_gb": 0.0,
    "servers": 0,
    "scaling_loss": 0.0,
    "cpu_slowdown": 0.0,
    "crash_at": 1.0,
    "model": "resnet50",
}


def table_of(*jobs: dict[str, Any]) -> pd.DataFrame:
    """Return jobs with these columns and defaults for all others; a job requests one core per GPU."""
    rows: list[dict[str, Any]] = [USUAL | {"job_id": f"j{number}"} | job for number, job in enumerate(jobs)]
    for row in rows:
        row.setdefault("cpu_cores", max(1, int(row["num_gpus"])))
        row.setdefault("kind", "gpu" if row["num_gpus"] else "cpu")
        row.setdefault("min_workers", row["num_gpus"])
        row.setdefault("max_workers", row["num_gpus"])
        row.setdefault("profiled_duration_s", row["duration_s"])
        row.setdefault("predicted_duration_s", row["duration_s"])
        row.setdefault("profiled_memory_gib", row["gpu_memory_gib"])
        row.setdefault("profiled_active_ms", row["active_ms"])
        row.setdefault("profiled_idle_ms", row["idle_ms"])
    return pd.DataFrame(rows)
