"""Starts of queued jobs: the state at a snapshot is that of the simulation, and draws follow the history."""

import math
from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.__main__ import main
from gpu_cluster_gym.evaluation import forecast as forecasting
from gpu_cluster_gym.evaluation.forecast import Calibration, PastForecast
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.traces import Snapshot, cut
from gpu_cluster_gym.workloads import Present, Scenario, filled, prepare, present
from tests.cases.bad_logs import SLURM_HEADER, SLURM_JOB

CLUSTER = "2x8"
RULES = Scenario(cluster=CLUSTER, physics="estimates")


def policy() -> Any:
    return partial(baselines.make, baselines.load("easy"))


def simulated(count: int = 60, seed: int = 0) -> pd.DataFrame:
    """Return jobs with the starts that EASY gives them on the cluster, and limits above their run times."""
    rng = np.random.default_rng(seed)
    run_s = np.ceil(rng.lognormal(6.5, 1.0, count))
    limit_s = np.ceil(run_s * rng.uniform(1.2, 4.0, count))
    jobs = pd.DataFrame(
        {
            "job_id": [f"j{each}" for each in range(count)],
            "submit_s": np.cumsum(20.0 * rng.integers(0, 5, count)),
            "num_gpus": rng.choice([1, 2, 4, 8, 12], count),
            "duration_s": run_s,
            "time_limit_s": limit_s,
            "profiled_duration_s": limit_s,
            "predicted_duration_s": limit_s,
            "predictable_from": 1.0,
            "user": rng.choice(["ann", "ben"], count),
        }
    )
    jobs.attrs = {"notes": [], "origin": {}}
    work = prepare(filled(jobs, RULES, seed=0), RULES)
    found = work.results(run(policy()(), work.episode()))
    return jobs.assign(logged_start_s=found["start_s"].to_numpy())


def at(table: pd.DataFrame, time_s: float) -> Present:
    return present(cut(table, time_s), RULES)


@pytest.mark.parametrize("time_s", [300.0, 1000.0, 2500.0])
def test_with_the_true_future_starts_are_the_true_ones(time_s: float) -> None:
    """Nodes do not matter to this comparison: jobs are packed anew, so widths are those that fill nodes."""
    table = simulated()
    table["num_gpus"] = 8
    table = simulated_again(table)
    now = at(table, time_s)
    assert len(now.queued)
    true_s = dict(zip(table["job_id"], table["duration_s"], strict=True))
    later = table[table["submit_s"] > time_s]
    jobs = np.zeros(len(later), now.jobs.dtype)
    jobs[:] = now.jobs[0]
    jobs["submit_s"], jobs["duration_s"] = later["submit_s"], later["duration_s"]
    jobs["profiled_duration_s"] = jobs["predicted_duration_s"] = later["time_limit_s"]
    run_s = np.array([true_s[each] for each in now.table["job_id"]])
    found = forecasting.starts(policy()(), now.episode(run_s, jobs), now.queued, time_s)
    was = dict(zip(table["job_id"], table["logged_start_s"], strict=True))
    assert found.tolist() == [was[each] for each in now.table["job_id"].to_numpy()[now.queued]]


@pytest.mark.parametrize("time_s", [300.0, 1000.0, 2500.0])
def test_constraints_bind_the_jobs_of_a_snapshot_and_of_its_future(time_s: float) -> None:
    """With the true future, starts are the true ones: half of the jobs run on T4s, and some wait for others."""
    rules = replace(RULES, cluster="1x8+1x8-t4", constraints="gpu_type,depends_on")
    table = simulated()
    rows = np.arange(len(table))
    waits = (rows % 5 == 4) & (table["submit_s"] <= time_s)
    table = table.assign(
        num_gpus=8,
        gpu_type=np.where(np.random.default_rng(1).random(len(table)) < 0.5, "V100", "T4"),
        depends_on=np.where(waits, "j" + pd.Series(rows - 3).astype(str), "none"),
    )
    table = simulated_again(table, rules)
    now = present(cut(table, time_s), rules)
    assert len(now.queued)
    assert len(now.constraints.waits_for)
    type_of = dict(zip(table["job_id"], table["gpu_type"], strict=True))
    like = {type_of[each]: now.jobs[row] for row, each in enumerate(now.table["job_id"])}
    later = table[table["submit_s"] > time_s]
    jobs = np.array([like[each] for each in later["gpu_type"]], now.jobs.dtype)
    jobs["submit_s"], jobs["duration_s"] = later["submit_s"], later["duration_s"]
    jobs["profiled_duration_s"] = jobs["predicted_duration_s"] = later["time_limit_s"]
    true_s = dict(zip(table["job_id"], table["duration_s"], strict=True))
    run_s = np.array([true_s[each] for each in now.table["job_id"]])
    found = forecasting.starts(policy()(), now.episode(run_s, jobs), now.queued, time_s)
    was = dict(zip(table["job_id"], table["logged_start_s"], strict=True))
    assert found.tolist() == [was[each] for each in now.table["job_id"].to_numpy()[now.queued]]
    unbound = present(cut(table, time_s), replace(rules, constraints=None))
    jobs["barred"] = 0
    assert (
        forecasting.starts(policy()(), unbound.episode(run_s, jobs), now.queued, time_s).tolist()
        != found.tolist()
    )


def test_jobs_of_the_history_stay_bound_as_later_arrivals() -> None:
    """A past job of T4s arrives again."""
    rules = replace(RULES, cluster="1x8+1x8-t4", constraints="gpu_type")
    table = simulated(3).assign(num_gpus=8, submit_s=[0.0, 1.0, 2.0], gpu_type=["T4", "V100", "V100"])
    table = table.assign(logged_start_s=[0.0, 1.0, np.nan], duration_s=[5.0, np.nan, np.nan])
    table.attrs = {"notes": []}
    now = present(cut(table, 10.0), rules)
    assert now.places == ((*range(8),), None)
    again = now.past.copy()
    again["submit_s"] = 20.0
    episode = run(policy()(), now.episode(later=again))
    assert episode.state.start_s[2] == 20
    assert episode.view.can_hold(2).tolist() == [False, True]


def test_a_job_that_runs_elsewhere_than_it_may_is_bound_to_no_node() -> None:
    """J0 asks for V100s and is known to run on T4s; nobody knows where j1 runs, which then is on V100s."""
    rules = replace(RULES, cluster="1x8+1x8-t4", constraints="gpu_type")
    table = simulated(3).assign(num_gpus=2, submit_s=[0.0, 1.0, 2.0], logged_start_s=[0.0, 1.0, np.nan])
    table = table.assign(duration_s=np.nan, gpu_type="V100")
    table.attrs = {"notes": []}
    now = present(snapshot_with(cut(table, 10.0), {"j0": [("n2", 2, (0, 1)), ("n1", 0, ())]}), rules)
    assert now.places == ((8, 9), (0, 1), None)
    assert now.constraints.may_use[:, now.constraints.node_kind].tolist() == [
        [True, True],
        [True, False],
        [True, False],
    ]
    assert any(note.startswith("running jobs on nodes that their constraints") for note in now.notes)


def test_constraints_that_a_snapshot_cannot_keep_are_refused() -> None:
    table = simulated(4).assign(logged_start_s=[0.0, np.nan, np.nan, np.nan], submit_s=[0.0, 1.0, 2.0, 3.0])
    table.attrs = {"notes": []}
    unfinished = table.assign(duration_s=np.nan)
    with pytest.raises(ValueError, match="constraints gpu_type: the jobs have no column gpu_type"):
        present(cut(unfinished, 10.0), replace(RULES, constraints="gpu_type"))
    bound = cut(unfinished.assign(gpu_type="V100", depends_on=["none", "j2", "j1", "none"]), 10.0)
    with pytest.raises(ValueError, match="constraints gpu_type: the history has no such column"):
        present(bound, replace(RULES, constraints="gpu_type"), history=table.iloc[:1])
    with pytest.raises(
        ValueError, match=r"snapshot: jobs depend on one another in a circle \(j1 -> j2 -> j1\)"
    ):
        present(bound, replace(RULES, constraints="depends_on"))


def simulated_again(jobs: pd.DataFrame, rules: Scenario = RULES) -> pd.DataFrame:
    """Return the same jobs with the starts that EASY gives them now."""
    plain = jobs.drop(columns="logged_start_s")
    plain.attrs = {"notes": [], "origin": {}}
    work = prepare(filled(plain, rules, seed=0), rules)
    return plain.assign(logged_start_s=work.results(run(policy()(), work.episode()))["start_s"].to_numpy())


def test_the_episode_begins_with_what_runs_and_what_queues() -> None:
    table = simulated()
    now = at(table, 1000.0)
    episode = now.episode()
    episode.advance()
    view = episode.view
    assert view.now == 1000
    assert {*view.queue.tolist()} == {*now.queued.tolist()}
    running = np.flatnonzero(np.isfinite(now.start_s))
    assert view.jobs.attained_s[running] == pytest.approx(1000 - now.start_s[running])
    assert view.jobs.estimate_s.tolist() == now.table["time_limit_s"].tolist()
    assert [len(view.gpus_of(job)) for job in running.tolist()] == now.table["num_gpus"].iloc[
        running
    ].tolist()


def test_known_places_are_kept() -> None:
    """GPUs 3 of n1 and 0 of n2: the names sort as nodes 0 and 1."""
    table = simulated(3).assign(num_gpus=2, submit_s=[0.0, 1.0, 2.0], logged_start_s=[0.0, np.nan, np.nan])
    table.attrs = {"notes": []}
    snapshot = cut(table.assign(duration_s=np.nan), 10.0)
    parts = [("n1", 1, (3,)), ("n2", 1, (0,))]
    found = present(snapshot_with(snapshot, {"j0": parts}), RULES)
    assert found.places == ((3, 8), None, None)
    wrong = present(snapshot_with(snapshot, {"j0": [("n1", 1, (3,)), ("n1", 1, (3,))]}), RULES)
    assert wrong.places[0] == (0, 1)  # a GPU named twice is no place: the fullest node that suffices
    assert any("as few nodes" in note for note in wrong.notes)


def snapshot_with(snapshot: Snapshot, held: Any) -> Snapshot:
    return replace(snapshot, held=held)


def test_more_running_jobs_than_gpus_are_refused() -> None:
    table = simulated(3).assign(num_gpus=8, submit_s=0.0, logged_start_s=0.0, duration_s=np.nan)
    with pytest.raises(ValueError, match="hold 24 GPUs, and 2x8 has 16"):
        present(cut(table, 10.0), RULES)


def test_survival_counts_running_jobs_as_long_as_they_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run times 1, 2+, 3, 4: 3/4 of all survive 1; of the two left after 2, half survive 3, none 4."""
    monkeypatch.setattr(forecasting, "MIN_JOBS", 3)
    time_s, share = forecasting.survival(np.array([3.0, 1.0, 2.0, 4.0]), np.array([True, True, False, True]))
    assert time_s.tolist() == [1, 3, 4]
    assert share == pytest.approx([0.75, 0.375, 0.0])


def test_run_times_are_longer_than_what_has_run_and_within_the_limit() -> None:
    table = simulated(300, seed=3)
    now = at(table, float(table["submit_s"].iloc[200]))
    batch = forecasting.batches(now.table)
    sources = forecasting.sources_of(now)
    ran_s = np.nan_to_num(now.now_s - now.start_s)
    for seed in range(20):
        run_s = forecasting.drawn_run_times(now, sources, batch, 0.5, np.random.default_rng(seed))
        assert (run_s >= ran_s).all()
        assert (run_s <= now.table["limit_s"]).all()


def test_a_queued_job_is_drawn_from_its_owners_jobs_of_its_width() -> None:
    """Ann's jobs of one GPU took 100 s and Ben's 900 s; Cy is unknown, and gets those of his width."""
    past = pd.DataFrame({"user": ["ann"] * 30 + ["ben"] * 30, "duration_s": [100.0] * 30 + [900.0] * 30})
    past = past.assign(
        job_id=[f"p{each}" for each in range(60)], num_gpus=1, submit_s=0.0, logged_start_s=0.0
    )
    past["time_limit_s"] = 5000.0
    queued = pd.DataFrame({"user": ["ann", "ben", "cy"], "job_id": ["a", "b", "c"], "submit_s": 1000.0})
    queued = queued.assign(num_gpus=1, logged_start_s=np.nan, duration_s=np.nan, time_limit_s=5000.0)
    now = at(pd.concat([past, queued], ignore_index=True), 2000.0)
    sources = forecasting.sources_of(now)
    assert [forecasting.GROUPS[each.group] for each in sources] == [
        "owner and width",
        "owner and width",
        "width",
    ]
    assert {*sources[0].time_s} == {100.0}
    assert {*sources[1].time_s} == {900.0}
    assert {*sources[2].time_s} == {100.0, 900.0}


def test_days_to_come_are_days_of_the_history() -> None:
    """Two jobs on the first day at hours 1 and 2, one on the second at hour 3; the last day is cut."""
    hour = 3600.0
    past = np.zeros(4, [("submit_s", float)])
    past["submit_s"] = [0.0, hour, 24 * hour + 3 * hour, 49 * hour]
    days = forecasting.days_of(pd.DataFrame({"submit_s": past["submit_s"]}), past)
    assert [each.tolist() for each in days] == [[0, 1], [2]]
    later = forecasting.later_jobs(past, [days[1], days[0]], 1000.0)
    assert later is not None
    assert later["submit_s"].tolist() == [1000 + 3 * hour, 1000 + 24 * hour, 1000 + 25 * hour]
    assert forecasting.later_jobs(past, [], 0.0) is None


def test_calibration_stretches_each_half_until_enough_would_have_held() -> None:
    """All waits were twice too far above the middle, and never below: only the upper half is stretched, by two."""
    middle = np.full(40, 1000.0)
    scale = np.log(middle + 60)
    low, high = np.exp(scale - 0.5) - 60, np.exp(scale + 0.5) - 60
    was = np.exp(scale + 1.0) - 60
    by = forecasting.calibrated([PastForecast(low, middle, high, was)] * 8)
    assert by._replace(high=2.0) == Calibration(forecasting.MIN_FACTOR, 2.0, 8, 320, 0.0)
    assert by.high == pytest.approx(2.0)
    ends = forecasting.stretched(low, middle, high, by)
    assert ends[1] == pytest.approx(was)


@pytest.mark.parametrize(("times", "expected"), [(100, 95), (30, 30), (8, 8)])
def test_few_past_times_need_a_larger_quantile(times: int, expected: int) -> None:
    """Of 30 times, the 95 % quantile would be 29, but without one time, 28: two of 30 times would be missed."""
    assert forecasting.factor([np.array([float(each)]) for each in range(1, times + 1)]) == expected


def test_a_backtest_compares_with_what_happened() -> None:
    table = simulated(200, seed=1)
    found = forecasting.backtest(
        table, RULES, policy(), now_s=float(table["submit_s"].max()), times=6, futures=5
    )
    assert found
    for each in found:
        assert (each.actual_s > 0).all()
        assert (each.low_s <= each.middle_s).all()


def test_past_times_at_which_the_log_held_more_gpus_than_there_are_now_are_left_out() -> None:
    """A second job of 16 GPUs runs beside every job until 2,000 s: only later times can be those of 16 GPUs."""
    table = simulated(200, seed=1)
    extra = table.head(1).assign(
        job_id="x", submit_s=0.0, num_gpus=16, logged_start_s=0.0, duration_s=2000.0, time_limit_s=3000.0
    )
    log = pd.concat([extra, table], ignore_index=True).sort_values(
        "submit_s", kind="stable", ignore_index=True
    )
    now_s = float(table["submit_s"].max())
    start_s, end_s = log["logged_start_s"], log["logged_start_s"] + log["duration_s"]
    times = np.linspace(0.2 * now_s, now_s, 6, endpoint=False)
    held = [log["num_gpus"][(start_s <= at) & (end_s > at)].sum() for at in times]
    found = forecasting.backtest(log, RULES, policy(), now_s=now_s, times=6, futures=2)
    assert max(held) > 16
    assert [each.at_s for each in found] == [at for at, gpus in zip(times, held, strict=True) if gpus <= 16]


def test_a_log_of_finished_jobs_may_have_some_without_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (now := tmp_path / "now.csv").write_text(
        "job_id,submit_s,num_gpus,duration_s,logged_start_s,time_limit_s\na,0,8,,0,2000\nb,10,8,,,100\n"
    )
    (log := tmp_path / "log.csv").write_text(
        "job_id,kind,submit_s,num_gpus,duration_s,logged_start_s,time_limit_s\np,gpu,0,1,50,0,60\nq,cpu,5,0,70,5,90\n"
    )
    args = ["forecast", str(now), "--cluster", "1x8", "--history", str(log), "--futures", "2"]
    assert main(args) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Run times sampled from 1 finished jobs" in out
    assert "Note: jobs of the history without GPUs left out: 1." in out


def test_running_jobs_of_the_history_do_not_count_as_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of sacct, which has the time that a running job has run so far."""
    (now := tmp_path / "now.csv").write_text(
        "job_id,submit_s,num_gpus,duration_s,logged_start_s,time_limit_s\na,0,8,,0,2000\nb,10,8,,,100\n"
    )
    runs = (
        SLURM_JOB.replace("101", "102")
        .replace("COMPLETED", "RUNNING")
        .replace("2024-03-01T02:10:00", "Unknown")
    )
    (log := tmp_path / "sacct.txt").write_text(f"{SLURM_HEADER}\n{SLURM_JOB}\n{runs}\n")
    args = ["forecast", str(now), "--cluster", "1x8", "--history", str(log), "--futures", "2"]
    assert main(args) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Run times sampled from 1 finished jobs" in out
    assert "Note: jobs of the history that still run or queue left out: 1." in out
    log.write_text(f"{SLURM_HEADER}\n{runs}\n")
    assert main(args) == 2
    assert "no job on GPUs that has ended" in capsys.readouterr().err


def test_a_half_that_would_have_to_be_far_longer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The upper factor is not a number where a job never started."""
    now: Any = SimpleNamespace(history=simulated(), table=pd.DataFrame(), now_s=1e6, scenario=None)
    chosen = Namespace(calibrate=9, history=None, policy="easy")
    monkeypatch.setattr(forecasting, "backtest", lambda *args, **choices: [None] * 9)
    for low, high, halves in ((2.0, math.nan, "upper"), (11.0, 12.0, "lower and upper")):
        found = Calibration(low, high, 9, 40, 0.7)
        monkeypatch.setattr(forecasting, "calibrated", lambda past, found=found: found)
        by, why = forecasting._calibration(now, policy(), chosen)
        assert by is None
        said = f"at 9 past times 70 % of 40 jobs were within 90 % intervals, whose {halves} halves would have to be"
        assert why.startswith(f"{said} more than 10 times as long on a logarithmic scale:")


def test_jobs_of_the_history_that_ended_after_the_snapshot_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job ends at 2:10 and another a day later; the snapshot is of 2:30."""
    (now := tmp_path / "now.csv").write_text(
        "job_id,submit_s,num_gpus,duration_s,logged_start_s,time_limit_s\n"
        "a,2024-03-01 02:00,8,,2024-03-01 02:30,2000\nb,2024-03-01 02:10,8,,,100\n"
    )
    tomorrow = SLURM_JOB.replace("101", "102").replace("2024-03-01", "2024-03-02")
    (log := tmp_path / "sacct.txt").write_text(f"{SLURM_HEADER}\n{SLURM_JOB}\n{tomorrow}\n")
    args = ["forecast", str(now), "--cluster", "1x8", "--history", str(log), "--futures", "2"]
    assert main(args) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Run times sampled from 1 finished jobs" in out
    assert "Note: jobs of the history that ended after the snapshot left out: 1." in out
    log.write_text(f"{SLURM_HEADER}\n{tomorrow}\n")
    assert main(args) == 2
    assert "all its jobs ended after the snapshot" in capsys.readouterr().err


def test_the_command_prints_a_row_for_each_queued_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One node of 8 GPUs: b must wait for a, which has run 500 s of at most 2,000."""
    file = tmp_path / "jobs.csv"
    file.write_text(
        "job_id,submit_s,num_gpus,duration_s,logged_start_s,time_limit_s\na,0,8,,0,2000\nb,10,8,,,100\nz,0,1,500,0,600\n"
    )
    starts = tmp_path / "starts.csv"
    args = ["forecast", str(file), "--cluster", "1x8+1x1", "--futures", "50", "--csv", str(starts)]
    assert main(args) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "1 running and 1 queued jobs on 1x8+1x1; policy easy, 50 futures" in out
    assert "Not calibrated (the history has fewer than 20 jobs)" in out
    assert "5 % (?) 50 % 95 % (?)" in out
    (row,) = pd.read_csv(starts).to_dict("records")
    assert row["job_id"] == "b"
    assert 500 <= row["low_s"] <= row["middle_s"] <= row["high_s"] <= 2000


def test_the_time_of_the_snapshot_is_that_of_the_clock() -> None:
    """1,761,915,600 s are 13:00 in London and UTC, and 14:00 in Berlin, on 31 October 2025."""
    assert forecasting.clock_time(1_761_915_600.0, None) == [
        "Snapshot of 2025-10-31 13:00:00 UTC; starts count from then"
    ]
    (line,) = forecasting.clock_time(1_761_915_600.2, "Europe/Berlin")
    assert "2025-10-31 14:00:00 CET" in line
    assert forecasting.clock_time(500.0, None) == []


def test_starts_in_a_file_are_dates_where_the_log_has_dates() -> None:
    """From 13:00 UTC on 31 October 2025: 90 s, 26 hours, and never."""
    rows = pd.DataFrame({"job_id": ["b"], "low_s": [90.0], "middle_s": [93_600.0], "high_s": [np.inf]})
    utc = forecasting.on_clock(rows, 1_761_915_600.0, None)
    assert utc.to_csv(index=False).splitlines() == [
        "job_id,low,middle,high",
        "b,2025-10-31T13:01:30+00:00,2025-11-01T15:00:00+00:00,",
    ]
    (berlin,) = forecasting.on_clock(rows, 1_761_915_600.0, "Europe/Berlin")["low"]
    assert berlin == "2025-10-31T14:01:30+01:00"
    seconds = forecasting.on_clock(rows, 500.0, "Europe/Berlin")
    assert seconds.to_csv(index=False).splitlines() == ["job_id,low_s,middle_s,high_s", "b,590.0,94100.0,"]


@pytest.mark.parametrize("zone", [None, "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_starts_beyond_the_last_year_of_dates_are_empty(zone: str | None) -> None:
    """9.5e9 s are 301 years, up to the year 2326; 3e11 s 9,500 years; dates have four digits of a year."""
    rows = pd.DataFrame({"job_id": ["b"], "low_s": [9.5e9], "middle_s": [3e11], "high_s": [4e18]})
    (row,) = forecasting.on_clock(rows, 1_761_915_600.0, zone).to_dict("records")
    assert row["low"].startswith("2326-")
    assert (row["middle"], row["high"]) == ("", "")
    last_s = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
    (row,) = forecasting.on_clock(rows, last_s - 9.5e9 - 1, zone).to_dict("records")
    assert row["low"].startswith("9999-12-3")
    (row,) = forecasting.on_clock(rows, last_s - 9.5e9, zone).to_dict("records")
    assert row["low"] == ""


def test_the_file_of_a_log_with_dates_has_dates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One node of 8 GPUs: b must wait for a, which has run 500 s of at most 2,000."""
    file, starts = tmp_path / "jobs.csv", tmp_path / "starts.csv"
    file.write_text(
        "job_id,submit_s,num_gpus,duration_s,logged_start_s,time_limit_s\n"
        "a,1761912000,8,,1761912000,2000\nb,1761912010,8,,,100\nz,1761912000,1,500,1761912000,600\n"
    )
    args = ["forecast", str(file), "--cluster", "1x8+1x1", "--futures", "50", "--csv", str(starts)]
    assert main([*args, "--time-zone", "Europe/Berlin"]) == 0
    assert "Snapshot of 2025-10-31 13:08:20 CET" in " ".join(capsys.readouterr().out.split())
    (row,) = pd.read_csv(starts).to_dict("records")
    times = [datetime.fromisoformat(row[name]) for name in ("low", "middle", "high")]
    first = datetime.fromisoformat("2025-10-31T13:08:20+01:00")
    assert first <= times[0] <= times[1] <= times[2] <= first + timedelta(seconds=1500)


@pytest.mark.parametrize(("most", "calibrated"), [(forecasting.MAX_FACTOR, True), (0.1, False)])
def test_intervals_are_not_stretched_beyond_use(
    most: float,
    calibrated: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(forecasting, "MAX_FACTOR", most)
    table = simulated(200, seed=1)
    table["duration_s"] = table["duration_s"].clip(upper=table["time_limit_s"])
    wanted = ["job_id", "submit_s", "num_gpus", "duration_s", "logged_start_s", "time_limit_s", "user"]
    (file := tmp_path / "jobs.csv").write_text(table[wanted].to_csv(index=False))
    args = [
        "forecast",
        str(file),
        "--cluster",
        CLUSTER,
        "--at",
        str(table["submit_s"].median()),
        "--futures",
        "5",
    ]
    assert main([*args, "--calibrate", "12"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ("Calibrated at" in out) == calibrated
    assert ("the log had another scheduler than easy" in out) != calibrated


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--policy", "srtf_oracle"], "requires true run times"),
        (["--policy", "eazy"], "policy 'eazy'"),
        (["--at", "never"], "a time like"),
        (["--cluster", "1x4"], "the running jobs hold 8 GPUs"),
    ],
)
def test_a_wrong_choice_is_one_sentence(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(
        "job_id,submit_s,num_gpus,duration_s,logged_start_s,time_limit_s\na,0,8,,0,9\nb,1,4,,,9\n"
    )
    assert main(["forecast", str(file), "--cluster", "1x8", *flags]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_too_few_past_times_name_the_job_that_has_queued_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Past times lie before its submission, since its start is not known: here three days ago."""
    monkeypatch.setattr(forecasting, "backtest", lambda *args, **choices: [])
    table = pd.DataFrame({"job_id": ["new", "old"], "submit_s": [1e6 - 60, 1e6 - 3 * 86_400]})
    now: Any = SimpleNamespace(
        history=simulated(), table=table, queued=np.arange(2), now_s=1e6, scenario=None,
        cluster=SimpleNamespace(name="2x8"),
    )  # fmt: skip
    for history, clause in (
        (None, ", before the submission of the job that has queued for longest (old, 3.0 days)"),
        ("log.csv", ""),
    ):
        chosen = Namespace(calibrate=9, history=history, policy="easy")
        by, why = forecasting._calibration(now, policy(), chosen)
        assert by is None
        assert why.endswith(f"on no more GPUs than 2x8 has{clause}")


def test_jobs_with_long_names_can_be_told_apart() -> None:
    """Names are as wide as the line allows: 100 characters have room for 21 + 14, and 80 for 16 + 10."""
    ids = ["robotics/job-j-00074", "robotics/job-j-00075"]
    rows = pd.DataFrame({"job_id": ids, "owner": "research-queue", "num_gpus": 1, "waited_s": 5.0})
    rows = rows.assign(low_s=1.0, middle_s=2.0, high_s=np.inf)
    _, *wide = forecasting.lines(rows, calibrated=True)
    assert [line.split()[:2] for line in wide] == [[each, "research-queue"] for each in ids]
    head, *narrow = forecasting.lines(rows, calibrated=True, width=80)
    assert [line.split()[:2] for line in narrow] == [["..." + each[-12:], "...-queue"] for each in ids]
    assert {len(line) for line in (head, *narrow)} == {80}
