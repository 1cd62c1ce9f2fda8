"""Windows of splits are separate in time, accepted by their queueing, and the same for every policy."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

from benchmarks import list_windows
from benchmarks.tune import check_split
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import ACCEPTED_RANGE, Scenario, Split, Workload, of_whole_log, up_to, windows
from gpu_cluster_gym.workloads import _windows as chosen
from gpu_cluster_gym.workloads._windows import GAP_S, listed_ratios, rows_of
from tests.cases import tiny

SPLITS: tuple[Split, ...] = get_args(Split)
MOST: dict[Split, int] = {"train": 80, "validation": 15, "test": 4}  # nearly all that the month has
DAY = 86_400.0


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """Return a scenario over a month of jobs in a file."""
    file = tiny.scenario(tmp_path_factory.mktemp("month"), tiny.month())["trace_file"]
    return Scenario(trace_file=file, cluster="2x8", jobs=32, physics="exclusive")


@pytest.fixture
def generated() -> Scenario:
    """Return a scenario of small generated windows, all of them accepted."""
    return Scenario(cluster="2x8", jobs=32, all_windows=True, drop_too_large=True, physics="exclusive")


def names(found: list[Workload]) -> list[list[str]]:
    return [window.table["job_id"].tolist() for window in found]


def jct_over_run_time(window: Workload) -> float:
    """Return mean JCT / mean duration under SRTF with the default rules, from the results table."""
    usual = Workload(window.table, window.jobs, window.cluster, Scenario(), window.window)
    results = usual.results(run(Ranking("remaining", "by_order"), usual.episode()))
    return float(results["jct_s"].mean() / results["run_s"].mean())


# Parts of a trace.


def test_parts_are_two_days_apart(month: Scenario) -> None:
    everything = replace(month, all_windows=True)
    spans = []
    for split, most in MOST.items():
        submits = np.concatenate([window.table["submit_s"] for window in windows(everything, split, most)])
        spans.append((submits.min(), submits.max()))
    assert all(later[0] - earlier[1] >= GAP_S == 2 * DAY for earlier, later in pairwise(spans))


def test_parts_are_shares_of_the_traces_time(month: Scenario) -> None:
    """Thirty days: the first 18, then 6 less the gap, then the last 6 less the gap."""
    submit = tiny.month()["submit_s"]
    first, length = submit.iloc[0], submit.iloc[-1] - submit.iloc[0]
    limits = {"train": (0.0, 0.6), "validation": (0.6, 0.8), "test": (0.8, 1.0)}
    for split in SPLITS:
        low, high = (first + share * length for share in limits[split])
        for window in windows(month, split, min(10, MOST[split])):
            assert window.table["submit_s"].between(low, high).all()


def test_a_week_has_all_parts_with_smaller_gaps(tmp_path: Path) -> None:
    """A tenth of its time is between the parts, which leaves a tenth for validation and a tenth for the test."""
    jobs = tiny.jobs(256)
    submit_s = np.linspace(0, 7 * DAY, 256)
    table = jobs.assign(submit_s=submit_s).drop(columns="deadline_s", errors="ignore")
    scenario = Scenario(**tiny.scenario(tmp_path, table, full_trace=False, jobs=12, all_windows=True))
    assert rows_of(submit_s, "validation") == (179, 204)  # 0.7 and 0.8 of 255 gaps
    assert rows_of(submit_s, "test") == (230, 256)
    assert [len(windows(scenario, split, count)) for split, count in MOST_OF_A_WEEK.items()] == [12, 2, 2]


MOST_OF_A_WEEK: dict[Split, int] = {"train": 12, "validation": 2, "test": 2}


# A window.


@pytest.mark.parametrize("split", SPLITS)
def test_a_window_is_consecutive_jobs_as_they_are(split: Split, month: Scenario) -> None:
    table = tiny.month()
    for window in windows(month, split, min(5, MOST[split])):
        (row,) = np.flatnonzero(table["job_id"] == window.table["job_id"].iloc[0])
        logged = table.iloc[row : row + month.jobs].reset_index(drop=True)
        pd.testing.assert_frame_equal(window.table[logged.columns], logged, check_dtype=False)


def test_windows_are_disjoint_while_that_is_possible(month: Scenario) -> None:
    found = names(windows(replace(month, all_windows=True), "train", 80))
    apart = sum(len(rows) for rows in found[:21])
    assert len({job for rows in found[:21] for job in rows}) == apart
    assert len({job for rows in found for job in rows}) < 80 * month.jobs
    assert len({rows[0] for rows in found}) == 80


def test_test_windows_never_share_a_job(month: Scenario) -> None:
    """For any number of windows, because an overlapping window is no independent sample."""
    every, most = replace(month, all_windows=True), MOST["test"]
    with pytest.raises(ValueError, match=f"only {most} of {most + 1} windows"):
        windows(every, "test", most + 1)
    found = names(windows(every, "test", most))
    assert names(up_to(every, "test", most + 1)) == found
    assert names(up_to(every, "test", 2)) == found[:2]
    assert len({job for rows in found for job in rows}) == most * month.jobs


def test_every_window_of_a_log_is_one_of_its_disjoint_windows(month: Scenario) -> None:
    """In any order, without gaps between parts; the jobs after the last whole window are left over."""
    every = replace(month, all_windows=True)
    found = of_whole_log(every)
    ids = tiny.month()["job_id"].tolist()
    whole = [ids[first : first + every.jobs] for first in range(0, len(ids) - every.jobs + 1, every.jobs)]
    assert sorted(names(found)) == sorted(whole)
    assert {load.window.split for load in found} == {"all"}
    assert names(of_whole_log(every, 3)) == names(found)[:3]
    with pytest.raises(
        ValueError, match=rf"only {len(found)} of 99 windows of 32 jobs were found in the log \("
    ):
        of_whole_log(every, 99)


def test_the_windows_of_a_whole_log_are_for_evaluation_alone(month: Scenario, generated: Scenario) -> None:
    with pytest.raises(ValueError, match="a generator has no last window"):
        of_whole_log(generated)
    with pytest.raises(ValueError, match="unknown split 'all'"):
        windows(month, "all", 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expects windows of the train split"):
        check_split(of_whole_log(replace(month, all_windows=True), 1), "train")


def test_windows_are_accepted_by_their_mean_jct_over_mean_run_time(month: Scenario) -> None:
    refused = 0
    for split, most in MOST.items():
        every = windows(replace(month, all_windows=True), split, most)
        expected = [
            window for window in every if ACCEPTED_RANGE[0] <= jct_over_run_time(window) <= ACCEPTED_RANGE[1]
        ]
        assert names(windows(month, split, len(expected))) == names(expected)
        refused += len(every) - len(expected)
    assert refused > 10


def test_too_few_windows_are_reported(month: Scenario) -> None:
    with pytest.raises(
        ValueError, match=r"only \d of 99 windows of 32 jobs with .* 1.3-2.5 on 2x8 were .* test part"
    ):
        windows(month, "test", 99)
    with pytest.raises(
        ValueError,
        match=r"in the test part \(151 jobs after a gap of 2 days\): ask for fewer windows, .*, or the full",
    ):
        windows(replace(month, all_windows=True), "test", 99)


def test_nonsense_is_refused(month: Scenario) -> None:
    for split, count, said in (
        ("tests", 1, "unknown split 'tests'.*did you mean 'test'"),
        ("test", 0, "0 windows"),
    ):
        with pytest.raises(ValueError, match=said):
            windows(month, split, count)  # type: ignore[arg-type]


# The same for all.


def test_rules_do_not_choose_windows(month: Scenario) -> None:
    several: list[dict[str, Any]] = [
        {"placement": "pooled"},
        {"placement": "spread", "discipline": "strict"},
        {"physics": "none"},
        {"tick": 1e5},
    ]
    usual = names(windows(month, "train", 20))
    assert [rules for rules in several if names(windows(replace(month, **rules), "train", 20)) != usual] == []


def test_a_job_may_be_too_large_for_the_usual_rules(tmp_path: Path) -> None:
    table = tiny.month().assign(gpu_memory_gib=[20.0, 4.0] * 600)
    scenario = Scenario(**tiny.scenario(tmp_path, table, full_trace=False, jobs=32))
    with pytest.raises(ValueError, match="16 jobs can never run"):
        windows(scenario, "train", 4)
    found = windows(replace(scenario, physics="none"), "train", 4)
    assert [len(window.table) for window in found] == [32] * 4
    dropped = windows(replace(scenario, drop_too_large=True), "train", 4)
    assert [len(window.table) for window in dropped] == [16] * 4


def test_the_choice_repeats_and_the_seed_decides_it(month: Scenario) -> None:
    first = names(windows(month, "train", 8))
    assert names(windows(month, "train", 8)) == first
    assert names(windows(replace(month, seed=1), "train", 8)) != first
    assert names(windows(month, "train", 5)) == first[:5]


def test_each_window_has_its_own_number(month: Scenario) -> None:
    for split in SPLITS:
        found = [window.window for window in windows(month, split, min(8, MOST[split]))]
        assert {each.split for each in found} == {split}
        assert [each.number for each in found] == sorted({each.number for each in found})


def test_a_window_prints_as_its_split_and_number(month: Scenario) -> None:
    (first,) = windows(replace(month, all_windows=True), "test", 1)
    assert str(first.window) == "test 0"
    assert set(first.results(run(Ranking("submit"), first.episode()))["window"]) == {0}


# Generated windows.


def test_generated_windows_differ_over_all_parts(generated: Scenario) -> None:
    found = [window for split in SPLITS for window in windows(generated, split, 3)]
    assert len({window.table["duration_s"].sum() for window in found}) == len(found)
    again = [window for split in SPLITS for window in windows(generated, split, 3)]
    for one, other in zip(found, again, strict=True):
        pd.testing.assert_frame_equal(one.table, other.table)


# The kept list.


@pytest.fixture
def no_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in the place of the listed windows'."""
    monkeypatch.setattr(chosen, "ACCEPTED", tmp_path)
    return tmp_path


def test_a_list_spares_the_simulation_and_changes_nothing(
    generated: Scenario, no_lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = replace(generated, all_windows=False)
    simulated = windows(scenario, "train", 2)
    list_windows.write(scenario, {"train": 20})
    monkeypatch.setattr(chosen, "jct_over_run_time", lambda *_: pytest.fail("this window is on the list"))
    listed = windows(scenario, "train", 2)
    assert [window.window for window in listed] == [window.window for window in simulated]
    assert names(listed) == names(simulated)


def test_a_list_of_windows_holds_only_for_its_jobs(generated: Scenario, no_lists: Path) -> None:
    list_windows.write(generated, {"test": 2})
    assert set(listed_ratios(replace(generated, physics="none", placement="pooled"), "test")) == {0, 1}
    for change in (
        {"seed": 1},
        {"target_load": 1.0},
        {"max_duration": 1e4},
        {"jobs": 33},
        {"cluster": "1x16"},
    ):
        assert listed_ratios(replace(generated, **change), "test") == {}


KEPT = [
    Scenario(cluster=cluster, jobs=jobs, restart_cost="high", physics="exclusive")
    for cluster, jobs in (("4x8", 256), ("8x8", 512), ("12x8", 1024))
]
# Half a minute for the last: above 512 jobs the kernel is compiled once more.
SIMULATED = [*KEPT[:2], pytest.param(KEPT[2], marks=pytest.mark.slow)]


@pytest.mark.parametrize("scenario", SIMULATED, ids=lambda scenario: scenario.cluster)
def test_the_lists_we_keep_are_right(scenario: Scenario) -> None:
    for split, number in zip(SPLITS, (0, 3, 7), strict=True):
        table = chosen.table_maker(scenario, split)(number)
        assert table is not None
        assert listed_ratios(scenario, split)[number] == pytest.approx(
            chosen.jct_over_run_time(table, scenario), abs=1e-4
        )


@pytest.mark.parametrize("scenario", KEPT, ids=lambda scenario: scenario.cluster)
def test_listed_windows_match_drawn_ones(scenario: Scenario) -> None:
    """For more windows than could be simulated here."""
    listed = pd.read_csv(chosen.list_file(scenario)).groupby("split")["mean_duration_s"]
    for split in SPLITS:
        make, expected = chosen.table_maker(scenario, split), listed.get_group(split).to_numpy()
        for number in (1, len(expected) // 2, len(expected) - 1):
            table = make(number)
            assert table is not None
            assert table["duration_s"].mean() == pytest.approx(expected[number], abs=1e-3)


@pytest.mark.parametrize("rules", [{"physics": "all"}, {"physics": "none", "placement": "spread"}])
def test_windows_are_accepted_under_the_same_rules_by_any_default(
    rules: dict[str, Any], generated: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = chosen.table_maker(generated, "test")(0)
    assert table is not None
    accepted_at = chosen.jct_over_run_time(table, generated)
    monkeypatch.setattr(Scenario.__init__, "__defaults__", None)  # no default may be used
    assert chosen.jct_over_run_time(table, replace(generated, **rules)) == accepted_at


def test_the_lists_we_keep_are_long_enough() -> None:
    """For the windows that the commands and the environment use, without a simulation."""
    for split, wanted in zip(SPLITS, (64, 30, 30), strict=True):
        accepted = [value for value in listed_ratios(Scenario(), split).values() if chosen.in_range(value)]
        assert len(accepted) >= wanted
