"""Warm starts: the kernel equals the plain reference where a policy begins on a cluster in use, and all laws hold."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation.metrics import summarise
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.simulator.relaxations import lower_bound
from gpu_cluster_gym.workloads import Scenario, Workload
from gpu_cluster_gym.workloads._workload import prepare, read
from tests.accounts import reference
from tests.accounts.ledger import Ledger
from tests.accounts.reference import Job, Node, Rules
from tests.cases.scenarios import MIXED, Restless, compiled, random_jobs
from tests.simulator.test_kernel_equals_reference import BASE, name
from tests.simulator.test_laws import RANKINGS, fresh

FIFO = Ranking("submit")
DAY_S = 86_400.0
SUBMITS = (0, 600, 1800, 3600, 5400, 7200, 9000)  # s; those from 1800 to before 7200 count
COUNTED = [False, False, True, True, True, False, False]


def cases(base: Rules, seeds: range, count: int) -> Iterator[tuple[list[Job], Rules, float]]:
    """Yield a workload per seed, and when its policy begins: with an arrival, between grid times, or after all."""
    for seed in seeds:
        rng = np.random.default_rng([7, BASE.index(base), seed])
        rules = base._replace(estimates=(BASE.index(base) + seed) % 2 == 0, preemption=seed % 3 != 2)
        jobs = random_jobs(rng, count, grid_s=float(rng.choice([10, 60])))
        arrival_s = jobs[int(rng.integers(count // 4, count))].submit_s
        yield jobs, rules, (arrival_s, arrival_s + 3.7, 1e7)[seed % 3 if seed < 3 else seed % 2]


def assert_equal(base: Rules, seeds: range, count: int) -> None:
    """Compare at once and step by step."""
    for jobs, rules, begins_s in cases(base, seeds, count):
        expected = reference.simulate(jobs, MIXED, rules, begins_s)
        assert compiled(jobs, MIXED, rules, begins_s) == expected, (rules, begins_s)
        assert compiled(jobs, MIXED, rules, begins_s, step_by_step=True) == expected, (rules, begins_s)


@pytest.mark.parametrize("base", BASE, ids=name)
def test_a_workload_of_40_jobs(base: Rules) -> None:
    """The policy begins with an arrival, between times of the grid, or after all, in turn."""
    turn = BASE.index(base) % 3
    assert_equal(base, range(turn, turn + 1), 40)


@pytest.mark.slow  # the reference takes minutes for these thousand workloads
@pytest.mark.parametrize("base", BASE, ids=name)
def test_fourteen_workloads_of_150_jobs(base: Rules) -> None:
    assert_equal(base, range(3, 17), 150)


def test_the_begin_matters() -> None:
    """Under most rankings outcomes differ from those of a start with the first job."""
    differ = []
    for base in BASE:
        if base.preempt or base.key != "submit":
            for jobs, rules, begins_s in cases(base, range(1), 40):
                differ.append(compiled(jobs, MIXED, rules, begins_s) != compiled(jobs, MIXED, rules))
    assert np.mean(differ) >= 0.7


@pytest.mark.parametrize("policy", [*RANKINGS, "restless", "tiresias"])
def test_all_laws_hold_from_the_first_job_to_the_last(policy: str) -> None:
    episode = fresh(3, "best_fit")
    ledger = Ledger(episode).lead(FIFO, float(episode.jobs["submit_s"][30]))
    if policy in RANKINGS:
        ledger.walk(RANKINGS[policy])
    else:
        found = Restless(3) if policy == "restless" else baselines.make(baselines.load(policy))
        ledger.walk(found) if isinstance(found, Ranking) else ledger.play(found)
    assert ledger.broken == {}


# Uncounted jobs.


def counted_window(folder: Path, seed: int) -> tuple[Workload, list[Job]]:
    """Return a window of random jobs on two nodes as a workload and as jobs of the reference."""
    rng = np.random.default_rng(seed)
    submits = sorted([*SUBMITS, *rng.integers(0, 900, 40) * 10])
    gpus = rng.choice([1, 2, 4, 8], len(submits), p=[0.5, 0.2, 0.2, 0.1])
    run_s = rng.integers(6, 600, len(submits)) * 10.0
    rows = zip(submits, gpus.tolist(), run_s.tolist(), strict=True)
    cells = [f"j{number},{submit},{width},{took}" for number, (submit, width, took) in enumerate(rows)]
    file = folder / "log.csv"
    file.write_text("\n".join(["job_id,submit_s,num_gpus,duration_s", *cells]) + "\n")
    scenario = Scenario(
        trace_file=str(file),
        cluster="2x8",
        physics="none",
        steady_load=1.0,
        warm_days=1800 / DAY_S,
        counted_days=5400 / DAY_S,
        after_days=1800 / DAY_S,
    )
    load = prepare(read(scenario), scenario)
    columns = zip(
        *(load.jobs[field].tolist() for field in ("submit_s", "num_gpus", "duration_s")), strict=True
    )
    return load, [Job(submit, width, took, took, 0.0, 0.0, 0.0) for submit, width, took in columns]


RULES = {
    "fifo": Rules("submit", preempt=False),
    "sjf": Rules("estimate", preempt=False),
    "srtf": Rules("true_remaining", preempt=True),
}


@pytest.mark.parametrize("policy", RULES)
def test_metrics_are_those_of_the_counted_jobs_of_the_reference(policy: str, tmp_path: Path) -> None:
    for seed in range(4):
        load, jobs = counted_window(tmp_path, seed)
        rules = RULES[policy]._replace(memory=False, preemption=False, estimates=False, tick_s=0.0)
        nodes = [Node(8, 16.0, 48)] * 2
        outcomes = reference.simulate(jobs, nodes, rules, 1800.0)
        chosen = [
            (job, each) for job, each in zip(jobs, outcomes, strict=True) if 1800 <= job.submit_s < 7200
        ]
        results = load.results(run(baselines.make(baselines.load(policy)), load.episode()))
        assert results["finish_s"].tolist() == [each.finish_s for _, each in chosen]
        assert results["wait_s"].tolist() == [each.wait_s for _, each in chosen]
        summary = summarise(results, gpus=16).iloc[0]
        jct_s = [each.finish_s - job.submit_s for job, each in chosen]
        assert summary["jobs"] == len(chosen) < len(jobs)
        assert summary["mean_jct_s"] == pytest.approx(np.mean(jct_s), rel=1e-12)
        assert summary["mean_wait_s"] == pytest.approx(
            np.mean([each.wait_s for _, each in chosen]), rel=1e-12
        )
        bound = lower_bound(load._empty(1), load.counted)
        assert np.mean([job.duration_s for job, _ in chosen]) == pytest.approx(bound)


def test_jobs_submitted_at_the_first_limit_count_and_at_the_second_do_not(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    cells = [f"j{number},{submit},1,600" for number, submit in enumerate(SUBMITS)]
    file.write_text("\n".join(["job_id,submit_s,num_gpus,duration_s", *cells]) + "\n")
    scenario = Scenario(
        trace_file=str(file),
        cluster="1x1",
        physics="none",
        steady_load=1.0,
        warm_days=1800 / DAY_S,
        counted_days=5400 / DAY_S,
        after_days=1800 / DAY_S,
    )
    assert prepare(read(scenario), scenario).counted.tolist() == COUNTED


def test_all_policies_begin_with_the_same_running_jobs_on_the_same_gpus(tmp_path: Path) -> None:
    load, _ = counted_window(tmp_path, 0)
    first, again = load.episode(), load.episode()
    held = first.view.gpus.first_owner.copy()
    assert (held >= 0).any()
    assert len(first.view.queue)
    run(Ranking("remaining", "by_order"), first, oracle=True)
    assert (
        again.view.gpus.first_owner.tolist() == held.tolist() == load.episode().view.gpus.first_owner.tolist()
    )
