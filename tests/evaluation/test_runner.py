"""Simulation, summaries, comparison table and notes of policies; run folders."""

import json
import math
import os
import re
import warnings
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.evaluation import provenance, run_folder, runner, table, table_notes
from gpu_cluster_gym.evaluation.metrics import pool
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
    jobs = fill(some_jobs(240), seed=0, largest_gpu_gib=16.0)
    parts = [jobs.iloc[start : start + 80].reset_index(drop=True) for start in (0, 80, 160)]
    for part in parts:
        part.attrs = jobs.attrs
    return [prepare(part, scenario, window=Window("test", number)) for number, part in enumerate(parts)]


@pytest.fixture(scope="module")
def tables(workloads: list[Workload]) -> dict[str, pd.DataFrame]:
    return runner.simulate({"fifo": lambda: FIFO, "srtf": lambda: SRTF}, workloads)


def printed(*lines: object) -> str:
    """Return lines and tables as printed to a file."""
    file = StringIO()
    for line in lines:
        table.console(file).print(line)
    return file.getvalue()


def test_every_policy_runs_on_every_window(
    workloads: list[Workload], tables: dict[str, pd.DataFrame]
) -> None:
    for each in tables.values():
        assert each["window"].tolist() == [0] * 80 + [1] * 80 + [2] * 80
        assert each["job_id"].tolist() == [job for load in workloads for job in load.table["job_id"]]


def test_each_result_is_reported_as_it_comes(workloads: list[Workload]) -> None:
    reported: list[tuple[str, int]] = []
    runner.simulate(
        {"a": lambda: FIFO, "b": lambda: SRTF},
        workloads[:2],
        done=lambda name, rows: reported.append((name, int(rows["window"].iloc[0]))),
    )
    assert reported == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


def test_a_replaced_worker_causes_no_warning(workloads: list[Workload]) -> None:
    """Joblib replaces a worker whose memory has grown, as it does once the simulator is compiled, and warns of that."""
    words = ["A worker stopped while some jobs were given to the executor.", "something else"]

    def warn(name: str, rows: pd.DataFrame) -> None:
        for each in words:
            warnings.warn(each, stacklevel=1)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        runner.simulate({"a": lambda: FIFO}, workloads[:2], processes=2, done=warn)
    assert [str(each.message) for each in heard] == ["something else"] * 2


def test_the_table_shows_the_means_of_the_summaries(
    workloads: list[Workload], tables: dict[str, pd.DataFrame]
) -> None:
    summaries = runner.score(tables, workloads)
    out = printed(table.table(summaries, runner.bounds(workloads), "fifo"))
    mean = pool(summaries["srtf"])["mean_jct_s"]
    row = next(line for line in out.splitlines() if line.startswith("srtf "))
    assert f" {mean:,.0f} " in row
    assert max(map(len, out.splitlines())) <= 100


def test_the_reference_has_ratio_one(workloads: list[Workload], tables: dict[str, pd.DataFrame]) -> None:
    summaries = runner.score(tables, workloads)
    kept = runner.document(summaries, runner.bounds(workloads), "srtf")["mean_jct_ratio"]
    assert kept["srtf"]["ratio"] == kept["srtf"]["low"] == kept["srtf"]["high"] == 1
    assert kept["fifo"]["low"] <= kept["fifo"]["ratio"] <= kept["fifo"]["high"]


def test_no_policy_beats_the_bound(workloads: list[Workload], tables: dict[str, pd.DataFrame]) -> None:
    least = runner.bounds(workloads)["mean_jct_s"]
    for each in runner.score(tables, workloads).values():
        assert (each["mean_jct_s"] >= least).all()


def test_a_mean_below_the_bound_is_refused(
    workloads: list[Workload], tables: dict[str, pd.DataFrame]
) -> None:
    """No job waits: possible for each job alone, but not for all together."""
    alone = tables["srtf"].assign(jct_s=tables["srtf"]["run_s"], wait_s=0.0)
    with pytest.raises(RuntimeError, match="below the theoretical lower bound"):
        runner.score({"srtf": alone}, workloads)


def test_a_mean_below_the_bound_costs_its_policy_alone(
    workloads: list[Workload], tables: dict[str, pd.DataFrame]
) -> None:
    alone, failed = (
        tables["srtf"].assign(jct_s=tables["srtf"]["run_s"], wait_s=0.0),
        dict[str, runner.Failure](),
    )
    assert [*runner.score({"srtf": alone, "fifo": tables["fifo"]}, workloads, failed=failed)] == ["fifo"]
    assert re.match(
        r"the mean JCT of window \d+, .* is below the theoretical lower bound", failed["srtf"].why
    )


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_costs_its_policy_alone(workloads: list[Workload], processes: int) -> None:
    failed: dict[str, runner.Failure] = {}
    makers: Any = {"bad": lambda: lambda view: 1 / 0, "fifo": lambda: FIFO}
    found = runner.simulate(makers, workloads[:2], processes=processes, failed=failed)
    assert found["fifo"].equals(runner.simulate({"fifo": lambda: FIFO}, workloads[:2])["fifo"])
    assert [*found] == ["fifo"]
    assert re.match(r"window \d+: ZeroDivisionError: .* \(test_runner.py, line \d+\)", failed["bad"].why)


def test_a_worker_that_dies_costs_its_policy_alone(workloads: list[Workload]) -> None:
    """Whose worker died is found by a repetition alone."""
    failed: dict[str, runner.Failure] = {}
    makers: Any = {"fifo": lambda: FIFO, "dies": lambda: lambda view: os._exit(9)}
    found = runner.simulate(makers, workloads[:1], processes=2, failed=failed)
    assert [*found] == ["fifo"]
    why = (
        "window 0: a worker process ended without a result (out of memory, or killed): "
        "use fewer --processes or more memory"
    )
    assert failed == {"dies": runner.Failure(why)}


def test_the_gap_closed_is_reported(workloads: list[Workload], tables: dict[str, pd.DataFrame]) -> None:
    summaries, bounds = runner.score(tables, workloads), runner.bounds(workloads)
    fifo, srtf, least = (each["mean_jct_s"] for each in (summaries["fifo"], summaries["srtf"], bounds))
    share = (1 - (srtf / fifo).mean()) / (1 - (least / fifo).mean())
    lines = table_notes.footnotes(workloads, summaries, {"fifo": FIFO, "srtf": SRTF}, "fifo", bounds)
    assert 0 < share < 1
    assert any(
        line.endswith(
            f"Share of the gap from fifo that is closed: srtf {100 * share:.0f}\N{NO-BREAK SPACE}%."
        )
        for line in lines
    )
    assert runner.document(summaries, bounds, "fifo")["gap_closed"]["srtf"] == pytest.approx(share)


def test_a_single_policy_has_no_ratio(workloads: list[Workload], tables: dict[str, pd.DataFrame]) -> None:
    summaries = runner.score({"fifo": tables["fifo"]}, workloads)
    out = printed(
        table.table(summaries, runner.bounds(workloads), "fifo"),
        *table_notes.footnotes(workloads, summaries, {"fifo": FIFO}, "fifo", runner.bounds(workloads)),
    )
    assert "/ fifo" not in out
    assert "JCT /" not in out.replace("Slowdown: JCT / run time", "")


def test_the_legend_has_short_lines(workloads: list[Workload], tables: dict[str, pd.DataFrame]) -> None:
    summaries = runner.score(tables, workloads)
    lines = table_notes.legend(workloads, summaries, "fifo")
    assert len(lines) == 5
    assert max(map(len, lines)) <= 100
    assert lines[1].startswith("JCT / fifo, ")
    alone = table_notes.legend(workloads[:1], {"fifo": summaries["fifo"]}, "fifo")
    assert "JCT / fifo" not in " ".join(alone)


def test_the_legend_names_policies_without_their_lever(
    workloads: list[Workload], tables: dict[str, pd.DataFrame]
) -> None:
    """Gavel orders jobs by the types of GPUs: on one type it is another policy."""
    summaries = runner.score({"fifo": tables["fifo"], "gavel": tables["srtf"]}, workloads)
    (line,) = table_notes.levers_off(["gavel"], workloads)
    assert "gavel (one type of GPU)" in line
    assert line in table_notes.legend(workloads, summaries, "fifo")
    assert line not in table_notes.legend(workloads, {"fifo": summaries["fifo"]}, "fifo")


def test_the_heading_notes_exact_estimates(workloads: list[Workload]) -> None:
    assert "estimates: exact" in table_notes.heading(workloads)


def test_the_heading_has_the_load_of_all_windows(workloads: list[Workload]) -> None:
    """Run times by the time from the first submission to the last, on 16 GPUs."""
    found = []
    for each in workloads:
        jobs, span_s = each.table, each.table["submit_s"].max() - each.table["submit_s"].min()
        found.append(sum(jobs["num_gpus"] * np.minimum(jobs["duration_s"], span_s)) / (16 * span_s))
    (line,) = (line for line in table_notes.heading(workloads) if "load" in line)
    assert line.startswith(f"offered load {min(found):.2f} to {max(found):.2f} (uncapped ")


def test_jobs_that_arrive_at_once_have_no_load() -> None:
    heading = table_notes.heading(windows(named("xonar_mix"), "train", 1))
    assert "all jobs arrive at once" in heading


def test_the_heading_names_the_history() -> None:
    with_history = windows(replace(named("mixed"), run_time_predictor="mixed", jobs=20), "train", 1)
    line = "run times predicted from finished jobs of mixed, for all policies"
    assert line in table_notes.heading(with_history)
    without = table_notes.heading(windows(named("xonar_mix"), "train", 1))
    assert not any("history" in each for each in without)


def test_columns_without_effect_are_not_listed(workloads: list[Workload]) -> None:
    lines = "\n".join(table_notes.origins(workloads[0].table, Scenario(physics="memory")))
    assert "gpu_memory_gib" in lines
    assert "pause_s" not in lines
    assert "Measured: submit_s, num_gpus, duration_s." in lines


def test_drawn_columns_are_listed_and_their_sources_saved(workloads: list[Workload]) -> None:
    scenario = Scenario(physics="memory")
    measured, drawn = table_notes.origins_in_short(workloads[0].table, scenario)
    assert measured == "Measured: submit_s, num_gpus, duration_s."
    start, _, columns = drawn.rpartition(": ")
    assert start == "Drawn, not measured (sources: provenance.json in the run folder)"
    assert "gpu_memory_gib" in columns.removesuffix(".").split(", ")
    sources = provenance.collect(workloads, [], [])["column_origins"]
    assert sources == table_notes.origins(workloads[0].table, workloads[0].scenario)


def test_jobs_dropped_are_summed_over_windows() -> None:
    scenario = Scenario(trace_file="none.csv", cluster="1x4", physics="none", drop_too_large=True)
    jobs = fill(some_jobs(60), seed=0, largest_gpu_gib=16.0)
    jobs.attrs["notes"] = ["columns ignored: 'a'"]
    loads = [prepare(jobs, scenario, window=Window("test", number)) for number in (0, 1)]
    dropped = 2 * int((jobs["num_gpus"] > 4).sum())
    assert table_notes.trace_notes(loads) == [
        "Note: columns ignored: 'a'.",
        f"Note: jobs larger than the cluster dropped: {dropped}.",
    ]


def test_runs_in_the_same_second_have_different_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len({run_folder.open_run_folder("test", Choices()) for _ in range(3)}) == 3


def test_a_folder_cannot_be_made_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(ValueError, match="file"):
            run_folder.open_run_folder("test", Choices(), out)


def test_nan_and_infinity_are_null_in_json(tmp_path: Path) -> None:
    run_folder.write_json(tmp_path / "a.json", {"a": [math.nan, 1.5], "b": {"c": math.inf}})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [None, 1.5], "b": {"c": None}}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
