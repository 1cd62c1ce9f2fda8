"""A verdict on a log knows its error, and refuses what lies below it."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines, evaluate
from gpu_cluster_gym.evaluation import runner, verdict
from gpu_cluster_gym.simulator.policy import Wait
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Scenario, full_trace

CLUSTER = "2x4"
JOBS = 250


def jobs() -> pd.DataFrame:
    """Return jobs that queue for hours at times; their limits are up to three times their run times."""
    rng = np.random.default_rng(1)
    run_s = np.round(rng.lognormal(8, 1, JOBS)) + 1
    return pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(JOBS)],
            "submit_s": np.round(np.cumsum(rng.exponential(1100, JOBS))),
            "num_gpus": rng.choice([1, 1, 2, 4], JOBS),
            "duration_s": run_s,
            "time_limit_s": np.ceil(run_s * rng.uniform(1, 3, JOBS)),
        }
    )


def logged(
    folder: Path,
    scheduler: str = "easy",
    late: Callable[[np.ndarray], np.ndarray] = lambda s: s,
    table: pd.DataFrame | None = None,
) -> str:
    """Return the path of the log of a scheduler; `late` changes its waits."""
    file, table = folder / "log.csv", jobs() if table is None else table
    table.to_csv(file, index=False)
    work = full_trace(Scenario(trace_file=str(file), cluster=CLUSTER, full_trace=True))
    policy = partial(baselines.make, baselines.load(scheduler))
    found = runner.simulate({scheduler: policy}, [work])[scheduler]
    wait_s = late(found["wait_s"].to_numpy())
    table.assign(logged_start_s=table["submit_s"] + wait_s).to_csv(file, index=False)
    return str(file)


def never(view: View) -> Wait:
    """Start no job."""
    return Wait()


def last_line(file: str, folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Return the verdict that `evaluate.py` prints, as one line."""
    args = ["--trace-file", file, "--cluster", CLUSTER, "--full-trace", "--out", str(folder / "out"), *flags]
    assert evaluate.main(args) == 0
    return " ".join(capsys.readouterr().out.split("Calibration:")[-1].split())


@pytest.mark.parametrize("scheduler", ["easy", "fifo_strict"])
def test_the_logs_own_scheduler_is_found_without_error(scheduler: str, tmp_path: Path) -> None:
    scenario = Scenario(trace_file=logged(tmp_path, scheduler), cluster=CLUSTER, full_trace=True)
    work = full_trace(scenario)
    found = verdict.calibrated(verdict.recorded(work), verdict.candidates(work, {}))
    assert (found.name, found.error, found.median_s) == (scheduler, 0, 0)
    assert found.rank == pytest.approx(1)


def test_a_large_effect_is_a_sentence_with_its_interval_and_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log of strict FIFO, every wait longer by a tenth of their mean: an error of 1 - 1 / 1.1, or 9.1 %."""
    file = logged(tmp_path, "fifo_strict", lambda wait_s: wait_s + 0.1 * wait_s.mean())
    text = last_line(file, tmp_path, capsys, "--policy", "sjf")
    assert "fifo_strict is nearest to the log" in text
    assert "sjf would have cut the mean wait by " in text
    assert "; the simulator's own error on this log is 9.1 %. Longest wait: " in text


def test_claims_that_no_job_uses_end_no_candidate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each tenant's first job waits for all GPUs, which the other tenant's second job claims, behind its first."""
    table = jobs().assign(tenant=["a", "b"] * (JOBS // 2))
    table.loc[:1, "num_gpus"] = 8
    table.loc[:3, "submit_s"] = 0.0
    file = logged(tmp_path, "fifo", table=table)
    text = last_line(
        file, tmp_path, capsys, "--quotas", "a=4,b=4", "--borrowing", "idle", "--policy", "fifo", "sjf"
    )
    assert text.startswith("fifo is nearest to the log, among fifo_strict, easy, fifo.")


def test_quotas_that_the_log_did_not_have_get_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All jobs are of one tenant, which now has half of the GPUs that it used: they wait far longer than in the log."""
    table = jobs().assign(tenant="a")
    table["num_gpus"] = table["num_gpus"].clip(upper=4)
    table["submit_s"] *= table["num_gpus"].sum() / jobs()["num_gpus"].sum()
    file = logged(tmp_path, "fifo", table=table)
    text = last_line(file, tmp_path, capsys, "--quotas", "a=4,b=4", "--policy", "fifo", "sjf")
    assert "No verdict on" in text
    assert text.endswith("compare runs with and without --quotas.")


def test_a_candidate_under_which_jobs_never_end_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "CANDIDATES", ("fifo", f"{__name__}:never"))
    text = last_line(logged(tmp_path, "fifo"), tmp_path, capsys, "--policy", "fifo", "sjf")
    assert text.startswith("fifo is nearest to the log, among fifo.")


def test_an_effect_below_the_error_is_refused(tmp_path: Path) -> None:
    """Each wait of the log is longer by a quarter of their mean, an error of 20 %; one policy cuts waits by less."""
    file = logged(tmp_path, "easy", lambda wait_s: wait_s + 0.25 * wait_s.mean())
    work = full_trace(Scenario(trace_file=file, cluster=CLUSTER, full_trace=True))
    tried = verdict.candidates(work, {})
    found = verdict.calibrated(verdict.recorded(work), tried)
    assert found.name == "easy"
    assert found.error == pytest.approx(0.2)
    better = tried["easy"].assign(wait_s=0.9 * tried["easy"]["wait_s"])
    assert "within the simulator's own error" in verdict.sentence(
        "mine", better, tried["easy"], found, frozenset()
    )
    best = tried["easy"].assign(wait_s=0.7 * tried["easy"]["wait_s"])
    assert verdict.sentence("mine", best, tried["easy"], found, frozenset({"estimates"})).startswith(
        "mine would have cut the mean wait by 30 % (30 to 30); the simulator's own error on this log is 20 %. "
    )


@pytest.mark.parametrize(
    ("scheduler", "longer", "policy", "expected"),
    [
        ("fifo_strict", 0.1, "sjf", "sjf would have cut the mean wait by "),
        ("easy", 0.0, "fifo", "fifo would have cut the mean wait by "),
        ("easy", 0.25, "fifo", "No verdict on fifo: its mean wait is "),
    ],
)
def test_of_three_logs_one_is_too_far_from_the_simulator(
    scheduler: str,
    longer: float,
    policy: str,
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Under `fifo` waits are shorter than in the second log, which is exact, and by less than the third one's error."""
    file = logged(tmp_path, scheduler, lambda wait_s: wait_s + longer * wait_s.mean())
    text = last_line(file, tmp_path, capsys, "--policy", policy)
    assert expected in text
    error = longer / (1 + longer)
    refused = f"which is within the simulator's own error on this log, {100 * error:.0f} %."
    assert text.endswith(refused) == (longer == 0.25)


def test_an_interval_with_zero_is_refused() -> None:
    """Waits are halved on five days and one and a half times as long on the five others."""
    submit_s = np.repeat(np.arange(10) * 86_400.0, 6)
    submit_s[-1] += 86_000
    own = pd.DataFrame({"submit_s": submit_s, "wait_s": 100.0, "preemptions": 0})
    factor = np.repeat([0.5, 1.5] * 5, 6)
    found = verdict.Calibration("fifo", 100.0, 100.0, 0.0, 1.0)
    text = verdict.sentence("mine", own.assign(wait_s=100 * factor), own, found, frozenset())
    assert "contains 0" in text


def test_the_interval_is_over_days() -> None:
    """Every day's waits fall by a quarter: the interval is a point, however unlike the days are."""
    own = pd.DataFrame({"submit_s": np.arange(60) * 43_200.0, "wait_s": np.arange(60.0), "preemptions": 0})
    found = verdict.effect(own.assign(wait_s=0.75 * own["wait_s"]), own)
    assert found == pytest.approx((-0.25, -0.25, -0.25))


def test_free_pauses_give_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = last_line(logged(tmp_path, "fifo_strict"), tmp_path, capsys, "--policy", "srtf")
    assert "No verdict on srtf: jobs were paused" in text
    assert "which costs nothing here" in text


def test_a_simulator_far_from_the_log_gives_no_verdict() -> None:
    found = verdict.Calibration("fifo", 100.0, 60.0, 30.0, 0.5)
    own = pd.DataFrame({"submit_s": [0.0, 1.0], "wait_s": [60.0, 60.0], "preemptions": [0, 0]})
    text = verdict.sentence("mine", own.assign(wait_s=1.0), own, found, frozenset())
    assert text.startswith("No verdict on mine: the simulator's own error on this log is 40 %")


def test_policies_without_a_verdict_share_a_sentence_that_names_the_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each wait is longer by the mean, an error of 50 %."""
    table = jobs().assign(partition=["a100", "h100"] * (JOBS // 2))
    file = logged(tmp_path, "easy", lambda wait_s: wait_s + wait_s.mean(), table)
    text = last_line(file, tmp_path, capsys, "--policy", "sjf", "srtf")
    assert "No verdict on sjf, srtf: the simulator's own error on this log is 50 %" in text
    assert text.count("No verdict") == 1
    assert "The log's jobs belong to 2 partitions (a100, h100), simulated as one" in text


@pytest.mark.parametrize(
    ("log_s", "simulated_s", "said"), [(70, 40, True), (70, 100, False), (4000, 2000, False)]
)
def test_short_waits_are_explained_by_the_schedulers_own_delays(
    log_s: int, simulated_s: int, said: bool
) -> None:
    found = verdict.Calibration("easy", float(log_s), float(simulated_s), 5.0, 0.9)
    assert ("scheduler's cycles" in verdict._short_waits(found)) == said


def test_limits_in_minutes_are_named_as_a_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = logged(tmp_path)
    table = pd.read_csv(file)
    table.assign(time_limit_s=table["time_limit_s"] / 60).to_csv(file, index=False)
    text = last_line(file, tmp_path, capsys, "--policy", "sjf")
    assert (
        f"Jobs that ran more than 2 times as long as their time limit: {JOBS} of {JOBS}; time_limit_s is in"
        in text
    )
    assert text.index("No verdict on sjf: the simulator's own error") < text.index(
        "Jobs that ran more than 2 times"
    )


def test_a_wait_of_a_minute_is_not_counted_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All jobs wait a minute but the last 50 of 250, which wait a second more."""
    table = jobs()
    table["logged_start_s"] = table["submit_s"] + np.where(np.arange(JOBS) < 200, 60.0, 61.0)
    table.to_csv(file := tmp_path / "log.csv", index=False)
    args = ["--policy", "fifo", "--trace-file", str(file), "--full-trace", "--out", str(tmp_path / "out")]
    assert evaluate.main([*args, "--cluster", "60x4"]) == 0
    assert "20 % of 250 jobs waited longer than a minute" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("changes", "flags", "why"),
    [
        (
            lambda table: table.drop(columns="logged_start_s"),
            (),
            "the log has no starts (column logged_start_s)",
        ),
        (lambda table: table.head(20), (), "the log has fewer than 50 jobs (20)"),
        (
            lambda table: table.assign(logged_start_s=table["submit_s"]),
            ("--cluster", "60x4"),
            "the mean wait in the log",
        ),
        (lambda table: table, ("--cluster", "1x4"), "the log's jobs held 8 GPUs at once, and 1x4 has 4"),
        (
            lambda table: table,
            ("--target-load", "0.5"),
            r"the jobs are not those of the log (drop --target-load)",
        ),
    ],
)
def test_what_allows_no_verdict_is_said(
    changes: Callable[[pd.DataFrame], pd.DataFrame],
    flags: tuple[str, ...],
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = logged(tmp_path)
    changes(pd.read_csv(file)).to_csv(file, index=False)
    args = ["--policy", "fifo", "--trace-file", file, "--full-trace", "--out", str(tmp_path / "out")]
    args += flags if "--cluster" in flags else ("--cluster", CLUSTER, *flags)
    assert evaluate.main(args) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"No verdict: {why}" in text


def test_the_recorded_schedule_is_a_row_with_the_waits_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = logged(tmp_path, "fifo_strict")
    last_line(file, tmp_path, capsys, "--policy", "fifo_strict", "recorded")
    ours, theirs = (pd.read_csv(tmp_path / "out" / name / "jobs.csv") for name in ("recorded", "fifo_strict"))
    pd.testing.assert_series_equal(ours["start_s"], theirs["start_s"])
    assert ours["jct_s"].mean() == pytest.approx(theirs["jct_s"].mean())


@pytest.mark.parametrize("policies", [("recorded", "sjf", "easy"), ("sjf", "recorded"), ("recorded",)])
def test_the_recorded_schedule_is_the_reference_wherever_it_is_named(
    policies: tuple[str, ...], tmp_path: Path
) -> None:
    """Each job of the log waits an hour more than under EASY, so that the log's mean JCT is an hour longer."""
    file = logged(tmp_path, "easy", lambda wait_s: wait_s + 3600.0)
    out = tmp_path / "out"
    args = ["--trace-file", file, "--cluster", CLUSTER, "--full-trace", "--out", str(out)]
    assert evaluate.main([*args, "--policy", *policies]) == 0
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["reference"] == "recorded"
    means = {name: each["mean_jct_s"] for name, each in summary["mean_over_windows"].items()}
    for name, each in summary["mean_jct_ratio"].items():
        assert each["ratio"] == pytest.approx(means[name] / means["recorded"])
    if "easy" in means:
        assert means["recorded"] == pytest.approx(means["easy"] + 3600.0)


def test_the_report_has_the_verdict_and_replays_all_but_the_recorded_schedule(tmp_path: Path) -> None:
    file = logged(tmp_path, "easy", lambda wait_s: wait_s + wait_s.mean())
    out = tmp_path / "out"
    args = ["--trace-file", file, "--cluster", CLUSTER, "--full-trace", "--report", "--out", str(out)]
    assert evaluate.main([*args, "--policy", "easy", "sjf", "recorded"]) == 0
    text = (out / "report.html").read_text(encoding="utf-8")
    assert "<h1>sjf: no verdict on this log</h1>" in text
    assert "<h2>Verdict on this log</h2>" in text
    assert "No verdict on sjf: the simulator&#x27;s own error on this log is 50 %" in text
    assert "Schedules were not recorded" not in text
    assert '"recorded":["easy","sjf"]' in text
    assert '"policy":"recorded"' in text  # a row of the chart of ratios


def test_recorded_needs_a_full_log_with_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--workload", "xonar_mix", "--windows", "1")
    assert evaluate.main(["--policy", "recorded", *few, "--out", str(tmp_path / "out")]) == 2
    assert "--policy recorded: the full trace of a log is required" in capsys.readouterr().err


def results(days: int, each: int, seed: int = 0) -> pd.DataFrame:
    """Return the submissions and completion times of some jobs a day; days differ more than the jobs of a day."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(days), each)
    jct_s = np.exp(rng.normal(0, 1, days)[day] + rng.normal(0, 0.1, days * each))
    return pd.DataFrame({"submit_s": verdict.DAY * (day + rng.uniform(size=days * each)), "jct_s": jct_s})


def test_the_ratios_of_a_full_trace_have_intervals_over_days() -> None:
    """A policy that halves every completion time has no spread; one that differs by day, that of the days."""
    own = results(30, 40)
    factor = np.where(own["submit_s"] // verdict.DAY % 2, 0.5, 1.5)
    tried = {
        "own": own,
        "half": own.assign(jct_s=own["jct_s"] / 2),
        "by day": own.assign(jct_s=own["jct_s"] * factor),
    }
    found, about = verdict.ratio_intervals(tried, "own")
    assert about == "Intervals: over 30 days of submissions."
    assert found["own"] == pytest.approx((1, 1))
    assert found["half"] == pytest.approx((0.5, 0.5))
    low, high = found["by day"]
    sums = np.array([each.groupby(own["submit_s"] // verdict.DAY)["jct_s"].sum() for each in tried.values()])
    rng = np.random.default_rng(5)
    ratios = [np.divide(*sums[[2, 0]][:, rng.integers(30, size=30)].sum(axis=1)) for _ in range(4_000)]
    assert (low, high) == pytest.approx(np.quantile(ratios, [0.025, 0.975]), abs=0.03)
    assert high - low > 0.3


def test_few_blocks_are_said() -> None:
    """A day has blocks of 2.4 hours; fewer than fifty jobs, or all at once, have no interval."""
    day = results(1, 400)
    found, about = verdict.ratio_intervals({"own": day, "same": day}, "own")
    assert found["same"] == pytest.approx((1, 1))
    assert (
        about == "Intervals: over 10 blocks of 2.4 h of submissions; they are too narrow for fewer than 20."
    )
    for few in (results(30, 1), results(1, 60).assign(submit_s=0.0)):
        found, about = verdict.ratio_intervals({"own": few, "same": few}, "own")
        assert not found
        assert about.startswith("No intervals: ")
