"""Victims of the cost-aware rule, worked by hand: who is chosen among equals, and how long a job runs undisturbed."""

from typing import Any

import pytest

from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from tests.cases.by_hand import ONE, job
from tests.cases.mixed_jobs import table_of, workload

RULE = Ranking("remaining", "cost_aware", margin=0.0)


def ends(*jobs: dict[str, Any], physics: str = "preemption") -> list[float]:
    """Return when each job ends on two GPUs under the rule, with free preemption and exact estimates."""
    work = workload(table_of(*jobs), ONE, physics=physics)
    finish: list[float] = work.results(run(RULE, work.episode()))["finish_s"].tolist()
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
