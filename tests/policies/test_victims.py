"""Victims of the cost-aware rule, worked by hand: who is chosen among equals, and how long a job runs undisturbed."""

from typing import Any

import pytest

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from tests.cases.by_hand import ONE, job
from tests.cases.mixed_jobs import table_of, workload

FOUR = Cluster("a node of four", (4,), (16.0,), (16,))


def ends(
    *jobs: dict[str, Any], margin: float = 0.0, cluster: Cluster = ONE, physics: str = "preemption"
) -> list[float]:
    """Return when each job ends under the rule, on two GPUs unless chosen, with exact estimates."""
    work = workload(table_of(*jobs), cluster, physics=physics)
    rule = Ranking("remaining", "cost_aware", margin=margin)
    finish: list[float] = work.results(run(rule, work.episode()))["finish_s"].tolist()
    return finish


def test_of_two_victims_with_equal_time_left_the_earlier_job_is_paused() -> None:
    """B and C have 900 s left at 200, B on the higher GPU, since C follows A at 100: D pauses B from 200 to 210."""
    jobs = job(100), job(1100), job(1000, submit_s=50.0), job(10, submit_s=200.0)
    assert ends(*jobs) == [100, 1110, 1100, 210]


def test_the_job_with_more_time_left_is_paused_wherever_it_is() -> None:
    jobs = job(100), job(1100), job(1001, submit_s=50.0), job(10, submit_s=200.0)
    assert ends(*jobs) == [100, 1100, 1111, 210]


def test_a_job_runs_for_a_minute_before_it_is_displaced() -> None:
    """B would gain from 30 on, and is looked at as C, D and E arrive, at 59.5, 60 and 61: it runs from 60 to 70."""
    later = [job(50_000, submit_s=time, num_gpus=2) for time in (59.5, 60.0, 61.0)]
    assert ends(job(10_000, num_gpus=2), job(10, submit_s=30.0, num_gpus=2), *later)[:2] == [10_010, 70]


@pytest.mark.parametrize(("startup", "expected"), [(30.0, [1090, 990]), (50.0, [1000, 1110])])
def test_a_victim_must_outlast_the_start_up_of_the_other_job_too(
    startup: float, expected: list[float]
) -> None:
    """A has 100 s left at 900, when B comes, which runs for 60 s after its start-up."""
    jobs = job(1000, num_gpus=2), job(60, submit_s=900.0, num_gpus=2, startup_s=startup)
    assert ends(*jobs, physics="preemption,startup") == expected


def test_two_victims_are_worth_the_mean_of_their_time_left() -> None:
    """A and B have 250 and 110 s left at 750, 180 on average: less than the 2 x 100 that C would cost them.

    When B has ended at 860, A alone has 140 s left, more than 100: C pauses it until 960.
    """
    assert ends(job(1000), job(860), job(100, submit_s=750.0, num_gpus=2)) == [1100, 860, 960]


def test_the_overhead_of_each_victim_counts() -> None:
    """Both have 300 s left at 700; C would cost them 100 each, and B a pause and a load of 150 in addition."""
    jobs = job(1000), job(1000, pause_s=75.0, load_s=75.0), job(100, submit_s=700.0, num_gpus=2)
    assert ends(*jobs, margin=1.0) == [1000, 1000, 1100]


def test_no_job_is_paused_in_vain() -> None:
    """A, the longest, has one GPU and B two, which are enough for D at 100; C has too little time left to be paused.

    C ends at 105: then B needs one GPU more and pauses A until D has ended at 110, for 5 s and not for 10.
    """
    jobs = job(2000), job(1500, num_gpus=2), job(105), job(10, submit_s=100.0, num_gpus=2)
    assert ends(*jobs, cluster=FOUR) == [2005, 1505, 105, 110]
