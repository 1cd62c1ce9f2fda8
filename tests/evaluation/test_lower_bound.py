"""No schedule beats the lower bound: held against every schedule of tiny workloads."""

import functools
import itertools

import numpy as np
import pandas as pd
import pytest

from evaluation.results import lower_bound
from workloads import Scenario


def jobs(*rows: tuple[float, int, float]) -> pd.DataFrame:
    """Return a job table of (submit, GPUs, duration) rows."""
    return pd.DataFrame(rows, columns=["submit_s", "num_gpus", "duration_s"])


def best_mean_jct(table: pd.DataFrame, gpus: int) -> float:
    """Return the least mean JCT of all gang schedules that change at whole seconds, by trying them all.

    Each second, every set of present jobs that fits is tried; the summed JCT is the number present, summed.
    """
    submit = tuple(table["submit_s"].astype(int))
    wanted = tuple(table["num_gpus"])

    @functools.cache
    def least_total(now: int, left: tuple[int, ...]) -> int:
        if not any(left):
            return 0
        present = [job for job, rest in enumerate(left) if rest and submit[job] <= now]
        totals = []
        for count in range(len(present) + 1):
            for running in itertools.combinations(present, count):
                if sum(wanted[job] for job in running) <= gpus and (running or not present):
                    after = tuple(rest - (job in running) for job, rest in enumerate(left))
                    totals.append(least_total(now + 1, after))
        return len(present) + min(totals)

    return least_total(0, tuple(table["duration_s"].astype(int))) / len(table)


def random_jobs(rng: np.random.Generator, gpus: int) -> pd.DataFrame:
    rows = rng.integers((0, 1, 1), (5, gpus + 1, 5), size=(rng.integers(1, 6), 3))
    return jobs(*map(tuple, rows.tolist()))


@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_no_schedule_of_a_tiny_workload_beats_the_bound(gpus: int) -> None:
    rng = np.random.default_rng(gpus)
    for _ in range(60):
        table = random_jobs(rng, gpus)
        assert lower_bound(table, gpus) <= best_mean_jct(table, gpus) + 1e-9, table


def test_the_bound_is_reached_where_every_job_fills_the_cluster() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        table = random_jobs(rng, 1)
        assert lower_bound(table, 1) == pytest.approx(best_mean_jct(table, 1))


def test_a_shorter_job_goes_first_on_a_full_cluster() -> None:
    """Time 0 to 2: the long job; 2 to 3: the short one, JCT 1; 3 to 6: the rest of the long one, JCT 6."""
    assert lower_bound(jobs((0, 2, 5), (2, 2, 1)), gpus=2) == 3.5


def test_without_contention_the_bound_is_the_mean_duration() -> None:
    assert lower_bound(jobs((0, 1, 30), (5, 1, 10)), gpus=8) == 20


def test_the_bound_does_not_depend_on_when_the_clock_started() -> None:
    early, late = (jobs((start, 2, 5), (start + 2, 2, 1)) for start in (0, 1_500_000_000))
    assert lower_bound(early, gpus=2) == lower_bound(late, gpus=2)


def test_cpu_jobs_need_their_duration_and_no_gpu() -> None:
    assert lower_bound(jobs((0, 2, 5), (2, 2, 1), (0, 0, 11)), gpus=2) == (7 + 11) / 3
    assert lower_bound(jobs((0, 0, 11)), gpus=2) == 11


def test_a_job_larger_than_the_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="asks for 4 GPUs and the cluster has 2"):
        lower_bound(jobs((0, 4, 5)), gpus=2)


@pytest.mark.parametrize("part", ["sharing", "cores", "elastic", "gpu_types"])
def test_no_bound_is_told_where_jobs_may_be_faster_than_as_asked(part: str) -> None:
    assert Scenario().has_bound
    assert not Scenario(physics=f"memory,{part}").has_bound
