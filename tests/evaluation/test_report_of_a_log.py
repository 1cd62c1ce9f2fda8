"""A report on a log has the dates of its windows, and the share of all GPUs that jobs hold."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.evaluation import provenance
from gpu_cluster_gym.evaluation.plot import run_tables
from gpu_cluster_gym.evaluation.plot.run_tables import Run
from gpu_cluster_gym.traces import load
from gpu_cluster_gym.workloads import Scenario, of_whole_log
from tests.evaluation.browser import Browser, browser

BEGIN = pd.Timestamp("2024-03-29 23:30:00")


def log(folder: Path, count: int = 40, gap_s: float = 600.0, *, dates: bool = True) -> str:
    """Return the path of a log with a job every ten minutes, each of an hour on two GPUs."""
    submit = gap_s * np.arange(count)
    table = pd.DataFrame({"job_id": range(count), "submit_s": submit, "num_gpus": 2, "duration_s": 3600.0})
    if dates:
        table["submit_s"] = [f"{BEGIN + pd.Timedelta(seconds=each):%Y-%m-%d %H:%M:%S}" for each in submit]
    table.to_csv(file := folder / "log.csv", index=False)
    return str(file)


def reported(folder: Path, *flags: str, dates: bool = True) -> Path:
    """Return the folder of a run on the full log, with its report."""
    args = ["--policy", "fifo", "--no-floors", "--trace-file", log(folder, dates=dates), "--cluster", "2x4"]
    assert main([*args, "--full-trace", "--report", "--out", str(folder / "out"), *flags]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.mark.parametrize(
    ("flags", "begin"),
    [
        ((), "2024-03-29 23:30:00 UTC"),
        (("--time-zone", "Europe/Berlin"), "2024-03-29 23:30:00 CET"),
    ],
)
def test_the_report_has_the_date_at_which_its_window_begins(
    flags: tuple[str, ...], begin: str, tmp_path: Path, page: Browser
) -> None:
    folder = reported(tmp_path, *flags)
    assert json.loads((folder / "provenance.json").read_text())["first_submissions"] == [begin]
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert f'<td>first submission</td><td class="word">{begin}</td>' in text
    page.open(folder / "report.html")
    page.until("document.getElementById('clock').textContent")
    shown = page.run("document.getElementById('clock').parentElement.innerText")
    assert shown.endswith(f"since the first submission, {begin}")
    assert page.errors == []


def test_a_log_without_dates_has_none(tmp_path: Path) -> None:
    folder = reported(tmp_path, dates=False)
    assert json.loads((folder / "provenance.json").read_text())["first_submissions"] == [None]
    assert "first submission</td>" not in (folder / "report.html").read_text(encoding="utf-8")


def test_each_window_of_a_log_has_its_date(tmp_path: Path) -> None:
    """Windows of ten jobs begin at multiples of 100 minutes, and steady ones count jobs from their second day."""
    file = log(tmp_path)
    found = of_whole_log(Scenario(trace_file=file, cluster="2x4", jobs=10, all_windows=True))
    begins = sorted(map(str, provenance.first_submissions(found)))
    assert begins == [f"{BEGIN + pd.Timedelta(minutes=100 * at):%Y-%m-%d %H:%M:%S} UTC" for at in range(4)]
    days: dict[str, Any] = {"warm_days": 1.0, "counted_days": 1.0, "after_days": 1.0}
    long = log(tmp_path, count=7 * 144)
    steady = of_whole_log(Scenario(trace_file=long, cluster="2x8", steady_load=0.6, **days))
    firsts = [
        BEGIN + pd.Timedelta(days=3 * each.window.number, seconds=each.jobs["submit_s"][each.first_counted])
        for each in steady
    ]
    assert all((each - BEGIN) % pd.Timedelta(days=3) >= pd.Timedelta(days=1) for each in firsts)
    assert provenance.first_submissions(steady) == [f"{each:%Y-%m-%d %H:%M:%S} UTC" for each in firsts]


def test_phillys_log_has_dates(tmp_path: Path) -> None:
    attempt: dict[str, Any] = {"start_time": "2017-10-09 08:00:10", "end_time": "2017-10-09 09:00:00"}
    attempt |= {"detail": [{"ip": "m1", "gpus": ["gpu0"]}]}
    job = {"status": "Pass", "vc": "a", "jobid": "j1", "user": "u", "attempts": [attempt]}
    file = tmp_path / "cluster_job_log"
    file.write_text(json.dumps([{**job, "submitted_time": "2017-10-09 08:00:00"}]))
    assert load("philly", file, seed=0).attrs["zero_s"] == pd.Timestamp("2017-10-09 08:00:00").timestamp()


def test_gpus_held_by_the_jobs_around_the_scored_ones_count() -> None:
    """Scored jobs come at 0 and 100 s; of eight GPUs four are held from 50 s before, and all from 50 s on: 75 %."""
    jobs = pd.DataFrame({"window": 0, "submit_s": [0.0, 100.0]})
    totals = pd.DataFrame({"window": 0, "time_s": [-50.0, 50.0, 400.0], "held_gpus": [4, 8, 0]})
    run = Run(Path(), {}, {}, {"node_gpus": [4, 4]}, {"fifo": jobs}, {}, {"fifo": totals})
    assert run_tables.held_share(run, "fifo") == pytest.approx(0.75)
    at_once = Run(
        Path(), {}, {}, {"node_gpus": [4, 4]}, {"fifo": jobs.assign(submit_s=0.0)}, {}, run.timeline
    )
    assert np.isnan(run_tables.held_share(at_once, "fifo"))


def test_the_report_has_the_share_of_allocated_gpus(tmp_path: Path) -> None:
    """Four jobs of two GPUs fit the eight; one is submitted every ten minutes and runs an hour.

    Jobs begin at 0, 10, 20 and 30 min, so that GPUs are full from 30 min to the last submission at 390 min: the share
    is 1 - (6 + 4 + 2) x 10 min / (8 x 390 min).
    """
    text = (reported(tmp_path) / "report.html").read_text(encoding="utf-8")
    rows = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", text)]
    at = next(row.index("GPUs allocated") for row in rows if "GPUs allocated" in row)
    fifo = next(row for row in rows if row[0] == "fifo" and len(row) > at)
    assert fifo[at] == f"{100 * (1 - 120 / (8 * 390)):.1f} %"
