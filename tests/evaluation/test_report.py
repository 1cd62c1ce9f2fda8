"""A table of scores is made of `summarise` alone; choices survive the way to a file and back."""

import json
import math
import warnings
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from gpu_cluster_gym.evaluation import provenance, report, results, run_folder, table_notes
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.traces import fill
from gpu_cluster_gym.workloads import Scenario, Window, Workload, named, prepare, windows
from tests.cases.some_jobs import some_jobs

FIFO, SRTF = Ranking("submit"), Ranking("remaining", "by_order")


@dataclass(frozen=True)
class Choices:
    scenario: Scenario = field(default_factory=Scenario)
    out: str | None = None
    steps: int = 3


@pytest.fixture(scope="module")
def workloads() -> list[Workload]:
    """Return three windows of jobs that queue for 16 GPUs."""
    scenario = Scenario(trace_file="none.csv", cluster="2x8", physics="none")
    table = fill(some_jobs(240), seed=0, largest_gpu_gib=16.0)
    parts = [table.iloc[start : start + 80].reset_index(drop=True) for start in (0, 80, 160)]
    for part in parts:
        part.attrs = table.attrs
    return [prepare(part, scenario, window=Window("test", number)) for number, part in enumerate(parts)]


@pytest.fixture(scope="module")
def tables(workloads: list[Workload]) -> dict[str, pd.DataFrame]:
    return report.simulate({"fifo": lambda: FIFO, "srtf": lambda: SRTF}, workloads)


def printed(*lines: object) -> str:
    file = StringIO()
    for line in lines:
        report.console(file).print(line)
    return file.getvalue()


def test_every_policy_runs_on_every_window(
    workloads: list[Workload], tables: dict[str, pd.DataFrame]
) -> None:
    for each in tables.values():
        assert each["window"].tolist() == [0] * 80 + [1] * 80 + [2] * 80
        assert each["job_id"].tolist() == [job for load in workloads for job in load.table["job_id"]]


def test_each_result_is_told_of_as_it_comes(workloads: list[Workload]) -> None:
    told: list[tuple[str, int]] = []
    report.simulate(
        {"a": lambda: FIFO, "b": lambda: SRTF},
        workloads[:2],
        done=lambda name, table: told.append((name, int(table["window"].iloc[0]))),
    )
    assert told == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


def test_of_a_worker_that_has_grown_nothing_is_said(workloads: list[Workload]) -> None:
    """As it does when it has compiled the simulator: joblib puts another in its place, and warns of that."""
    words = ["A worker stopped while some jobs were given to the executor.", "something else"]

    def warn(name: str, table: pd.DataFrame) -> None:
        for each in words:
            warnings.warn(each, stacklevel=1)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        report.simulate({"a": lambda: FIFO}, workloads[:2], processes=2, done=warn)
    assert [str(each.message) for each in heard] == ["something else"] * 2


def test_the_table_shows_the_means_of_the_summaries(
    workloads: list[Workload], tables: dict[str, pd.DataFrame]
) -> None:
    summaries = report.score(tables, workloads)
    out = printed(report.table(summaries, report.bounds(workloads), "fifo"))
    mean = results.pool(summaries["srtf"])["mean_jct_s"]
    row = next(line for line in out.splitlines() if line.startswith("srtf "))
    assert f" {mean:,.0f} " in row
    assert max(map(len, out.splitlines())) <= 100


def test_the_reference_is_one_times_itself(
    workloads: list[Workload], tables: dict[str, pd.DataFrame]
) -> None:
    summaries = report.score(tables, workloads)
    kept = report.document(summaries, report.bounds(workloads), "srtf")["mean_jct_s / srtf's"]
    assert kept["srtf"]["ratio"] == kept["srtf"]["low"] == kept["srtf"]["high"] == 1
    assert kept["fifo"]["low"] <= kept["fifo"]["ratio"] <= kept["fifo"]["high"]


def test_no_policy_beats_the_bound(workloads: list[Workload], tables: dict[str, pd.DataFrame]) -> None:
    least = report.bounds(workloads)["mean_jct_s"]
    for each in report.score(tables, workloads).values():
        assert (each["mean_jct_s"] >= least).all()


def test_a_mean_below_the_bound_is_refused(
    workloads: list[Workload], tables: dict[str, pd.DataFrame]
) -> None:
    """Every job as if it had never waited: each by itself is possible, all together are not."""
    alone = tables["srtf"].assign(jct_s=tables["srtf"]["run_s"], wait_s=0.0)
    with pytest.raises(RuntimeError, match="no schedule has one below"):
        report.score({"srtf": alone}, workloads)


def test_the_gap_closed_is_told(workloads: list[Workload], tables: dict[str, pd.DataFrame]) -> None:
    summaries, bounds = report.score(tables, workloads), report.bounds(workloads)
    fifo, srtf, least = (each["mean_jct_s"] for each in (summaries["fifo"], summaries["srtf"], bounds))
    share = (1 - (srtf / fifo).mean()) / (1 - (least / fifo).mean())
    lines = table_notes.footnotes(workloads, summaries, {"fifo": FIFO, "srtf": SRTF}, "fifo", bounds)
    assert 0 < share < 1
    assert any(
        line.endswith(
            f"Share of the gap between fifo and it that is closed: srtf {100 * share:.0f}\N{NO-BREAK SPACE}%."
        )
        for line in lines
    )
    assert report.document(summaries, bounds, "fifo")["gap_closed_from_fifo"]["srtf"] == pytest.approx(share)


def test_a_lone_policy_has_no_ratio(workloads: list[Workload], tables: dict[str, pd.DataFrame]) -> None:
    summaries = report.score({"fifo": tables["fifo"]}, workloads)
    out = printed(
        report.table(summaries, report.bounds(workloads), "fifo"),
        *table_notes.footnotes(workloads, summaries, {"fifo": FIFO}, "fifo", report.bounds(workloads)),
    )
    assert "fifo's" not in out


def test_exact_estimates_are_said_at_the_top(workloads: list[Workload]) -> None:
    assert "estimates: exact" in table_notes.heading(workloads)


def test_that_finished_jobs_teach_is_said_at_the_top() -> None:
    taught = windows(replace(named("mixed"), run_time_predictor="mixed", jobs=20), "train", 1)
    line = "taught by finished jobs, every policy alike: run-time predictor mixed"
    assert line in table_notes.heading(taught)
    assert not any("taught" in each for each in table_notes.heading(windows(named("xonar_mix"), "train", 1)))


def test_columns_without_effect_are_not_listed(workloads: list[Workload]) -> None:
    lines = "\n".join(table_notes.origins(workloads[0].table, Scenario(physics="memory")))
    assert "gpu_memory_gib" in lines
    assert "pause_s" not in lines
    assert "Measured: submit_s, num_gpus, duration_s." in lines


def test_what_was_drawn_is_named_in_a_sentence_and_how_is_kept(workloads: list[Workload]) -> None:
    scenario = Scenario(physics="memory")
    measured, drawn = table_notes.origins_in_short(workloads[0].table, scenario)
    assert measured == "Measured: submit_s, num_gpus, duration_s."
    said, _, named = drawn.partition(": ")
    assert said == "Drawn, not measured (about.json in the run folder says how)"
    assert "gpu_memory_gib" in named.removesuffix(".").split(", ")
    how = provenance.about(workloads, [], [])["origins"]
    assert how == table_notes.origins(workloads[0].table, workloads[0].scenario)


def test_jobs_dropped_are_summed_over_windows() -> None:
    scenario = Scenario(trace_file="none.csv", cluster="1x4", physics="none", drop_too_large=True)
    table = fill(some_jobs(60), seed=0, largest_gpu_gib=16.0)
    table.attrs["notes"] = ["columns ignored: 'a'"]
    loads = [prepare(table, scenario, window=Window("test", number)) for number in (0, 1)]
    dropped = 2 * int((table["num_gpus"] > 4).sum())
    assert table_notes._notes(loads) == [
        "Note: columns ignored: 'a'.",
        f"Note: jobs larger than the cluster dropped: {dropped}.",
    ]


def test_runs_of_one_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len({run_folder.open_run_folder("test", Choices()) for _ in range(3)}) == 3


def test_a_folder_cannot_be_made_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(ValueError, match="file"):
            run_folder.open_run_folder("test", Choices(), out)


def test_json_has_no_numbers_that_json_lacks(tmp_path: Path) -> None:
    run_folder.write_json(tmp_path / "a.json", {"a": [math.nan, 1.5], "b": {"c": math.inf}})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [None, 1.5], "b": {"c": None}}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
