"""Table of jobs that can change their shape, and a random policy that starts and moves them in any shape."""

from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.envs.actions._room import asked_cores, cores_beside, next_cores, shape_of
from gpu_cluster_gym.envs.slots import Shape
from gpu_cluster_gym.simulator.kernel.cluster.layout import PAUSING
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Resize, Start, Throttle, Wait
from gpu_cluster_gym.simulator.view import View
from tests.cases import tiny
from tests.cases.mixed_jobs import sensible

TROUBLES: dict[str, Any] = {
    "cluster": "1x4-40c+1x4-k80-48c+1x3-20c",
    "node_mtbf_h": 2.0,
    "checkpoint_every": 60.0,
    "node_repair_h": 0.3,
    "drain_every_h": 3.0,
    "drain_notice_h": 0.4,
    "drain_length_h": 0.3,
    "drop_too_large": True,
}
MODELS = ("resnet50", "vgg16", "bert_base")


def shaped(seed: int, count: int = tiny.COUNT) -> pd.DataFrame:
    """Draw jobs with and without GPUs, half of them with servers, of which most can be wider, narrower or on cores."""
    rng = np.random.default_rng(seed)
    table = tiny.mixed(seed)[:count]
    gpus = np.minimum(table["num_gpus"], 4)
    some = gpus > 0
    return table.assign(
        num_gpus=gpus,
        model=np.where(some, rng.choice(MODELS, count), "none"),
        cpu_cores=np.where(some, gpus * rng.integers(1, 4, count), table["cpu_cores"]),
        duration_s=np.minimum(table["duration_s"], 5000.0),
        sync_gb=rng.choice([0.0, 0.2], count) * some,
        servers=rng.choice([0, 1, 2], count, p=[0.5, 0.3, 0.2]) * some,
        min_workers=np.maximum(gpus - rng.integers(0, 3, count), 1) * some,
        max_workers=gpus + rng.integers(0, 3, count) * some,
        scaling_loss=rng.uniform(0, 0.3, count) * some,
        cpu_slowdown=rng.choice([0.0, 3.0, 8.0], count) * some,
        predicted_duration_s=np.minimum(table["duration_s"], 5000.0) * rng.lognormal(0, 0.1, count),
        predictable_from=rng.choice([0.0, 0.3, 0.7, 1.0], count),
        crash_at=rng.choice([0.2, 0.5, 1.0], count, p=[0.15, 0.15, 0.7]),
    )


class Whims:
    """A random policy: legal starts and moves in any shape, pauses, cores, throttles and waits, at random.

    moves: number of moves after which it acts sensibly.
    """

    def __init__(self, seed: int, moves: int = 300) -> None:
        self.rng = np.random.default_rng(seed)
        self.instant, self.moves = -1, moves
        self.made: list[Action] = []

    def __call__(self, view: View) -> Action:
        """Make some moves at this instant, then wait."""
        if view.instant != self.instant:
            self.instant, self.left = view.instant, int(self.rng.integers(2, 14))
            self.way = int(self.rng.choice([-1, 1]))  # of cores and throttles, at this instant
        if len(self.made) >= self.moves:
            return sensible(view)
        while self.left > 0:
            self.left -= 1
            if (action := self.idea(view)) is not None and view.why_not(action) is None:
                self.made.append(action)
                return action
        wait = Wait(60.0) if self.rng.random() < 0.3 else Wait()
        return wait if view.why_not(wait) is None else sensible(view)

    def idea(self, view: View) -> Action | None:
        """Return some action, which may be illegal."""
        rng, queue, running = self.rng, view.queue, view.running
        kind = rng.random()
        if kind < 0.7 and len(queue):
            job = int(rng.choice(queue))
            return Start(job, self.placement(view, job))
        if not len(running):
            return None
        job = int(rng.choice(running))
        if kind < 0.73:
            return Preempt(job)
        if kind < 0.9:
            return Resize(job, placement=self.placement(view, job))
        if kind < 0.95:
            shape = shape_of(view, job)
            now, asked = float(view.jobs.cores_now[job]), asked_cores(view, job, shape)
            return Resize(job, next_cores(now, asked, shape, self.way))
        return Throttle(job, round(float(view.jobs.throttle[job]) + self.way * 0.3, 1))

    def placement(self, view: View, job: int) -> Placement:
        """Return some GPUs, or a node, for a job in some shape."""
        rng = self.rng
        node = int(rng.integers(len(view.nodes.num_gpus)))
        if view.jobs.is_cpu_job[job]:
            return Placement((), None if rng.random() < 0.7 else float(rng.integers(1, 6)), node)
        workers = int(rng.integers(view.jobs.min_workers[job], view.jobs.max_workers[job] + 1))
        servers = int(rng.integers(1, 4)) if view.jobs.servers[job] else 0
        if rng.random() < 0.2:
            return Placement((), None, node, workers, servers)
        here = view.gpus.jobs
        own = (here < 0) | (here == job) | (view.jobs.phase[here] == PAUSING)
        wanted = own.all(axis=1) if rng.random() < 0.9 else np.ones(len(own), bool)
        gpus = rng.permutation(np.flatnonzero(wanted & (view.gpus.reserved_for == -1)))
        if rng.random() < 0.6:
            gpus = gpus[np.argsort(view.gpus.node[gpus], kind="stable")]
        gpus = gpus[: workers + servers * int(rng.random() < 0.4)]
        beside = cores_beside(Shape(workers, servers, apart=len(gpus) > workers))
        cores = beside + float(rng.integers(1, 9)) if view.cpu_limited and rng.random() < 0.3 else None
        return Placement(tuple(gpus.tolist()), cores, None, workers, servers)
