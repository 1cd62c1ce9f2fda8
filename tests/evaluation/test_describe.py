"""A log is described by hand-computed numbers: load, widths, run times, waits, tenants."""

from pathlib import Path

import numpy as np
import pytest

from gpu_cluster_gym.__main__ import main
from gpu_cluster_gym.evaluation import describe
from gpu_cluster_gym.traces import load

LOG = """job_id,submit_s,num_gpus,duration_s,logged_start_s,tenant
a,0,2,3600,0,red
b,600,4,1800,1800,blue
c,3600,1,3600,3600,red
"""


def described(folder: Path, text: str = LOG) -> list[str]:
    file = folder / "jobs.csv"
    file.write_text(text)
    return describe.description(load(file=file, seed=0), file.name)


def test_gpus_held_are_a_step_function() -> None:
    """2 GPUs from 0 to 3,600 s, 4 more from 1,800 on to 3,600 s; one from 3,600 to 7,200 s."""
    begin, end, gpus = (np.array(each, float) for each in ([0, 1800, 3600], [3600, 3600, 7200], [2, 4, 1]))
    time, held = describe.gpus_held(begin, end, gpus)
    assert time.tolist() == [0, 1800, 3600, 7200]
    assert held.tolist() == [2, 6, 1, 0]


def test_load_is_the_mean_and_the_peak_of_each_interval(tmp_path: Path) -> None:
    """Over two hours in intervals of 10 minutes: 2, 2, 2, 6, 6, 6, then 1 six times."""
    file = tmp_path / "jobs.csv"
    file.write_text(LOG)
    found = describe.load_over_time(load(file=file, seed=0))
    assert found.step_s == 600
    assert found.mean.tolist() == [2, 2, 2, 6, 6, 6, 1, 1, 1, 1, 1, 1]
    assert found.peak.tolist() == [2, 2, 2, 6, 6, 6, 1, 1, 1, 1, 1, 1]
    assert found.submitted.tolist() == [1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_the_description_has_widths_waits_and_tenants(tmp_path: Path) -> None:
    lines = [" ".join(line.split()) for line in described(tmp_path)]
    assert lines[0] == "jobs.csv: 3 jobs within 60.0 min, 3 of them on GPUs"
    assert "Load (GPUs held, from logged starts): 6 at most" in lines
    assert "GPUs jobs share GPU time mean wait, min" in lines
    assert "3-4 1 33.3 % 40.0 % 20.0" in lines  # 4 x 1,800 of 18,000 GPU-seconds; 1,200 s of wait
    assert "mean p10 p50 p90 p99" in lines
    assert "run time, min 50.0 36.0 60.0 60.0 60.0" in lines
    assert "wait, min 6.7 0.0 0.0 16.0 19.6" in lines
    assert "red 2 60.0 % 0.0" in lines
    assert "from, min jobs mean peak" in lines
    assert "10.0 1 2.0 2 ##########" in lines


def test_a_row_of_times_has_one_unit(tmp_path: Path) -> None:
    """Run times of hours and waits of seconds."""
    rows = [f"{job},0,1,{hours * 3600},{hours},u" for job, hours in (("a", 1), ("b", 5), ("c", 9))]
    lines = described(tmp_path, "\n".join([LOG.splitlines()[0], *rows, ""]))
    assert "run time, h 5.0 1.8 5.0 8.2 8.9" in [" ".join(line.split()) for line in lines]
    assert "wait, s 5 2 5 8 9" in [" ".join(line.split()) for line in lines]


def test_the_virtual_cluster_is_the_tenant_of_a_log_without_another(tmp_path: Path) -> None:
    """As with quotas; a log with neither has users."""
    text = LOG.replace("tenant\n", "vc,user\n").replace("red\n", "red,ann\n").replace("blue\n", "blue,ann\n")
    lines = [" ".join(line.split()) for line in described(tmp_path, text)]
    assert "Tenant jobs GPU time mean wait, min" in lines
    assert "red 2 60.0 % 0.0" in lines
    lines = [" ".join(line.split()) for line in described(tmp_path, text.replace("vc", "qos"))]
    assert "ann 3 100.0 % 6.7" in lines


def test_a_column_has_one_unit_by_its_size() -> None:
    """The lower median of the durations above 0 chooses it, or a given duration."""
    assert describe.column([0.0, 30.0, 7200.0, 10_800.0]) == ("h", ["0.0", "0.0", "2.0", "3.0"])
    assert describe.column([0.0, 90.0, 100.0]) == ("s", ["0", "90", "100"])
    assert describe.column([0.0, 86_400.0, 172_800.0], 86_400.0) == ("h", ["0.0", "24.0", "48.0"])
    assert describe.column([0.0]) == ("s", ["0"])
    assert describe.duration(172_800.0) == "2.0 days"


def test_a_log_without_starts_says_so(tmp_path: Path) -> None:
    lines = described(tmp_path, "job_id,submit_s,num_gpus,duration_s\na,0,1,60\n")
    assert "The log has no starts, so waits are unknown." in lines
    assert any("submissions, since the log has no starts" in line for line in lines)


@pytest.mark.parametrize(("limit", "count"), [("60", 1), ("01:00", 1), ("3600", 0), ("01:00:00", 0)])
def test_time_limits_in_another_unit_are_noted(limit: str, count: int, tmp_path: Path) -> None:
    """Jobs of 30, 60 and 1 min with a limit of 60 min, in minutes, as hours and minutes, in seconds, and in full."""
    rows = [f"{job},0,1,{run_s},{limit}" for job, run_s in (("a", 1800), ("b", 3600), ("c", 60))]
    lines = described(tmp_path, "\n".join(["job_id,submit_s,num_gpus,duration_s,time_limit_s", *rows, ""]))
    note = (
        "Note: jobs that ran more than 2 times as long as their time limit: 2 of 3; time_limit_s is in seconds "
        "(if the log has minutes, multiply them by 60; 12:00 is 12 minutes, and 12:00:00 is 12 hours)."
    )
    assert lines.count(note) == count


def test_the_command_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs.csv").write_text(LOG)
    picture = tmp_path / "log.png"
    assert main(["describe", str(tmp_path / "jobs.csv"), "--plot", str(picture)]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("jobs.csv: 3 jobs")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_bad_log_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", str(tmp_path / "no.csv")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("expected a readable file")


def test_wrong_columns_are_named_with_their_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file := tmp_path / "jobs.csv").write_text(LOG)
    assert main(["describe", str(file), "--columns", 'job_id="x']) == 2
    assert '--columns job_id="x: a closing quote is missing' in capsys.readouterr().err


def test_an_unknown_time_zone_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file := tmp_path / "jobs.csv").write_text(LOG)
    assert main(["describe", str(file), "--time-zone", "Berlin"]) == 2
    said = capsys.readouterr().err
    assert "--time-zone 'Berlin': expected a time zone like Europe/Berlin" in said
    assert said.endswith("; did you mean 'Europe/Berlin'?\n")
