"""Small workloads, a random policy, and the compiled kernel behind the signature of the plain reference."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Ranking, Start, Wait
from gpu_cluster_gym.simulator.view import View
from tests.accounts.reference import Job, Node, Outcome, Rules

# Sizes of node that are powers of two, each with small and with large GPUs: 30 GPUs.
MIXED = tuple(Node(gpus, memory, 6 * gpus) for gpus in (8, 4, 2, 1) for memory in (12.0, 24.0))


def jobs_array(jobs: Sequence[Job], rules: Rules) -> np.ndarray:
    """Return the kernel's array of the reference's jobs, without the physics that the rules switch off."""
    array = np.zeros(len(jobs), JOB)
    array["cores_each"] = 0.7 * (1 + np.arange(len(jobs)) % 4)  # of six a GPU; sums are rounded
    each = Job(*np.array(jobs, float).reshape(-1, len(Job._fields)).T)
    array["submit_s"], array["num_gpus"], array["duration_s"] = each.submit_s, each.num_gpus, each.duration_s
    array["profiled_duration_s"] = each.estimate_s if rules.estimates else each.duration_s
    array["profiled_memory_gib"] = array["gpu_memory_gib"] = each.gpu_memory_gib if rules.memory else 0.0
    if rules.preemption:
        array["pause_s"], array["load_s"] = each.pause_s, each.load_s
    return array


def cluster_of(nodes: Sequence[Node]) -> Cluster:
    """Return the cluster of the reference's nodes."""
    gpus, memory, cores = zip(*nodes, strict=True)
    return Cluster("test", gpus, memory, cores)


def ranking_of(rules: Rules) -> Ranking:
    """Return the ranking that the rules describe."""
    preempt = "by_order" if rules.preempt else "never"
    return Ranking(rules.key, preempt, levels=rules.levels if rules.key == "level" else ())  # type: ignore[arg-type]


def episode_of(jobs: Sequence[Job], nodes: Sequence[Node], rules: Rules, **given: Any) -> Episode:
    """Return a new episode of the reference's jobs under the scenario's part of the rules. given: other keywords."""
    return Episode(
        jobs_array(jobs, rules),
        cluster_of(nodes),
        placement=rules.placement,
        discipline=rules.discipline,
        exact=not rules.estimates,
        tick_s=rules.tick_s,
        **given,
    )


def outcomes(episode: Episode) -> list[Outcome]:
    """Return the outcome of each job of a finished episode."""
    state = episode.state
    fields = (
        state.start_s,
        state.finish_s,
        state.wait_s,
        state.attained_s,
        state.overhead_s,
        state.preemptions,
    )
    columns = [field[: len(episode.jobs)].tolist() for field in fields]
    return [Outcome(*row) for row in zip(*columns, strict=True)]


def compiled(
    jobs: Sequence[Job],
    nodes: Sequence[Node],
    rules: Rules,
    begins_s: float | None = None,
    *,
    step_by_step: bool = False,
) -> list[Outcome]:
    """Simulate with the compiled kernel; until `begins_s`, if given, by submission without preemption."""
    episode = episode_of(jobs, nodes, rules)
    if begins_s is not None:
        episode.run_until(Ranking("submit"), begins_s)
    return outcomes(run(ranking_of(rules), episode, step_by_step=step_by_step, oracle=True))


def random_jobs(
    rng: np.random.Generator,
    count: int,
    *,
    load: float = 1.5,
    gpus: int = 30,
    grid_s: float = 10.0,
    costs: bool = True,
) -> list[Job]:
    """Draw jobs that `MIXED` can hold, on a coarse grid of times so that many tie; half of them have pause costs."""
    sizes = rng.choice([1, 2, 3, 4, 6, 8, 12, 16], count, p=[0.4, 0.2, 0.05, 0.15, 0.05, 0.09, 0.03, 0.03])
    memory = rng.choice([0.0, 8.0, 12.0, 16.0, 24.0], count, p=[0.1, 0.4, 0.2, 0.2, 0.1])
    memory[sizes > 15] = 12.0  # the nodes with large GPUs have fifteen
    duration = grid_s * np.ceil(np.minimum(rng.lognormal(np.log(600), 1.3, count), 20_000) / grid_s)
    estimate = grid_s * np.ceil(duration * rng.lognormal(0, 0.5, count) / grid_s)
    span = (sizes * duration).sum() / gpus / load
    submit = np.sort(grid_s * np.floor(rng.uniform(0, span, count) / grid_s))
    pays = costs * rng.integers(0, 2, (2, count))
    pause, load_s = pays * rng.choice([5.0, 30.0, 70.0], (2, count))
    columns = (submit, sizes, duration, estimate, memory, pause, load_s)
    return [Job(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def usable_gpus(view: View, job: int) -> np.ndarray:
    """Return the GPUs, free or being freed, on which a job could be started."""
    holders = view.gpus.first_owner
    going = np.isin(holders, view.pausing) | (holders < 0)
    return np.flatnonzero(
        going
        & (view.gpus.reserved_for < 0)
        & (view.nodes.gpu_memory_gib[view.gpus.node] >= view.jobs.profiled_memory_gib[job])
    )


class Restless:
    """Random policy: it starts, reserves, preempts and waits at random, always legally."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.instant = -1

    def __call__(self, view: View) -> Action:
        """Make one of a few moves at this instant, or wait; never pause the last active job."""
        if view.instant != self.instant:
            self.instant, self.paused, self.left = view.instant, set[int](), int(self.rng.integers(5))
        active = len(view.running) + len(view.loading) + len(view.pausing)
        if self.left or not active:
            self.left = max(self.left - 1, 0)
            if active > 1 and len(victims := view.preemptible) and self.rng.random() < 0.3:
                self.paused.add(job := int(self.rng.choice(victims)))
                return Preempt(job)
            if move := self.some_start(view):
                return move
        return Wait(float(self.rng.choice([1, 7.5, 60, 400])) if self.rng.random() < 0.2 else None)

    def some_start(self, view: View) -> Start | None:
        """Return a start of some queued job on some GPUs, often where the placement rule puts it."""
        for job in self.rng.permutation(view.queue).tolist():
            if job in self.paused:
                continue
            if self.rng.random() < 0.5 and (placement := view.place(job)):
                return Start(job, placement)
            gpus = usable_gpus(view, job)
            if len(gpus) >= view.jobs.num_gpus[job]:
                chosen = self.rng.choice(gpus, view.jobs.num_gpus[job], replace=False)
                return Start(job, Placement(tuple(chosen.tolist())))
        return None
