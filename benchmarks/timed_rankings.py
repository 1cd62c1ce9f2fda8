"""Rows of whole traces under policies that are only an order, and of how their cost grows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from benchmarks import yardsticks
from benchmarks.timing import Contest, Setting, Work, row
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB, JOB_TIERS
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace

POLICIES = ("fifo", "sjf", "easy", "las", "srtf", "xion_threshold")
BARS_S = {"fifo": 0.15, "sjf": 0.1, "easy": 0.2, "las": 0.2, "srtf": 0.3, "xion_threshold": 0.5}
MANY, MORE, FEW = 117_000, 1_000_000, 4_000  # jobs
QUICK_JOBS, SMALL = 400, "8x8"  # of a quick run: all of it in the smallest record, which is compiled once
LOAD = 0.85
CHANGING = "memory,estimates,sharing,locality,cores,bandwidth,links"
TEXTBOOK: dict[str, Callable[[Sequence[yardsticks.Job], int], list[float]]] = {
    "fifo": yardsticks.fifo,
    "sjf": yardsticks.sjf,
    "srtf": yardsticks.srtf,
}


class Flow(NamedTuple):
    """Jobs of Philly's generator on its cluster: how many, what of physics is on, and how they arrive.

    steady: at random instants of a span that gives the load, instead of in Philly's bursts, which make long queues.
    """

    jobs: int
    physics: str = "none"
    steady: bool = False
    load: float = LOAD
    cluster: str = "philly"


@cache
def workload(flow: Flow) -> Workload:
    """Return the workload of a flow."""
    scenario = Scenario(
        trace="philly",
        full_trace=True,
        jobs=flow.jobs,
        cluster=flow.cluster,
        physics=flow.physics,
        target_load=flow.load,
        drop_too_large=True,
    )
    made = full_trace(scenario)
    if not flow.steady:
        return made
    jobs = made.jobs[np.random.default_rng(0).permutation(len(made.jobs))]
    area = float((jobs["num_gpus"] * jobs["duration_s"]).sum())
    span_s = area / (flow.load * made.cluster.num_gpus)
    jobs["submit_s"] = np.sort(np.random.default_rng(1).uniform(0, span_s, len(jobs)))
    return replace(made, jobs=jobs)


def ranking(policy: str) -> Ranking:
    """Return a policy that is only an order."""
    made = baselines.make(baselines.load(policy))
    assert isinstance(made, Ranking), f"{policy} is more than an order"
    return made


def simulation(load: Workload, policy: str, amount: float = 1.0) -> Work:
    """Return the work of simulating a workload."""
    return Work(partial(run, ranking(policy)), amount, load.episode)


def compiling(load: Workload, policy: str) -> Callable[[], object]:
    """Return what compiles all that simulating a workload needs: a run of its first jobs in a record as large."""
    count = next((size + 1 for size in reversed(JOB_TIERS) if size < len(load.jobs)), len(load.jobs))
    part = replace(load, jobs=load.jobs[:count])
    return lambda: run(ranking(policy), part.episode())


def textbook(load: Workload, policy: str) -> tuple[Work, str]:
    """Return a textbook's simulation of the same jobs on a pool of as many GPUs, and what it is called."""
    rows = load.jobs[["submit_s", "num_gpus", "duration_s"]].tolist()
    gpus = load.cluster.num_gpus
    return Work(lambda _: TEXTBOOK[policy](rows, gpus), len(rows)), "textbook heapq loop on a pool"


def flowing(setting: Setting, flow: Flow) -> Workload:
    """Return the workload of a flow, a small one where it is to be quick."""
    return workload(flow._replace(jobs=QUICK_JOBS, cluster=SMALL) if setting.quick else flow)


def trace_row(policy: str, physics: str, steady: bool) -> None:
    """Register a row of the whole trace."""
    arrivals = "at random instants" if steady else "in bursts"
    bar = BARS_S[policy] if physics == "none" else None

    @row(f"{policy}_{physics}_{'steady' if steady else 'philly'}", unit="s", bar=bar)
    def make(setting: Setting) -> Contest:
        load = flowing(setting, Flow(MANY, physics, steady))
        return Contest(simulation(load, policy), warm=compiling(load, policy))

    make.__doc__ = f"{MANY:,} Philly-like jobs on 2,490 GPUs, load {LOAD}, arriving {arrivals}"


def million_row(policy: str, bar: float) -> None:
    """Register a row of a million jobs."""

    @row(f"{policy}_million", unit="s", bar=bar, large=True)
    def make(setting: Setting) -> Contest:
        """1,000,000 Philly-like jobs on 2,490 GPUs, load .85, arriving at random instants."""
        load = flowing(setting, Flow(MORE, steady=True))
        return Contest(simulation(load, policy), warm=compiling(load, policy))


def textbook_row(policy: str) -> None:
    """Register a row of the same work as a textbook's loop does, for which there is a yardstick."""

    @row(f"{policy}_pool", unit="us")
    def make(setting: Setting) -> Contest:
        """4,000 jobs on a pool, a job; times faster than a textbook's loop."""
        load = flowing(setting, Flow(FEW, steady=True, cluster=SMALL))
        load = replace(load, scenario=replace(load.scenario, placement="pooled"))
        theirs, name = textbook(load, policy)
        return Contest(simulation(load, policy, len(load.jobs)), theirs, name)


def event_row(policy: str) -> None:
    """Register a row of what an instant costs."""

    @row(f"{policy}_event", unit="us")
    def make(setting: Setting) -> Contest:
        """4,000 Philly-like jobs on 8x8, load .85, usual physics: an instant."""
        load = flowing(setting, Flow(FEW, "exclusive", cluster=SMALL))
        instants = int(run(ranking(policy), load.episode()).state.instant)
        return Contest(simulation(load, policy, instants))


for _policy in POLICIES:
    for _physics in ("none", "exclusive"):
        for _steady in (True, False):
            trace_row(_policy, _physics, _steady)
for _policy, _bar in (("fifo", 1.0), ("srtf", 3.0)):
    million_row(_policy, _bar)
for _policy in TEXTBOOK:
    textbook_row(_policy)
for _policy in ("fifo", "srtf", "xion_threshold"):
    event_row(_policy)


def one_gpu_jobs(queue: int, jobs: int, gpus: int) -> np.ndarray:
    """Return jobs that each take a GPU for ten minutes on average and come `queue` at a time, as fast as they leave."""
    made = np.zeros(jobs, JOB)
    rng = np.random.default_rng(0)
    made["num_gpus"] = 1
    made["duration_s"] = made["profiled_duration_s"] = rng.uniform(300, 900, jobs)
    made["predictable_from"] = 1.0
    made["submit_s"] = np.arange(jobs) // queue * (queue * 600.0 / gpus)
    return made


def contest_of_growth(small: tuple[int, int, str], large: tuple[int, int, str]) -> Contest:
    """Hold the cost of a job in the larger case (queue, jobs, cluster) against that in the smaller."""

    def work(queue: int, jobs: int, machines: str) -> Work:
        there = cluster(machines)
        table = one_gpu_jobs(queue, jobs, there.num_gpus)
        return Work(partial(run, ranking("sjf")), jobs, lambda: Episode(table, there, exact=True))

    contest = Contest(work(*large), work(*small), "the smaller case")
    return contest._replace(warm=lambda: [each.run(each.prepare()) for each in (work(*small), work(*large))])


@row("growth_queue", unit="x", bar=2.0)
def growth_with_queue(setting: Setting) -> Contest:
    """Cost of a job under sjf where 100,000 queue, over that where 100 do; the same record."""
    queue = QUICK_JOBS if setting.quick else 100_000
    return contest_of_growth((100, queue, "8x8"), (queue, queue, "8x8"))


@row("growth_gpus", unit="x")
def growth_with_gpus(setting: Setting) -> Contest:
    """Cost of a job under sjf on 8,192 GPUs, over that on 64."""
    jobs, large = (QUICK_JOBS, "32x8") if setting.quick else (5_000, "1024x8")
    return contest_of_growth((100, jobs, "8x8"), (100, jobs, large))


@row("growth_jobs", unit="x")
def growth_with_jobs(setting: Setting) -> Contest:
    """Cost of a job under sjf among 100,000 jobs, over that among 200."""
    jobs = QUICK_JOBS if setting.quick else 100_000
    return contest_of_growth((100, 200, "8x8"), (100, jobs, "8x8"))


def speeds_row(name: str, load: float, bar: float) -> None:
    """Register a row of jobs whose speed changes with what runs beside them."""

    @row(name, unit="/s", bar=bar)
    def make(setting: Setting) -> Contest:
        made = flowing(setting, Flow(FEW, CHANGING, load=load, cluster=SMALL))
        return Contest(simulation(made, "fifo", 2.0 * len(made.jobs)))

    make.__doc__ = f"Starts and ends a second under fifo where speeds depend on neighbours, load {load}"


speeds_row("changing_speeds_free", 0.4, 2e6)
speeds_row("changing_speeds_full", 1.5, 1e6)
