"""Metrics are computed from one results table, and match values computed by hand."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.evaluation.metrics import (
    METRICS,
    equal_share_jct_s,
    in_table,
    late_work,
    pool,
    summarise,
    top_share,
)
from gpu_cluster_gym.simulator.results import COLUMNS, table


def episode(**changed: Any) -> dict[str, Any]:
    """Return three jobs on two GPUs, as columns of a results table.

    a (1 GPU) runs from 0 to 1000. b (2 GPUs) arrives at 100, waits until 1000, runs 100 s that are lost, waits 50 s for
    its restart and runs 400 s. c (1 GPU) runs 10 s, pauses for 20 s, waits 1590 s, loads for 30 s and runs 150 s, until
    1800. Together b and c exceed the two GPUs, since only the sums matter here.
    """
    columns = {
        "window": 3,
        "seed": 7,
        "job_id": ["a", "b", "c"],
        "kind": ["gpu", "gpu", "gpu"],
        "num_gpus": [1, 2, 1],
        "submit_s": [0.0, 100.0, 0.0],
        "start_s": [0.0, 1000.0, 0.0],
        "finish_s": [1000.0, 1550.0, 1800.0],
        "wait_s": [0.0, 950.0, 1590.0],
        "run_s": [1000.0, 400.0, 160.0],
        "overhead_s": [0.0, 0.0, 50.0],
        "lost_s": [0.0, 100.0, 0.0],
        "preemptions": [0, 0, 1],
        "oom_restarts": [0, 1, 0],
        "status": ["passed", "passed", "killed"],
    }
    return {**columns, **changed}


def cut_episode() -> pd.DataFrame:
    """Return the three jobs cut at 1700, when c has run 50 s after its restart."""
    return table(
        **episode(
            finish_s=[1000.0, 1550.0, np.nan], wait_s=[0.0, 950.0, 1590.0], run_s=[1000.0, 400.0, 60.0]
        ),
        allow_unfinished=True,
    )


@pytest.fixture
def summary() -> pd.Series:
    return summarise(table(**episode()), gpus=2).iloc[0]


def test_the_table_has_its_columns_in_order() -> None:
    assert list(table(**episode())) == list(COLUMNS)


def test_completion_time_is_the_sum_of_its_parts() -> None:
    results = table(**episode())
    parts = results[["wait_s", "run_s", "overhead_s", "lost_s"]].sum(axis="columns")
    assert results["jct_s"].tolist() == parts.tolist() == [1000.0, 1450.0, 1800.0]


def test_a_broken_sum_raises_an_assertion_with_the_job() -> None:
    with pytest.raises(AssertionError, match="not the sum of its parts"):
        table(**episode(wait_s=[0.0, 950.01, 1590.0]))


def test_rounding_of_large_times_is_tolerated() -> None:
    late = 1e9 + 1 / 3
    results = table(
        **episode(submit_s=[late, late + 100, late], finish_s=[late + 1000, late + 1550, late + 1800])
    )
    assert results["jct_s"].tolist() == pytest.approx([1000, 1450, 1800])


def test_an_unfinished_job_is_named_in_the_error() -> None:
    with pytest.raises(ValueError, match=r"1 of 3 jobs are unfinished \(the first is c"):
        table(**episode(finish_s=[1000.0, 1550.0, np.nan]))


def test_a_cut_table_is_refused_by_default() -> None:
    with pytest.raises(ValueError, match="unfinished"):
        summarise(cut_episode(), gpus=2)


def test_every_column_of_a_summary_is_declared() -> None:
    of_job = {"user": ["u", "u", "v"], "vc": ["x", "y", "z"], "tenant": ["s", "s", "t"]}
    owners = pd.DataFrame({"job_id": ["a", "b", "c"], **of_job})
    more = {"busy_s": [900.0, 100.0, 0.0], "core_s": [1.0, 2.0, 3.0], "deadline_s": [0.0, 0.0, 9.0]}
    one_without = episode(num_gpus=[1, 2, 0], **more)
    summary = summarise(table(**one_without), gpus=2, cores=12, owners=owners)
    assert list(summary) == ["window", "seed", *METRICS]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("window", 3),
        ("seed", 7),
        ("jobs", 3),
        ("unfinished", 0),
        ("mean_jct_s", 4250 / 3),
        ("median_jct_s", 1450),
        ("p95_jct_s", 1450 + 0.9 * 350),  # at rank 0.95 * 2 of three
        ("p99_jct_s", 1450 + 0.98 * 350),
        ("max_jct_s", 1800),
        ("jct_variance_s2", (1000**2 + 1450**2 + 1800**2) / 3 - (4250 / 3) ** 2),
        ("mean_wait_s", 2540 / 3),
        ("max_wait_s", 1590),
        ("mean_slowdown", (1000 / 1000 + 1450 / 400 + 1800 / 160) / 3),
        ("p99_slowdown", 1450 / 400 + 0.98 * (1800 / 160 - 1450 / 400)),
        ("jct_over_run_time", 4250 / 1560),
        ("makespan_s", 1800),
        ("gpu_goodput_share", (1000 + 2 * 400 + 160) / 3600),
        ("gpu_allocated_share", (1000 + 2 * 500 + 210) / 3600),
        ("preemptions", 1),
        ("overhead_gpu_hours", 50 / 3600),
        ("oom_restarts", 1),
        ("top5_duration_share", 1000 / 1560),  # 5 % of three jobs is one
    ],
)
def test_a_metric_computed_by_hand(summary: pd.Series, name: str, expected: float) -> None:
    assert summary[name] == pytest.approx(expected)


@pytest.mark.parametrize(("wait_s", "slowdown"), [(0.0, 1.0), (4.0, 1.0), (29.0, 3.0)])
def test_the_slowdown_of_a_short_job_counts_ten_seconds_of_running(wait_s: float, slowdown: float) -> None:
    """Jobs that run for a second."""
    finish_s = [wait_s + 1.0, wait_s + 101.0, wait_s + 1.0]
    quick = episode(finish_s=finish_s, wait_s=[wait_s] * 3, run_s=[1.0] * 3, overhead_s=[0.0] * 3)
    results = table(**{**quick, "lost_s": [0.0] * 3})
    assert summarise(results, gpus=2)["mean_slowdown"].item() == slowdown


def test_finish_time_fairness_compares_with_an_equal_share_of_the_gpus() -> None:
    """Of two GPUs, each of n jobs has 2 / n, so that b, which requests two, runs at a speed of 1 / n.

    a and c are present from 0, b from 100 to 1550. With a share, c has its 160 s at 190: 100, then 60 at 2/3. a has 100
    at 100, 700 at 1000 and the last 300 at 1300, at full speed. b has 300 of its 400 s at 1000 and the rest at 1200.
    """
    row = summarise(table(**episode()), gpus=2).iloc[0]
    assert row["max_finish_time_fairness"] == pytest.approx(1800 / 190)
    assert row["unfair_share"] == pytest.approx(2 / 3), "a ends before its share would have had it end"
    alone = equal_share_jct_s(*map(np.array, ([0.0, 50.0], [10.0, 60.0], [30.0, 10.0], [1, 1])), gpus=1)
    assert alone.tolist() == [30.0, 10.0], "the cluster counts as empty where no job is present"


def test_a_job_that_requests_twice_its_share_runs_at_half_speed() -> None:
    """Two jobs of 30 s share two GPUs: one requests both of them, the other a single one, which is its share."""
    shared_s = equal_share_jct_s(*map(np.array, ([0.0, 0.0], [100.0, 100.0], [30.0, 30.0], [2, 1])), gpus=2)
    assert shared_s.tolist() == [60.0, 30.0]


def test_a_cut_window_averages_finished_jobs() -> None:
    row = summarise(cut_episode(), gpus=2, allow_unfinished=True).iloc[0]
    assert row["unfinished"] == 1
    assert row["mean_jct_s"] == (1000 + 1450) / 2
    assert row["mean_wait_s"] == 950 / 2
    assert row["makespan_s"] == 1700
    assert row["gpu_goodput_share"] == pytest.approx((1000 + 2 * 400 + 60) / 3400)


def test_each_window_and_seed_has_a_row() -> None:
    pairs = [(1, 0), (2, 0), (2, 1)]
    results = pd.concat([table(**episode(window=window, seed=seed)) for window, seed in pairs])
    summary = summarise(results, gpus=2)
    assert list(zip(summary["window"], summary["seed"], strict=True)) == pairs
    assert summary["makespan_s"].tolist() == [1800] * 3


def test_the_order_of_rows_does_not_matter() -> None:
    results = pd.concat([table(**episode(window=window)) for window in (1, 2)])
    pd.testing.assert_frame_equal(summarise(results, gpus=2), summarise(results[::-1], gpus=2))


def test_fairness_is_jains_index_of_the_owners_mean_slowdown() -> None:
    owners = pd.DataFrame({"job_id": ["a", "b", "c"], "user": ["u", "v", "v"], "vc": ["x", "x", "x"]})
    row = summarise(table(**episode()), gpus=2, owners=owners).iloc[0]
    one, two = 1.0, (1450 / 400 + 1800 / 160) / 2
    assert row["user_fairness"] == pytest.approx((one + two) ** 2 / (2 * (one**2 + two**2)))
    assert row["vc_fairness"] == 1.0


def test_fairness_requires_owners() -> None:
    owners = pd.DataFrame({"job_id": ["a", "b", "c"], "vc": ["x", "x", "y"]})
    assert "user_fairness" not in summarise(table(**episode()), gpus=2, owners=owners)
    assert "vc_fairness" not in summarise(table(**episode()), gpus=2)


def test_repeated_ids_are_matched_to_owners_by_window() -> None:
    results = pd.concat([table(**episode(window=window)) for window in (1, 2)])
    owners = pd.DataFrame(
        {"window": [1] * 3 + [2] * 3, "job_id": ["a", "b", "c"] * 2, "user": ["u"] * 3 + ["u", "v", "v"]}
    )
    fairness = summarise(results, gpus=2, owners=owners)["user_fairness"]
    assert fairness[0] == 1.0
    assert fairness[1] < 1.0


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [(["a", "b"], "missing from the owners' table"), (["a", "b", "c", "c"], "many-to-one")],
)
def test_owners_that_do_not_match_are_refused(ids: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        summarise(table(**episode()), gpus=2, owners=pd.DataFrame({"job_id": ids, "user": "u"}))


def test_pooling_weights_windows_equally() -> None:
    summary = pd.DataFrame(
        {"window": [1, 1, 2], "seed": [0, 1, 0], "jobs": [10, 10, 1000], "mean_jct_s": [10.0, 30.0, 100.0]}
    )
    assert pool(summary).to_dict() == {"jobs": 505.0, "mean_jct_s": 60.0}


def test_a_summary_of_no_finished_job_has_no_mean() -> None:
    nothing = episode(start_s=[np.nan] * 3, finish_s=[np.nan] * 3, run_s=[0.0] * 3)
    row = summarise(table(**nothing, allow_unfinished=True), gpus=2, allow_unfinished=True).iloc[0]
    assert row["unfinished"] == 3
    assert math.isnan(row["mean_jct_s"])
    assert math.isnan(row["top5_duration_share"])


# Resources, deadlines and restarts


def resources(**changed: Any) -> pd.Series:
    """Return the summary of the three jobs of `episode` with resources: c is a CPU job, and a has no deadline."""
    more = {
        "num_gpus": [1, 2, 0],
        "kind": ["gpu", "gpu", "cpu"],
        "busy_s": [900.0, 100.0, 0.0],
        "core_s": [3600.0, 1800.0, 5400.0],
        "shared_s": [360.0, 180.0, 0.0],
        "resizes": [1, 0, 2],
        "failures": [0, 3, 0],
        "deadline_s": [0.0, 1500.0, 1900.0],
    }
    return summarise(table(**episode(**(more | changed))), gpus=2, cores=12).iloc[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mean_idle_s", (950 + 1590 + 50) / 3),
        ("gpu_busy_share", (900 + 2 * 100) / (2 * 100)),  # submissions from 0 to 100 s
        ("cpu_utilisation", 10_800 / (12 * 1800)),
        ("mean_cpu_wait_s", 1590),
        ("mean_gpu_wait_s", 950 / 2),
        ("shared_gpu_hours", (360 + 2 * 180) / 3600),
        ("lost_gpu_hours", 2 * 100 / 3600),
        ("resizes", 3),
        ("failures", 3),
        ("deadline_miss_share", 1 / 2),
        ("mean_tardiness_s", 50 / 2),  # b ends 50 s late, c 100 s early
    ],
)
def test_a_metric_of_resources_computed_by_hand(name: str, expected: float) -> None:
    assert resources()[name] == pytest.approx(expected)


def test_a_deadline_that_is_met_to_the_second_is_met() -> None:
    row = resources(deadline_s=[1000.0, 1550.0, 1799.0])
    assert row["deadline_miss_share"] == pytest.approx(1 / 3)
    assert row["mean_tardiness_s"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("changed", "lacking"),
    [
        ({"deadline_s": [0.0] * 3}, {"deadline_miss_share", "mean_tardiness_s"}),
        ({"busy_s": [math.nan] * 3}, {"gpu_busy_share"}),
        ({"core_s": [math.nan] * 3}, {"cpu_utilisation"}),
        ({"kind": ["gpu"] * 3, "num_gpus": [1, 2, 1]}, {"mean_cpu_wait_s"}),
        (
            {"kind": ["cpu"] * 3, "num_gpus": [0, 0, 0]},
            {"mean_gpu_wait_s", "max_finish_time_fairness", "unfair_share"},
        ),
    ],
)
def test_what_is_undefined_in_all_windows_has_no_column(changed: dict[str, Any], lacking: set[str]) -> None:
    assert set(resources().index) - set(resources(**changed).index) == lacking


def test_an_owner_without_a_job_that_finished_gives_no_column() -> None:
    owners = pd.DataFrame({"job_id": ["a", "b", "c"], **dict.fromkeys(("user", "vc", "tenant"), math.nan)})
    row = summarise(table(**episode()), gpus=2, owners=owners).iloc[0]
    assert {"user_fairness", "vc_fairness", "tenant_fairness"}.isdisjoint(row.index)


def test_jobs_submitted_at_once_have_no_busy_share() -> None:
    at_once = episode(submit_s=[0.0] * 3, wait_s=[0.0, 1050.0, 1590.0], busy_s=[900.0, 100.0, 0.0])
    assert "gpu_busy_share" not in summarise(table(**at_once), gpus=2)


def test_an_unfinished_job_counts_where_the_window_was_cut() -> None:
    """The one unfinished job, c, has a deadline at 9 s, but its lateness is unknown; b met its own."""
    cut = cut_episode().assign(deadline_s=[0.0, 1550.0, 9.0])
    row = summarise(cut, gpus=2, allow_unfinished=True).iloc[0]
    assert row["deadline_miss_share"] == 0
    assert row["max_wait_s"] == 950
    assert row["jct_over_run_time"] == pytest.approx(2450 / 1400)


def test_the_longest_twentieth_of_jobs_is_rounded_up() -> None:
    """Of 20 jobs it is one, of 21 two."""
    durations = pd.Series(range(1, 22), dtype=float)
    assert top_share(durations[:20]) == pytest.approx(20 / 210)
    assert top_share(durations) == pytest.approx((21 + 20) / 231)


def test_late_work_is_what_runs_after_the_last_arrival() -> None:
    """After 1200 s b has 350 s on two GPUs, and c at most its 160 s of running, of 1000 + 800 + 160 GPU-seconds."""
    share, jobs = late_work(table(**episode()), 1200.0)
    assert share == pytest.approx((2 * 350 + 160) / 1960)
    assert jobs == 2
    assert late_work(table(**episode()), 1800.0) == (0.0, 0)


# The columns of the table

USUAL = ["mean_jct_s", "mean_wait_s", "max_wait_s", "mean_slowdown"]
"""Columns of every table."""


def shown(wide: bool, **numbers: float) -> list[str]:
    """Return the columns of a table of one window with these metrics, and 1 for those that are always known."""
    known = {name: 1.0 for name, metric in METRICS.items() if not metric.may_lack and not metric.shown_with}
    return [name for name, _ in in_table({"fifo": pd.DataFrame([known | numbers])}, wide=wide)]


def test_the_narrow_table_has_times_and_what_the_workload_adds() -> None:
    assert shown(wide=False) == USUAL
    assert shown(wide=False, deadline_miss_share=0.0, shared_gpu_hours=1.0) == [*USUAL, "deadline_miss_share"]


def test_the_wide_table_shows_what_is_known_and_counts_that_are_not_0() -> None:
    always = [
        "mean_jct_s",
        "p95_jct_s",
        "p99_jct_s",
        "mean_wait_s",
        "max_wait_s",
        "mean_slowdown",
        "p99_slowdown",
    ]
    always += ["preemptions", "gpu_goodput_share"]
    assert shown(wide=True) == always
    for numbers, more in (
        (
            {"max_finish_time_fairness": 0.0, "unfair_share": 0.0},
            {"max_finish_time_fairness", "unfair_share"},
        ),
        ({"mean_cpu_wait_s": 0.0, "gpu_busy_share": 1.0}, {"mean_cpu_wait_s", "gpu_busy_share"}),
        ({"shared_gpu_hours": 0.0, "oom_restarts": 1.0}, set()),
        ({"shared_gpu_hours": 1.0, "oom_restarts": 0.0}, {"shared_gpu_hours", "oom_restarts"}),
        ({"resizes": 0.0, "failures": 1.0}, {"failures"}),
        ({"resizes": 1.0, "failures": 0.0}, {"resizes"}),
        ({"deadline_miss_share": 0.0, "mean_tardiness_s": 0.0}, {"deadline_miss_share", "mean_tardiness_s"}),
        ({"user_fairness": 1.0, "vc_fairness": 1.0}, {"user_fairness", "vc_fairness"}),
        ({"tenant_fairness": 0.0}, {"tenant_fairness"}),
    ):
        assert set(shown(wide=True, **numbers)) - set(always) == more


def test_shares_in_which_a_gpu_counts_once_per_job_are_marked() -> None:
    """Jobs on one GPU add up in GPU-seconds, but not in core-seconds."""
    summed = {name for name, metric in METRICS.items() if metric.summed}
    assert summed == {"gpu_goodput_share", "gpu_allocated_share", "gpu_busy_share"}
