"""The compiled kernel equals the plain reference to the last bit on random workloads."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from tests.accounts import reference
from tests.accounts.reference import Job, Outcome, Rules
from tests.cases.scenarios import MIXED, compiled, episode_of, outcomes, random_jobs
from tests.cases.uncompiled import with_the_compiler_off

UNPREEMPTIVE = ("submit", "estimate")
PREEMPTIVE = ("submit", "estimate", "remaining", "remaining_area", "level", "true_remaining")
PLACEMENTS = ("first_fit", "best_fit", "spread", "pooled")
LEVELS = (3250.0, 7200.0)  # GPU-seconds
BASE = [
    Rules(key, preempt, placement, discipline, levels=LEVELS)
    for preempt, keys, disciplines in (
        (False, UNPREEMPTIVE, ("greedy", "strict", "easy")),
        (True, PREEMPTIVE, ("greedy", "strict")),
    )
    for key, placement, discipline in itertools.product(keys, PLACEMENTS, disciplines)
]
PAYING = [
    Ranking("weighted", "cost_aware", exponent=exponent, margin=margin)
    for exponent, margin in itertools.product((0.0, 1.0), (0.0, 1.0, 8.0))
]


def name(rules: Rules) -> str:
    how = "preempting" if rules.preempt else "never"
    return f"{rules.key}-{how}-{rules.placement}-{rules.discipline}"


def workloads(base: Rules, seeds: range, count: int) -> Iterator[tuple[list[Job], Rules]]:
    """Yield one workload per seed; exact and noisy estimates alternate, every third seed has free preemption."""
    for seed in seeds:
        rng = np.random.default_rng([BASE.index(base), seed])
        rules = base._replace(estimates=(BASE.index(base) + seed) % 2 == 0, preemption=seed % 3 != 2)
        yield random_jobs(rng, count, grid_s=float(rng.choice([10, 60]))), rules


@pytest.mark.parametrize("base", BASE, ids=name)
def test_a_workload_of_120_jobs(base: Rules) -> None:
    """At once and step by step."""
    for jobs, rules in workloads(base, range(1), 120):
        expected = reference.simulate(jobs, MIXED, rules)
        assert compiled(jobs, MIXED, rules) == expected
        assert compiled(jobs, MIXED, rules, step_by_step=True) == expected


@pytest.mark.slow  # the reference takes four minutes for these thousand workloads
@pytest.mark.parametrize("base", BASE, ids=name)
def test_fourteen_workloads_of_200_jobs(base: Rules) -> None:
    for jobs, rules in workloads(base, range(1, 15), 200):
        assert compiled(jobs, MIXED, rules) == reference.simulate(jobs, MIXED, rules), rules


def test_the_workloads_tie_and_preempt() -> None:
    counts = []
    for base in BASE:
        for jobs, rules in workloads(base, range(1), 120):
            assert len({job.submit_s for job in jobs}) < len(jobs)
            assert len({job.duration_s for job in jobs}) < len(jobs)
            if base.preempt:
                counts.append(sum(outcome.preemptions for outcome in compiled(jobs, MIXED, rules)))
    assert sum(count >= 10 for count in counts) >= len(counts) / 2


def test_times_that_are_no_whole_seconds() -> None:
    """Sums of such times are rounded, at the limits of a level too. In every third, pauses are free."""
    for number, base in enumerate(BASE):
        rng = np.random.default_rng([number, 1])
        jobs = [
            job._replace(submit_s=job.submit_s / 7, duration_s=job.duration_s / 7, load_s=job.load_s / 3)
            for job in random_jobs(rng, 40)
        ]
        rules = base._replace(estimates=number % 2 == 1, preemption=number % 3 != 2)
        rules = rules._replace(tick_s=33.3, levels=(100.0, 700.1))
        assert compiled(jobs, MIXED, rules) == reference.simulate(jobs, MIXED, rules), rules


@pytest.mark.parametrize("key", PREEMPTIVE)
def test_a_preemptive_ranking_runs_easy_as_skip(key: str) -> None:
    rules = Rules(key, preempt=True, levels=LEVELS)
    jobs = random_jobs(np.random.default_rng(0), 100)
    assert compiled(jobs, MIXED, rules._replace(discipline="easy")) == compiled(jobs, MIXED, rules)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("ranking", PAYING, ids=lambda ranking: f"{ranking.exponent}-{ranking.margin}")
def test_step_by_step_is_whole_where_preemption_is_cost_aware(ranking: Ranking, placement: str) -> None:
    jobs = random_jobs(np.random.default_rng(1), 80)
    rules = Rules("submit", preempt=False, placement=placement)
    whole = run(ranking, episode_of(jobs, MIXED, rules))
    stepped = run(ranking, episode_of(jobs, MIXED, rules), step_by_step=True)
    assert whole.state.num_pauses > 0
    assert outcomes(stepped) == outcomes(whole)


def few_results() -> list[list[Outcome]]:
    """Return the outcomes of forty jobs under every twelfth combination."""
    return [
        compiled(jobs, MIXED, rules) for base in BASE[::12] for jobs, rules in workloads(base, range(1), 40)
    ]


def test_it_means_the_same_with_the_compiler_off() -> None:
    plain = [[Outcome(*row) for row in rows] for rows in with_the_compiler_off(few_results)]
    assert plain == few_results()
    assert len(plain) == 6
